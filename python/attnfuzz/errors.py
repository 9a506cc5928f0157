"""The declaration of how a target rounds."""

import functools
from dataclasses import dataclass

from attnfuzz.contract import FORMAT_TF32, PLAN_CHOICES


@dataclass(frozen=True)
class Errors:
    """How the kernel rounds. The bound of every element is computed from it. None: not known; the loosest documented
    class is assumed, and every verdict says so.

    accumulator  "ffma" (fp32, one rounding a multiply-add) or "tensor" (a tensor core's)
    p            format of the probabilities in P.V: "fp32", "input" (that of Q, K and V), "fp16", "bf16", "tf32", "e4m3",
                 "e5m2"
    p_scale      P is multiplied by this before it is rounded: 256 with "e4m3"; 0: by 1
    p_order      "unnormalised": exp(x - max) is rounded, and O is divided by the sum, as in flash attention; "normalised":
                 exp(x - max) is divided by the sum, and then rounded, as by a textbook softmax; None: either
    v, v_scale   the same for V in P.V; None: V is not converted
    products     "tf32": Q, K, P and V are rounded to TF32 in the matrix products; None: they are not
    partials     format of partial results of splits of the keys: "fp32" or "input"
    merge        how partial results, each divided by its sum, are weighed: "weight" (exp of the LSE minus the largest, all
                 divided by their sum), "lse" (exp of the LSE minus the LSE of all), "one_by_one" (each with the merge so far)
    merging      "input": partial results are not divided by their sums, and Q's format is used for the weights (exp of
                 their maxima minus the largest), the weighted results, and both merged sums; None: "fp32"
    exp          "ex2.approx", "exp2f", "expf", "fast_expf"
    log          "lg2.approx", "logf", "fast_logf"
    rcp          "approx", "exact"
    tanh         "approx", "tanhf"; read only with a softcap
    scale        "fused" (into the exponent), "separate" (the scaled score is rounded), "folded_q" (Q is scaled first),
                 "separate_fma" (the scaled score is rounded, its product with log2 e is not; the bound allows for "fused" and
                 "separate" too)
    rescales     the most rescales of the accumulator in a row; None: one for each tile of keys
    merges       the most merges of partial results in a row
    conversion   how P, V and dS are rounded to fewer bits: to the "nearest" number, or "faithful": to either neighbour

    These fields describe a backward pass:
    ds           format of dS (after the softcap's derivative) as a factor of dQ and dK, as for p; None: Q's
    heads        format of dK and dV of one query head before they are added up over a group's heads: "fp32" or "input"
    dq_adds      the most fp32 additions of partial sums for an element of dQ; dkv_adds: of dK and dV; 0: not known
    saved        "given": it reads the O and LSE that it is given; "recomputed": it runs the forward pass itself, as
                 automatic differentiation does, and its own O and LSE have rounding errors
    """

    accumulator: str = None
    p: str = None
    partials: str = None
    exp: str = None
    log: str = None
    rcp: str = None
    tanh: str = None
    scale: str = None
    rescales: int = None
    merges: int = 0
    mma_block: int = 0
    flush_to_zero: bool = True
    isolates_masked_nan: bool = False
    deterministic: bool = False
    products: str = None
    merge: str = None
    merging: str = None
    v: str = None
    p_scale: float = 0
    v_scale: float = 0
    ds: str = None
    heads: str = None
    dq_adds: int = 0
    dkv_adds: int = 0
    saved: str = "given"
    conversion: str = "nearest"
    p_order: str = None

    _classes = {name: PLAN_CHOICES[name][1] for name in ("accumulator", "p", "v", "partials", "merge", "merging", "exp", "log",
                                                         "rcp", "tanh", "scale", "ds", "heads", "saved", "conversion",
                                                         "p_order")}

    def __post_init__(self):
        for name in ("p", "v", "partials", "merging", "ds", "heads"):
            for dtype in ("f16", "f32"):
                if getattr(self, name) == dtype:
                    object.__setattr__(self, name, dtype.replace("f", "fp"))
        for name, values in self._classes.items():
            if getattr(self, name) not in values:
                known = ", ".join(repr(v) for v in values)
                raise ValueError(f"Errors({name}={getattr(self, name)!r}): must be one of {known}")
        if self.products not in (None, "tf32"):
            raise ValueError(f"Errors(products={self.products!r}): 'tf32' or None")
        if self.products and (self.p or self.v):
            raise ValueError(f"Errors(products={self.products!r}, p={self.p!r}, v={self.v!r}): the products say what P "
                             "and V are rounded to")
        if self.p_order == "normalised" and self.merging == "input":
            raise ValueError("Errors(p_order='normalised', merging='input'): partial results that are merged by their "
                             "maxima are not divided by their sums")
        for name in ("p_scale", "v_scale"):
            if not (getattr(self, name) == 0 or 2.0**-60 <= getattr(self, name) <= 2.0**60):
                raise ValueError(f"Errors({name}={getattr(self, name)!r}): 0 (as it is) or 2^-60..2^60")

    def words(self):
        """In the words of --errors; classes that are not known are left out."""
        words = [f"{name}={getattr(self, name)}" for name, values in self._classes.items()
                 if getattr(self, name) != values[0]]
        words += [f"{name}={self.products}" for name in ("qk", "p", "v") if self.products]
        numbers = ("rescales", "merges", "mma_block", "p_scale", "v_scale", "dq_adds", "dkv_adds")
        words += [f"{name}={getattr(self, name)}" for name in numbers if getattr(self, name)]
        flags = ("flush_to_zero", "isolates_masked_nan")
        return " ".join(words + [f"{name}={int(getattr(self, name))}" for name in flags])

    @functools.cached_property
    def _columns(self):
        """The fields of attn_plan that do not depend on the problem."""
        fields = {PLAN_CHOICES[name][0]: values.index(getattr(self, name)) for name, values in self._classes.items()}
        if self.products:
            fields.update(dict.fromkeys(("qk_format", "p_format", "v_format"), FORMAT_TF32))
        for name in ("merges", "mma_block", "p_scale", "v_scale", "flush_to_zero", "isolates_masked_nan",
                     "deterministic", "dq_adds", "dkv_adds"):
            fields[name] = getattr(self, name)
        return tuple(fields.items())

    def fill(self, plan, problem, tiles):
        """Sets these fields in an attn_plan whose other fields are set."""
        for name, value in self._columns:
            setattr(plan, name, value)
        plan.tile_q, plan.tile_k = tiles
        plan.split_tiles = -(-problem.seq_k // tiles[1])
        plan.rescales = plan.split_tiles if self.rescales is None else self.rescales
