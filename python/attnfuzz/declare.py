"""The declaration of a target: where it runs, how it rounds, what it takes."""

import contextlib
import ctypes
import functools
import inspect
import os
import re
from dataclasses import dataclass, field

from attnfuzz.contract import (BF16, BOTTOM_RIGHT, CPU, CUDA, DOMAIN_VALUES, F16, F32, FEATURE_BITS, FEATURE_WIDE, FORMAT_TF32,
                               OF_FORWARD, OPERATIONS, PLAN_CHOICES, PROBLEM_FIELDS, TENSOR_SPECS, TOP_LEFT, USUAL_DIMS)
from attnfuzz.contract import DomainStruct as CDomain
from attnfuzz.contract import Sizes as CSizes


DTYPES = ("f16", "bf16", "f32")  # in the order of attn_dtype
INDEX_TYPES = ("i64", "i32")  # in the order of attn_index
RAGGED_QUERIES, RAGGED_KEYS = 1, 2  # attn_ragged
_OTHER_NAMES = {"fp16": "f16", "fp32": "f32"}


def dtype_named(name):
    """A format's name in attnfuzz: "f32" for "f32" or "fp32". Anything that is no format is returned unchanged."""
    return _OTHER_NAMES.get(name, name)


class Unsupported(Exception):
    """Raised by a target for a legal problem that it does not support. The case counts as refused, not as failed."""


def shows_known():
    """True if known failures should show, as with ATTNFUZZ_KNOWN=1 before replay."""
    return os.environ.get("ATTNFUZZ_KNOWN") == "1"


def known(why):
    """Raised for a problem on which a target is known to fail. The case counts as refused, so that
    a failure is a new one."""
    if not shows_known():
        raise Unsupported(f"known: {why}")


