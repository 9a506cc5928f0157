"""The declaration of what a target takes."""

import ctypes
import functools
import re
from dataclasses import dataclass, field

from attnfuzz.contract import (BF16, BOTTOM_RIGHT, DOMAIN_VALUES, F16, FEATURE_BITS, FEATURE_WIDE, OPERATIONS, PLAN_CHOICES,
                               TENSOR_SPECS, TOP_LEFT, USUAL_DIMS)
from attnfuzz.contract import DomainStruct as CDomain
from attnfuzz.contract import Sizes as CSizes
from attnfuzz.operations import (DTYPES, INPUTS, OPERATION_BITS, STATES, STRIDED, asked_for, features_of, format_of, member_of,
                                 most_positions, optional_outputs, shape_of, sizes_of)

_OTHER_NAMES = {"fp16": "f16", "fp32": "f32"}


def dtype_named(name):
    """A format's name in attnfuzz: "f32" for "f32" or "fp32". Anything that is no format is returned unchanged."""
    return _OTHER_NAMES.get(name, name)


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


def _in_order(names):
    """Names in an order that is the same in each process: a set has none."""
    return (names,) if isinstance(names, str) else tuple(sorted(names) if isinstance(names, (set, frozenset)) else names)


@dataclass(frozen=True)
class Domain:
    """What the kernel takes. Cases are drawn, varied and reduced inside it. An exception inside it is a failure, except
    attnfuzz.Unsupported: that is a refusal. What the kernel refuses inside it is drawn rarely, and named under "left out".

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
    "int32": all these may be int32. In a backward pass "dlse", "dbias" and "dsink" are tensors of attn_tensors. Dims above 256
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
        object.__setattr__(self, "dtypes", tuple(dtype_named(name) for name in _in_order(self.dtypes)))
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
        object.__setattr__(self, "features", _in_order(self.features))
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
            if name in (*sizes_of(p.features & OPERATION_BITS), "group") and not size.holds(given := _size_of(p, name)):
                return f"{name} is {given}: declared for {' '.join(size.words(name))}"
        scores = "seq_k" in sizes_of(p.features & OPERATION_BITS)
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


_LIMITED = frozenset(("batch", "heads_q", "seq_q", "seq_k", "dim_qk", "dim_v"))


def refuse_sizes(operation, words):
    """Raises ValueError for a word of a domain that limits a size that the operation lacks."""
    there = sizes_of(OPERATIONS[operation])
    for word in words:
        name = re.split("[=<>%]", word)[0]
        sizes = {"seq": ("seq_q", "seq_k"), "dim": ("dim_qk", "dim_v")}.get(name, (name,))
        if set(sizes) <= _LIMITED and not there & set(sizes):
            raise ValueError(f"domain: {operation} has no {name}; leave {word} out")


def _size_of(p, name):
    """A size that a domain may limit."""
    return getattr(p, name) if name != "group" else p.heads_q // p.heads_kv


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