@dataclass(frozen=True)
class Errors:
    """How the kernel rounds. The bound of every element is computed from it. None: not known; the loosest documented
    class is assumed, and every verdict says so.

    accumulator  "ffma" (fp32, one rounding a multiply-add) or "tensor" (a tensor core's)
    p            format of the probabilities in P.V: "fp32", "input" (that of Q, K and V), "fp16", "bf16", "tf32", "e4m3",
                 "e5m2"
    p_scale      P is multiplied by this before it is rounded: 256 with "e4m3"; 0: by 1
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

    Of a backward pass:
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

    _classes = {name: PLAN_CHOICES[name][1] for name in ("accumulator", "p", "v", "partials", "merge", "merging", "exp", "log",
                                                         "rcp", "tanh", "scale", "ds", "heads", "saved", "conversion")}

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


LAYOUTS = DOMAIN_VALUES["layout"]
LSE_DEAD = PLAN_CHOICES["lse_dead"][1]


class Size:
    """A limit of one size, made by at_least(), at_most() and multiple(). `only`: a list of the allowed sizes."""

    def __init__(self, least=None, most=None, multiple=None, only=None):
        self.least, self.most, self.multiple, self.only = least, most, multiple, only and sorted(only)

    def __repr__(self):
        return f"Size({self.least!r}, {self.most!r}, {self.multiple!r}, {self.only!r})"

    @staticmethod
    def of(value):
        if value is None or isinstance(value, Size):
            return value or Size()
        if isinstance(value, int):
            return Size(only=[value])
        if isinstance(value, range):
            if value.step > 1 and value.start % value.step:
                return Size(only=list(value))
            return Size(least=value.start, most=value[-1], multiple=value.step if value.step > 1 else None)
        return Size(only=list(value))

    def words(self, name):
        parts = [(">=", self.least), ("<=", self.most), ("%", self.multiple),
                 ("=", self.only and ",".join(map(str, self.only)))]
        return [f"{name}{sign}{value}" for sign, value in parts if value is not None]

    def struct(self):
        """As attn_sizes. A list that is too long becomes the range around it."""
        only = self.only or []
        if len(only) > len(CSizes().list):
            return CSizes(least=only[0], most=only[-1])
        made = CSizes(self.least or 0, self.most or 0, self.multiple or 0, len(only))
        made.list[: len(only)] = only
        return made

    def holds_some_from(self, least):
        """True if it allows a size of at least `least`."""
        return max(self.only or [least]) >= least and (self.most is None or self.most >= least)

    def holds(self, n):
        return ((self.least is None or n >= self.least) and (self.most is None or n <= self.most)
                and (self.multiple is None or n % self.multiple == 0) and (self.only is None or n in self.only))


def at_least(least):
    """A size of a Domain that is at least `least`: Domain(seq_k=at_least(1))."""
    return Size(least=least)


def at_most(most):
    """A size of a Domain that is at most `most`: Domain(dim=at_most(256))."""
    return Size(most=most)


def multiple(of, least=None, most=None):
    """A size of a Domain that is a multiple of `of`, from `least` to `most`: Domain(seq=multiple(64, most=1024))."""
    return Size(multiple=of, least=least, most=most)


@dataclass(frozen=True)
class Domain:
    """What the kernel takes. Cases are drawn, varied and reduced inside it. A refusal inside it is a failure.

    Sizes (batch, heads_q, heads_kv, seq_q, seq_k, dim_qk, dim_v; `dim` and `seq` set both of theirs; `group` is heads_q /
    heads_kv): one number, a set, a range, at_most(n), at_least(n) or multiple(n). dtypes: "f16", "bf16" and "f32" (also
    written "fp16" and "fp32"). causal may also be "only", scale "positive", align "top_left" or "bottom_right", bias "own" (in
    Q's format). False means that the kernel does not support it; non_finite=False that it promises nothing if Q, K or V hold
    NaN or an infinity.

    Layout of tensors: layout "dense" (in the order of their dimensions, without gaps) or "inner" (columns side by side).
    align_bytes=16: addresses are multiples of it; unless layout is "dense", so are the strides of Q, K and V in bytes,
    except those of columns.

    features: a kernel gets problems with these only if it names them here. "has_sink", "has_alibi", "latent" and "key_step" are
    fields of attn_problem; with the last, keys stand for blocks, which p.key_step and p.key_offset describe. "packed": batch
    entries lie packed, with cu_seqlens_q and cu_seqlens_k; "paged": keys lie in pages, with block_table and key_lengths;
    "int32": all these may be int32. Of a backward pass: "dlse", "dbias" and "dsink" are tensors of attn_tensors. Dims above 256
    are drawn only if a limit of dim, dim_qk or dim_v allows them: dim_qk={576}.

    The LSE: lse=False if the function returns none; lse_base 2 if it is the log2 of the sum; lse_dead "-inf", "+inf", "0" or
    "any" (not judged) is its value for a query that sees no key. Of operation="nsa_score", lse=False says that the function
    returns no scores.
    """

    dtypes: tuple = ("f16", "bf16")
    batch: object = None
    heads_q: object = None
    heads_kv: object = None
    group: object = None
    seq: object = None
    seq_q: object = None
    seq_k: object = None
    dim: object = None
    dim_qk: object = None
    dim_v: object = None
    equal_lengths: bool = False
    equal_dims: bool = False
    gqa: bool = True
    causal: object = True
    align: str = None
    window: bool = True
    softcap: bool = True
    key_lengths: bool = True
    bias: object = True
    mask: bool = True
    bias_with_mask: bool = True
    causal_with_mask: bool = True
    scale: object = True
    lse: bool = True
    non_finite: bool = True
    layout: str = None
    align_bytes: int = None
    lse_base: object = "e"
    lse_dead: str = "-inf"
    features: tuple = ()
    _sizes: dict = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self):
        given = (self.dtypes,) if isinstance(self.dtypes, str) else self.dtypes
        object.__setattr__(self, "dtypes", tuple(dtype_named(name) for name in given))
        unknown = set(self.dtypes) - set(DTYPES)
        if unknown or not self.dtypes:
            raise ValueError(f"Domain(dtypes={self.dtypes!r}): of 'f16', 'bf16' and 'f32'")
        if self.align not in (None, "top_left", "bottom_right"):
            raise ValueError(f"Domain(align={self.align!r}): 'top_left', 'bottom_right' or None for both")
        if self.causal not in (True, False, "only"):
            raise ValueError(f"Domain(causal={self.causal!r}): True, False or 'only'")
        if self.bias not in (True, False, "own"):
            raise ValueError(f"Domain(bias={self.bias!r}): True, False or 'own'")
        if self.layout not in LAYOUTS:
            raise ValueError(f"Domain(layout={self.layout!r}): 'dense', 'inner' or None for any")
        if self.align_bytes is not None and self.align_bytes not in [1 << n for n in range(9)]:
            raise ValueError(f"Domain(align_bytes={self.align_bytes!r}): a power of two up to 256, or None for any")
        if self.lse_base not in ("e", 2):
            raise ValueError(f"Domain(lse_base={self.lse_base!r}): 'e' or 2")
        if self.lse_dead not in LSE_DEAD:
            raise ValueError(f"Domain(lse_dead={self.lse_dead!r}): '-inf', '+inf', '0' or 'any'")
        object.__setattr__(self, "features", (self.features,) if isinstance(self.features, str) else tuple(self.features))
        if unknown := set(self.features) - set(FEATURE_BITS):
            raise ValueError(f"Domain(features={self.features!r}): there is no {', '.join(sorted(unknown))}; there are "
                             f"{', '.join(FEATURE_BITS) or 'none'}")
        sizes = {}
        for name in ("batch", "heads_q", "heads_kv", "group", "seq_q", "seq_k", "dim_qk", "dim_v"):
            both = {"seq_q": self.seq, "seq_k": self.seq, "dim_qk": self.dim, "dim_v": self.dim}.get(name)
            given = getattr(self, name)
            sizes[name] = Size.of(both if given is None else given)
        if self.group is not None and not self.gqa:
            raise ValueError(f"Domain(group={self.group!r}, gqa=False): gqa=False means group=1; say one of both")
        if not sizes["group"].holds_some_from(1):
            raise ValueError(f"Domain(group={self.group!r}): a group has 1 query head at least")
        object.__setattr__(self, "_sizes", sizes)

    # Each word, with the problems that it excludes.
    _rules = (
        ("equal_lengths", lambda d: d.equal_lengths, lambda p, t: p.seq_q != p.seq_k),
        ("equal_dims", lambda d: d.equal_dims, lambda p, t: p.dim_qk != p.dim_v),
        ("no_gqa", lambda d: not d.gqa, lambda p, t: p.heads_q != p.heads_kv),
        ("no_f16", lambda d: "f16" not in d.dtypes, lambda p, t: p.dtype == F16),
        ("no_bf16", lambda d: "bf16" not in d.dtypes, lambda p, t: p.dtype == BF16),
        ("no_causal", lambda d: not d.causal, lambda p, t: p.causal),
        ("only_causal", lambda d: d.causal == "only", lambda p, t: not p.causal),
        ("top_left", lambda d: d.align == "top_left", lambda p, t: _diagonal(p) and p.align != TOP_LEFT),
        ("bottom_right", lambda d: d.align == "bottom_right", lambda p, t: _diagonal(p) and p.align != BOTTOM_RIGHT),
        ("no_window", lambda d: not d.window, lambda p, t: p.window_left >= 0 or p.window_right >= 0),
        ("no_softcap", lambda d: not d.softcap, lambda p, t: p.softcap != 0),
        ("no_key_lengths", lambda d: not d.key_lengths, lambda p, t: p.has_key_lengths),
        ("no_bias", lambda d: not d.bias, lambda p, t: p.bias_dtype >= 0),
        ("no_mask", lambda d: not d.mask, lambda p, t: p.has_mask),
        ("own_bias", lambda d: d.bias == "own", lambda p, t: p.bias_dtype >= 0 and p.bias_dtype != p.dtype),
        ("no_bias_with_mask", lambda d: not d.bias_with_mask, lambda p, t: p.bias_dtype >= 0 and p.has_mask),
        ("no_causal_with_mask", lambda d: not d.causal_with_mask,
         lambda p, t: p.causal and (p.bias_dtype >= 0 or p.has_mask)),
        ("positive_scale", lambda d: d.scale == "positive", lambda p, t: p.scale <= 0),
        ("finite", lambda d: not d.non_finite, lambda p, t: False),
        ("usual_scale", lambda d: not d.scale, lambda p, t: abs(p.scale * p.dim_qk**0.5 - 1) > 1e-6),
        ("no_lse", lambda d: not d.lse, lambda p, t: any(getattr(t, member_of(name)).data for name in optional_outputs(p.features))),
    )
    # Words with a value, each with two functions: is it set; does a problem lie outside of it.
    _values = (
        ("layout", lambda d: d.layout, lambda d, p, t: _not_laid(d.layout, p, t)),
        ("align_bytes", lambda d: d.align_bytes, lambda d, p, t: _not_aligned(d, p, t)),
        ("lse_base", lambda d: d.lse_base != "e", lambda d, p, t: False),
        ("lse_dead", lambda d: d.lse_dead != "-inf", lambda d, p, t: False),
    )

    def words(self):
        """In the words that the C++ side reads (properties/case/features/domain.h)."""
        words = [word for name, size in self._sizes.items() for word in size.words(name)]
        names = [name for name, declared, _ in self._rules if declared(self)]
        if "f32" in self.dtypes:
            names = [name for name in DTYPES if name in self.dtypes] + [n for n in names if n not in ("no_f16", "no_bf16")]
        values = [f"{name}={getattr(self, name)}" for name, declared, _ in self._values if declared(self)]
        return " ".join(words + names + values)

    def struct(self):
        """The domain as an attn_domain, as far as that can express it; None if nothing is declared.
        The rest is found by asking plan()."""
        if not self.words():
            return None
        made = CDomain(size=ctypes.sizeof(CDomain), equal_lengths=self.equal_lengths, equal_dims=self.equal_dims,
                       causal={True: 0, False: 1, "only": 2}[self.causal], lse=not self.lse, usual_scale=not self.scale,
                       align={None: 0, "top_left": 1 + TOP_LEFT, "bottom_right": 1 + BOTTOM_RIGHT}[self.align],
                       layout=LAYOUTS.index(self.layout), align_bytes=self.align_bytes or 0)
        for name in ("batch", "heads_q", "group", "seq_q", "seq_k", "dim_qk", "dim_v"):
            setattr(made, name, self._sizes[name].struct())
        if not self.gqa:
            made.group = Size(only=[1]).struct()
        return made

    def feature_bits(self):
        """The bits of attn_kernel.features that the domain asks for; ATTN_FEATURE_F32 follows from dtypes."""
        wide = any(max([size.most or 0, *(size.only or ())]) > USUAL_DIMS
                   for size in (self._sizes["dim_qk"], self._sizes["dim_v"]))
        return sum({FEATURE_BITS[name] for name in self.features}) | (FEATURE_WIDE if wide else 0)

    def say_lse(self, plan):
        """Sets the form of the LSE (lse_base, lse_dead) in an attn_plan."""
        plan.lse_base = 0 if self.lse_base == "e" else 2
        plan.lse_dead = LSE_DEAD.index(self.lse_dead)

    def outside(self, p, tensors):
        """Why the kernel does not support a problem, in a sentence; None if it does."""
        for name, size in self._limits:
            if name in (*_sizes_of(p.features & _OPERATION_BITS), "group") and not size.holds(given := _size_of(p, name)):
                return f"{name} is {given}: declared for {' '.join(size.words(name))}"
        scores = "seq_k" in _sizes_of(p.features & _OPERATION_BITS)
        for name, breaks in self._declared:
            if (scores or name not in self._of_scores) and breaks(p, tensors):
                return f"declared with {name}"
        return None

    # The words that speak of scores, which a merge and an operation that writes caches do not have.
    _of_scores = ("only_causal", "usual_scale", "positive_scale")

    @functools.cached_property
    def _limits(self):
        return [(name, size) for name, size in self._sizes.items() if size.words(name)]

    @functools.cached_property
    def _declared(self):
        values = [(f"{name}={getattr(self, name)}", functools.partial(breaks, self))
                  for name, declared, breaks in self._values if declared(self)]
        return values + [(name, breaks) for name, declared, breaks in self._rules if declared(self)]


# The inputs by name; the outputs, among them caches, which an operation reads and writes in place; and the tensors with
# strides. A name is that of TENSOR_SPECS, where the O that a backward pass reads is
# "saved_o"; argument_of() says what a function calls it.
INPUTS = tuple(name for name, (role, *_) in TENSOR_SPECS.items() if role == "input")
OUTPUTS = tuple(name for name, (role, *_) in TENSOR_SPECS.items() if role in ("output", "state"))
STATES = tuple(name for name, (role, *_) in TENSOR_SPECS.items() if role == "state")
STRIDED = tuple(name for name, spec in TENSOR_SPECS.items() if spec[4])
_OPERATION_BITS = sum(OPERATIONS.values())
# The operations that read what an earlier call has stored.
_OF_STORED = OPERATIONS["backward"] | OPERATIONS["selected_backward"] | OPERATIONS["nsa_score"]


def _belongs_to(name, feature):
    """True if the operation that this bit of Problem.features asks for (0: the forward pass) has the tensor."""
    return bool(TENSOR_SPECS[name][6] & (feature or OF_FORWARD))


def always_there(name):
    """True if each problem of an operation that has the tensor has it."""
    return TENSOR_SPECS[name][3] is None and not TENSOR_SPECS[name][8]


def inputs_of(operation):
    """The inputs of an operation by name. Those that are always there come first; the last of these are what an earlier call stored."""
    names = [name for name in INPUTS if _belongs_to(name, OPERATIONS[operation])]
    others = (_OPERATION_BITS | OF_FORWARD) & ~_OF_STORED  # operations that Python lacks do not count
    return sorted(names, key=lambda name: (not always_there(name), not TENSOR_SPECS[name][6] & others))


def outputs_of(feature):
    """The outputs of the operation that these bits of Problem.features ask for, by name, in the table's order."""
    return [name for name in OUTPUTS if _belongs_to(name, feature & _OPERATION_BITS)]


def optional_outputs(feature):
    """The outputs of an operation that some calls do not want: an LSE, and scores of blocks beside lists."""
    return [name for name in outputs_of(feature) if name in ("lse", "block_scores")]


def member_of(name):
    """The member of attn_tensors that holds a tensor."""
    return TENSOR_SPECS[name][7]


def argument_of(name):
    """What a function calls a tensor: "o" for "saved_o"; an output O is written into "out"."""
    return {"o": "out", "cu_q": "cu_seqlens_q", "cu_k": "cu_seqlens_k"}.get(name) or member_of(name)


def asked_for(p, name):
    """True if a problem has the tensor."""
    field, feature = TENSOR_SPECS[name][3], TENSOR_SPECS[name][8]
    if not _belongs_to(name, p.features & _OPERATION_BITS) or (feature and not p.features & feature):
        return False
    if field == "ragged":
        return bool(p.ragged & (RAGGED_QUERIES if name == "cu_q" else RAGGED_KEYS))
    return field is None or (getattr(p, field) >= 0 if PROBLEM_FIELDS[field] == "dtype" else bool(getattr(p, field)))


_LIMITED = frozenset(("batch", "heads_q", "seq_q", "seq_k", "dim_qk", "dim_v"))


@functools.cache
def _sizes_of(feature):
    """The fields of Problem that are sizes of an operation's tensors."""
    return frozenset(size for name in TENSOR_SPECS if _belongs_to(name, feature) for size in TENSOR_SPECS[name][2])


def refuse_sizes(operation, words):
    """Raises ValueError for a word of a domain that limits a size that the operation lacks."""
    there = _sizes_of(OPERATIONS[operation])
    for word in words:
        name = re.split("[=<>%]", word)[0]
        sizes = {"seq": ("seq_q", "seq_k"), "dim": ("dim_qk", "dim_v")}.get(name, (name,))
        if set(sizes) <= _LIMITED and not there & set(sizes):
            raise ValueError(f"domain: {operation} has no {name}; leave {word} out")


def has_groups(operation):
    """True if an operation has tensors of query heads and of KV heads."""
    return {"heads_q", "heads_kv"} <= _sizes_of(OPERATIONS[operation])


def _size_of(p, name):
    """A size that a domain may limit."""
    return getattr(p, name) if name != "group" else p.heads_q // p.heads_kv


def is_packed(p, name):
    """True if the batch entries of a tensor lie packed: a tensor of queries or keys, except a mask, a bias and its gradient."""
    side = _packable(name)
    return bool(side and p.ragged & side)


@functools.cache
def _packable(name):
    """The bit of Problem.ragged by which the entries of a tensor are packed; 0: they never are."""
    batch, _, rows, columns = TENSOR_SPECS[name][2]
    if batch != "batch" or columns == "seq_k" or not _belongs_to(name, TENSOR_SPECS["cu_q"][6]):
        return 0
    return {"seq_q": RAGGED_QUERIES, "seq_k": RAGGED_KEYS}.get(rows, 0)


def in_pages(p, name):
    """True if a tensor is a pool of pages: K and V of a call with a block table."""
    return bool(p.page_size and _packable(name) == RAGGED_KEYS)


# The sizes that are no field of Problem. A cache has a store for each page, or without pages for each batch entry.
_SIZES = {
    None: lambda p: 1,
    "borders": lambda p: p.batch + 1,
    "stores": lambda p: p.pages if p.page_size else p.batch,
    "slots": lambda p: p.page_size or p.seq_k,
    "two": lambda p: 2,
    "blocks": lambda p: blocks_of(p),
}


def most_positions(p):
    """The largest length of a batch entry in positions: p.seq_k, unless keys stand for blocks (p.key_step)."""
    return p.seq_k * max(p.key_step, 1) + p.key_offset


def blocks_of(p):
    """The number of blocks of p.block keys, or of positions if keys stand for blocks; 0 if the operation has none."""
    return -(-most_positions(p) // p.block) if p.block else 0


def shape_of(p, name):
    """The sizes of a tensor as it lies in memory. Packed entries are one, with the rows of all of them. Keys in pages are
    (page, head, slot, column)."""
    shape = [_SIZES[size](p) if size in _SIZES else getattr(p, size) for size in TENSOR_SPECS[name][2]]
    if is_packed(p, name):
        shape[0], shape[2] = 1, p.total_q if _packable(name) == RAGGED_QUERIES else p.total_k
    if in_pages(p, name):
        shape[0], shape[2] = p.pages, p.page_size
    return tuple(shape)


def stored_shape(p, name, view):
    """shape_of() an output, but 1 where one element stands for all of a dimension by a stride of 0: the gradient of a bias that
    is stored once is a sum."""
    return tuple(1 if n > 1 and stride == 0 else n for n, stride in zip(shape_of(p, name), view.stride))


def dimensions_of(name, packed=False):
    """A tensor without the dimensions that it does not have: an LSE has no columns, and a sink is
    one number for each head. If packed, Q, K, V and O are (row, head, column), and an LSE is (head,
    row)."""
    there = [i for i, size in enumerate(TENSOR_SPECS[name][2]) if size is not None]
    if not packed:
        return there
    return [2, 1, 3] if len(there) == 4 else [1, 2]


def format_of(p, name):
    """The format of a tensor's elements: "f16", "bf16", "f32", "bool", "i64" or "i32"."""
    element = TENSOR_SPECS[name][1]
    if element == "index_dtype":
        return INDEX_TYPES[p.index_dtype]
    return DTYPES[getattr(p, element)] if element in PROBLEM_FIELDS else element


_BYTES = {"f16": 2, "bf16": 2, "f32": 4, "bool": 1, "i64": 8, "i32": 4}


def _inputs(p, t):
    """Each input and cache with strides: its shape, the bytes of an element, and True if dimensions may repeat by a stride of 0."""
    inputs = [(getattr(t, member_of(name)), shape_of(p, name), _BYTES[format_of(p, name)], not TENSOR_SPECS[name][5])
              for name in INPUTS + STATES if name in STRIDED and asked_for(p, name)]
    return [(x.data, x.stride[:4], *rest) for x, *rest in inputs if 0 not in rest[0]]


def _not_laid(layout, p, t):
    """True if an input's layout in memory is not the declared one."""
    for _, stride, shape, _, once in _inputs(p, t):
        if shape[3] > 1 and stride[3] != 1:
            return True
        step = 1
        for n in (3, 2, 1, 0) if layout == "dense" else ():
            stored_once = once and stride[n] == 0
            if shape[n] > 1 and stride[n] != step and not stored_once:
                return True
            step *= 1 if stored_once else shape[n]
    return False


def _not_aligned(domain, p, t):
    for data, stride, shape, itemsize, once in _inputs(p, t):
        if data % domain.align_bytes:
            return True
        if domain.layout != "dense" and not once and any(
                n > 1 and s * itemsize % domain.align_bytes for n, s in zip(shape[:3], stride)):
            return True
    return False




def _diagonal(p):
    """True if the problem would mean something else with the other alignment."""
    placed = p.causal or p.window_left >= 0 or p.window_right >= 0 or p.has_alibi
    return placed and (p.seq_q != most_positions(p) or p.has_key_lengths or bool(p.ragged))


@functools.cache
def features_of(operation):
    """The features that an operation may have, each with the parameters that a function then needs."""
    of = {}
    for word, bit in FEATURE_BITS.items():
        tensors = [name for name, spec in TENSOR_SPECS.items() if spec[8] == bit]
        own = [name for name in tensors if _belongs_to(name, OPERATIONS[operation])]
        of_sizes = not tensors and (operation == "forward" or (operation, word) == ("backward", "key_step"))
        if own or word == "int32" or of_sizes:
            of[word] = tuple(argument_of(name) for name in own if name in INPUTS) + _BESIDE.get(word, ())
    return {**of, "paged": ()} if operation == "copy_pages" else of


# By feature: the parameters that a function needs beside the feature's own inputs.
_BESIDE = {"paged": ("key_lengths",), "dbias": ("bias",), "dsink": ("sink",)}


def refuse_features(operation, domain):
    """Raises ValueError if a domain names a feature that the operation does not have."""
    there = features_of(operation)
    for word in domain.features:
        if word not in there:
            raise ValueError(f"operation={operation!r}: it has no {word!r} in Python; Domain(features=...) may have "
                             f"{', '.join(map(repr, there))}")
    bits = domain.feature_bits()
    if "dsink" in there and bool(bits & FEATURE_BITS["has_sink"]) != bool(bits & FEATURE_BITS["dsink"]):
        raise ValueError(f"operation={operation!r}: Domain(features=...) must have 'has_sink' and 'dsink' together: a backward pass "
                         "with sinks gives their gradient")
    for word, field in (("paged", "key_lengths"), ("dbias", "bias")):
        if word in domain.features and not getattr(domain, field):
            raise ValueError(f"Domain({field}=False) with {word!r}: each call of this kind has {field}")


# Parts of a call that a kernel may compile for.
_COMPILES = {
    "dtype": lambda p: p.dtype, "batch": lambda p: p.batch, "heads": lambda p: (p.heads_q, p.heads_kv),
    "seq": lambda p: (p.seq_q, p.seq_k, p.total_q, p.total_k, p.page_size, p.pages, p.pages_per_seq),
    "dim": lambda p: (p.dim_qk, p.dim_v), "causal": lambda p: p.causal,
    "lse": lambda p: p.want_lse, "bias": lambda p: p.has_bias, "mask": lambda p: p.has_mask,
    "key_lengths": lambda p: p.has_key_lengths, "window": lambda p: (p.window_left, p.window_right),
    "softcap": lambda p: p.softcap, "scale": lambda p: p.scale,
}
_compiling = 0
_tell_compiling = None  # set by the worker: called when compiling begins and ends


@contextlib.contextmanager
def compiling():
    """Surrounds compilation while a target is called. Its time does not count as running, up to ten times a call's limit."""
    global _compiling
    _compiling += 1
    if _compiling == 1 and _tell_compiling:
        _tell_compiling(1)
    try:
        yield
    finally:
        _compiling -= 1
        if _compiling == 0 and _tell_compiling:
            _tell_compiling(0)


@dataclass
class Target:
    """A function with its declaration. Calling it calls the function."""

    function: object
    device: str = "cpu"
    arrays: str = "numpy"
    tiles: tuple = (64, 64)
    errors: Errors = Errors()
    domain: Domain = Domain()
    description: str = ""
    path: str = ""
    compiles: tuple = ()
    bf16: str = "ml_dtypes"
    operation: str = "forward"

    _kind, _behind = "a target", ""  # in the message on wrong parameters

    def __post_init__(self):
        if inspect.isclass(self.function):
            raise TypeError(f"target() declares a function, and {self.function.__name__} is a class: attnfuzz.cache declares "
                            "a class for attnfuzz sequence")
        self.__name__ = self.function.__name__
        self.__doc__ = self.function.__doc__
        self.__module__ = self.function.__module__
        names = self._parameters()
        if self.operation not in OPERATIONS:
            raise ValueError(f"target(operation={self.operation!r}): one of {', '.join(map(repr, OPERATIONS))}")
        for name in outputs_of(OPERATIONS[self.operation]):
            if TENSOR_SPECS[name][1] not in ("dtype", "f32", "bias_dtype", "index_dtype"):
                raise ValueError(f"target(operation={self.operation!r}): its output {argument_of(name)} is {TENSOR_SPECS[name][1]}, "
                                 "and a function in Python returns floating point or indices")
        needed, others = self._arguments()
        if names[: len(needed)] != needed or any(n not in needed + others for n in names):
            raise TypeError(f"{self._kind} of the operation {self.operation} is a function of ({', '.join(needed)}), and of "
                            f"any of {', '.join(others)}; {self.__name__} is one of ({', '.join(names)}){self._behind}")
        self.takes = frozenset(names)
        self._check_features()
        if self.domain.equal_lengths and "packed" in self.domain.features:
            raise ValueError("Domain(equal_lengths=True) with 'packed': the sizes of packed entries are in memory, where "
                             "nothing can hold a call to it")
        if not self.domain.lse and not optional_outputs(OPERATIONS[self.operation]):
            raise ValueError(f"Domain(lse=False): a target of the operation {self.operation} writes no LSE")
        if self.domain.group is not None and not has_groups(self.operation):
            raise ValueError(f"Domain(group=...): a target of the operation {self.operation} has no groups of query heads")
        if isinstance(self.compiles, str) or not set(self.compiles) <= set(_COMPILES):
            raise ValueError(f"target(compiles={self.compiles!r}): a tuple of {', '.join(map(repr, _COMPILES))}")
        if self.bf16 not in ("ml_dtypes", "bits"):
            raise ValueError(f"target(bf16={self.bf16!r}): 'ml_dtypes' or 'bits'")
        if not self.description:
            self.description = (self.__doc__ or f"{self.__name__} of {self.__module__}").strip().split("\n")[0]

    def _parameters(self):
        """The names of the function's parameters."""
        return list(inspect.signature(self.function).parameters)

    def _arguments(self):
        """The parameters that a function must have, in order, and those that it may have."""
        inputs, outputs = inputs_of(self.operation), outputs_of(OPERATIONS[self.operation])
        always = [name for name in outputs if name in STATES] + [name for name in inputs if always_there(name)]
        others = [name for name in [*inputs, *outputs] if name not in always]
        return ["p", *map(argument_of, always)], [*map(argument_of, others), "stream"]

    def _needs(self):
        """By feature: the parameters that the function needs."""
        return features_of(self.operation)

    def _check_features(self):
        """Raises an error unless the function has the parameters that the features of its domain need."""
        features = self.domain.features
        refuse_features(self.operation, self.domain)
        for word in features:
            needed = self._needs()[word]
            if not set(needed) <= self.takes:
                raise TypeError(f"Domain(features=...) of {self.__name__} has {word!r}: the function needs the parameters "
                                f"{' and '.join(needed)}")
        if self.operation == "append" and "key_lengths" not in self.takes:
            raise TypeError(f"{self.__name__} appends, and needs the parameter key_lengths: the keys that are there already")
        if self.operation == "copy_pages" and "paged" not in features:
            raise ValueError("target(operation='copy_pages'): needs Domain(features=('paged',))")

    def __call__(self, *args, **kwargs):
        return self.function(*args, **kwargs)

    def words(self):
        """The declaration as the C++ side reads it (properties/case/features/domain.h, fuzz/check/epochs.h)."""
        return " ".join(filter(None, [self.domain.words(), self.compiles and "compiles=" + ",".join(self.compiles)]))

    def compilation(self, p):
        """A key: calls with equal keys share a compilation."""
        return tuple(_COMPILES[name](p) for name in self.compiles)

    @property
    def backend(self):
        return CUDA if self.device == "cuda" else CPU

    @property
    def file(self):
        return inspect.getsourcefile(self.function)


def target(function=None, *, device="cpu", arrays=None, tiles=(64, 64), errors=Errors(), domain=Domain(),
           description="", path="", compiles=(), bf16="ml_dtypes", operation="forward"):
    """Declares a function as a kernel to check: a decorator, with or without arguments.

        @attnfuzz.target(errors=attnfuzz.Errors(accumulator="ffma"), domain=attnfuzz.Domain(mask=False))
        def mine(p, q, k, v):
            return o, lse

    p holds the call's sizes and flags (p.seq_k, p.scale, p.causal, ...); q, k and v are (batch, heads, position, dim). The
    function may also have parameters named bias, mask, key_lengths, out, lse and stream. It returns O, or (O, LSE), or
    nothing if it wrote into out and lse. If it raises Unsupported, the case counts as refused.

    errors   how it rounds: Errors; what is not known is assumed at its loosest
    domain   what it takes: Domain; cases are drawn inside it
    device   where its tensors lie: "cpu" or "cuda"
    arrays   the type of its arrays: "numpy" (default on the CPU), "torch" (default on a GPU), "jax" (a copy; CPU), or
             "dlpack" (objects with __dlpack__)
    tiles    rows of a tile of queries and of keys, at whose borders cases are aimed
    compiles what it compiles anew for, of "dtype", "batch", "heads", "seq", "dim", "causal", "lse", "bias", "mask",
             "key_lengths", "window", "softcap" and "scale": a check draws 32 cases for each compilation, and the first
             call of each counts as compiling()
    bf16     the type of NumPy's arrays of bf16: "ml_dtypes" (without that package bf16 is left out, and the check says
             so), or "bits": uint16 if it is not installed; attnfuzz.as_float32 reads both
    operation "forward", or "merge": a function of (p, o1, o2, lse1, lse2) that returns O and LSE over the keys of both
             sides; o1 and o2 are (batch, heads, position, dim), lse1 and lse2 (batch, heads, position). A side that saw no
             key has O = 0 and LSE = Domain(lse_dead=...), -inf unless that is "+inf".
             Or "backward": a function of (p, q, k, v, dout, o, lse), and of bias, mask and key_lengths, that returns dQ, dK
             and dV: a tuple, or a dict or NamedTuple of dq, dk and dv; or it writes into parameters of these names. dout
             is the gradient of O; o and lse are what a forward pass stored. A function that computes O itself declares
             Errors(saved="recomputed"). With "dlse" in the Domain's features it is given dlse, the gradient of the LSE, in some
             calls. With "dbias" it returns dbias if p.dbias_shape is not None, of this shape: 1 where it is a sum, because one
             element of the bias stands for all. With "has_sink" and "dsink" it is given sink and returns dsink, (heads,), in
             some calls. A tuple has them behind dQ, dK and dV, dbias first.
             Or "selected": a function of (p, q, k, v, indices), and of key_lengths, that returns O and LSE over the keys of
             the blocks of p.block keys that indices name: (batch, KV heads, position, p.select). -1 names none, and a block
             that is named twice counts once. Block 0 begins with an entry's first key, also if keys are packed. Or
             "selected_backward": a function of (p, q, k, v, indices, dout, o, lse), and of key_lengths and dlse, that returns
             dQ, dK and dV of such a call.
             Or "nsa_score": a function of (p, q, k, lse), and of key_lengths, that scores blocks by attention over compressed
             keys k, and chooses blocks by these scores. lse is the LSE of this attention. It returns the lists, (batch, KV
             heads, position, p.select) of integers, and the scores, (batch, KV heads, position, p.blocks): a tuple, or a dict
             or NamedTuple of indices and scores; or it writes into parameters of these names. p.want_scores says whether
             scores are wanted.
             Or "append": a function of (p, k, v, k_new, v_new), and of key_lengths, that writes the new rows into the caches
             k and v, behind the key_lengths[b] keys of each batch entry. Rows beyond p.seq_k are dropped. Or "copy_pages", of
             (p, k, v, copies), that writes page copies[n][0] of k and v to page copies[n][1]. Both return nothing, or k
             and v if the arrays are copies.

    A function whose Domain has "packed" in its features has parameters cu_seqlens_q and cu_seqlens_k, (batch + 1) each.
    If p.ragged & 1, queries are packed: q is (p.total_q, heads, dim), and cu_seqlens_q is given. O is (p.total_q, heads,
    dim) and the LSE (heads, p.total_q); so are dout, dq and dlse. Lists of blocks are (p.total_q, KV heads, p.select), and
    their scores (p.total_q, KV heads, p.blocks). If p.ragged & 2, k and v are (p.total_k, heads, dim), as are dk and dv, and
    cu_seqlens_k is given. A side that is not packed stays (batch, heads, position, dim); attnfuzz.pack() packs it. p.seq_q and
    p.seq_k are no less than the longest entry: max_seqlen_q and max_seqlen_k. Rows behind the last entry belong to none: what
    a function returns for them is dropped, and one that writes into out and lse must leave them.

    A function whose Domain has "paged" in its features has parameters block_table and key_lengths. If p.page_size is not 0,
    k and v are pools (p.pages, heads_kv, p.page_size, dim), and key j of batch entry b lies in slot j % p.page_size of page
    block_table[b, j // p.page_size]. An entry has min(key_lengths[b], p.seq_k) keys, or 0. The table is (batch,
    p.pages_per_seq); entries that no key needs may hold anything. attnfuzz.gather() makes dense k and v of the pools.
    """
    arrays = arrays or ("torch" if device == "cuda" else "numpy")
    if device not in ("cpu", "cuda"):
        raise ValueError(f"target(device={device!r}): 'cpu' or 'cuda'")
    if arrays not in ("numpy", "torch", "jax", "dlpack") or (device == "cuda" and arrays in ("numpy", "jax")):
        raise ValueError(f"target(device={device!r}, arrays={arrays!r}): 'numpy', 'torch', 'jax' or 'dlpack' on the "
                         "CPU, 'torch' or 'dlpack' on a GPU")
    if len(tiles) != 2 or min(tiles) < 1:
        raise ValueError(f"target(tiles={tiles!r}): two numbers, rows of a tile of queries and of keys")

    def declare(f):
        return Target(f, device, arrays, tuple(tiles), errors, domain, description, path, compiles, bf16, operation)

    return declare(function) if function is not None else declare
