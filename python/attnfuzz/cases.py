"""The generator by itself: drawn cases as NumPy arrays, for a loop of your own.

    for case in attnfuzz.cases("dim=64,128 no_bias no_key_lengths", seed=7, count=500):
        out, lse = case.call(mine)                   # mine(p, q, k, v), with mask= where the case has one
        case.assert_within(out, lse)                 # AssertionError: the worst element and its bound

    for case in attnfuzz.cases("dim=64", operation="backward", count=500):
        case.assert_within(case.call(mine))          # mine(p, q, k, v, dout, o, lse) returns dQ, dK and dV

The cases are those of a check: aimed at the borders of tiles, with strides, broadcasts and unusual values. A loop has no
worker, no redzones around tensors and no reducer. case.save("case.json") writes a file that these two take:

    attnfuzz replay case.json --kernel ./mine.py:mine
    attnfuzz reduce case.json --kernel ./mine.py:mine

Needs NumPy.
"""

import ctypes
import itertools
import warnings

from attnfuzz import contract as c
from attnfuzz.domain import Domain, refuse_features, refuse_sizes
from attnfuzz.operations import (DTYPES, INPUTS, STRIDED, argument_of, asked_for, dimensions_of, format_of, is_packed,
                                 member_of, shape_of)
from attnfuzz.home import find
from attnfuzz.oracle import assert_gradients_within, assert_within, gradient_names, gradients, oracle
from attnfuzz.tensor import Tensor, numpy_bfloat16, numpy_view

_MOST_KEPT = 64 << 20  # larger spans from a tensor's first to its last element are copied densely
_library = None


class _Drawn(ctypes.Structure):
    """attnfuzz_drawn of native/cases.h."""

    _fields_ = [("problem", c.Problem), ("tensors", c.Tensors), ("sm_count", ctypes.c_int32),
                ("reserved", ctypes.c_int32), ("json", ctypes.c_char_p), ("words", ctypes.c_char_p)]


def _load():
    global _library
    if _library is None:
        library = ctypes.CDLL(find("lib", "libattnfuzz-cases.so"))
        library.attnfuzz_cases_open.restype = ctypes.c_void_p
        library.attnfuzz_cases_open.argtypes = [ctypes.c_char_p, *[ctypes.c_int64] * 3, ctypes.c_uint64, ctypes.c_char_p,
                                                ctypes.c_uint64]
        library.attnfuzz_cases_draw.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_char_p,
                                                ctypes.POINTER(_Drawn), ctypes.c_char_p, ctypes.c_uint64]
        library.attnfuzz_cases_close.argtypes = [ctypes.c_void_p]
        library.attnfuzz_cases_close.restype = None
        _library = library
    return _library


def _own(tensor):
    """A copy of a tensor with its strides, its alignment and the content of its gaps. A tensor that spans more
    than _MOST_KEPT bytes is copied densely; a dimension with a stride of 0 keeps it."""
    import numpy

    view = numpy_view(tensor)
    if not view.size:
        return view
    steps = [(n - 1) * s for n, s in zip(view.shape, view.strides)]
    before, after = -sum(s for s in steps if s < 0), sum(s for s in steps if s > 0) + view.itemsize
    if before + after > _MOST_KEPT:
        stored = view[tuple(slice(None) if s else slice(1) for s in view.strides)].copy()
        strides = [s if of else 0 for s, of in zip(stored.strides, view.strides)]
        return numpy.ndarray(view.shape, view.dtype, stored, 0, strides)
    lowest = tensor.data - before
    memory = numpy.empty(before + after + 256, numpy.uint8)
    at = (lowest - memory.ctypes.data) % 256
    ctypes.memmove(memory.ctypes.data + at, lowest, before + after)
    return numpy.ndarray(view.shape, view.dtype, memory, at + before, view.strides)


class Case:
    """A drawn problem with its arrays.

    p                    the call, as a target is given it: p.seq_k, p.causal, p.scale, ... (docs/python.md)
    q, k, v              (batch, heads, position, dim)
    bias, mask           (batch, heads_q, seq_q, seq_k), or None
    key_lengths          (batch,), or None
    sink, slopes         (heads_q,) and (batch, heads_q), or None: only if the Domain names has_sink or has_alibi
    cu_seqlens_q         (batch + 1,), or None: only if the Domain names "packed". If p.ragged & 1, q and O are (row, head,
                         dim), and the LSE is (head, row)
    cu_seqlens_k         likewise: if p.ragged & 2, k and v are (row, head, dim)
    block_table          (batch, p.pages_per_seq), or None: only if the Domain names "paged". k and v are then pools (page,
                         head, slot, dim); attnfuzz.gather() makes dense ones
    dout, o, lse         of operation="backward" and "selected_backward": dO, and O and the LSE as a forward pass stored them
    dlse                 of the same: the gradient of the LSE, or None: only if the Domain names "dlse"
    indices              of operation="selected" and "selected_backward": the blocks of p.block keys that each query may see.
                         (batch, KV head, position, p.select), or if p.ragged & 1 (row, KV head, p.select)
    o1, o2, lse1, lse2   of operation="merge"
    words                the case in a line
    json                 the case as a file that `attnfuzz replay` takes
    """

    def __init__(self, drawn, said, operation="forward"):
        from attnfuzz.kernel import Call

        p, t = drawn.problem, drawn.tensors
        self.p = Call(p, bool(t.lse.data), drawn.sm_count, t)
        self.words, self.json = drawn.words.decode(), drawn.json.decode()
        self._said, self.operation = said, operation
        self._given = {}
        for name in INPUTS:
            if name in STRIDED:
                setattr(self, argument_of(name), None)
        self.key_lengths = self.cu_seqlens_q = self.cu_seqlens_k = None
        for name in INPUTS:
            if asked_for(p, name):
                self._given[argument_of(name)] = self._array(name, p, t)
        for name, array in self._given.items():
            setattr(self, name, array)

    @staticmethod
    def _array(name, p, tensors):
        view, shape, at = getattr(tensors, member_of(name)), shape_of(p, name), dimensions_of(name, is_packed(p, name))
        if name not in STRIDED:
            return _own(Tensor(view, shape[-1:], (1,), format_of(p, name)))
        return _own(Tensor(view.data, [shape[i] for i in at], [view.stride[i] for i in at], format_of(p, name)))

    def __repr__(self):
        return f"<attnfuzz case {self.words}>"

    def call(self, function):
        """Returns function(p, q, k, v), called with bias=, mask=, key_lengths=, cu_seqlens_q= and others if the case has them, and
        with the other inputs of its operation: dout=, o= and lse= of a backward pass."""
        return function(self.p, **self._given)

    def _arguments(self):
        p = self.p
        names = "sink", "slopes", "cu_seqlens_q", "cu_seqlens_k", "block_table"
        more = {name: self._given[name] for name in names if name in self._given}
        if p.ragged or p.page_size:
            more.update(max_seqlen_q=p.seq_q if p.ragged & 1 else None,
                        max_seqlen_k=p.seq_k if p.ragged & 2 or p.page_size else None)
        if p.key_step:
            more["key_blocks"] = (p.key_step, p.key_offset + 1)
        return dict(causal=p.causal, align=p.align, scale=p.scale, softcap=p.softcap,
                    window=(p.window_left, p.window_right), bias=self.bias, mask=self.mask,
                    key_lengths=self.key_lengths, **more, **self._said)

    def _no_oracle(self):
        if self.operation == "merge":
            raise TypeError("a merge has no oracle here: attnfuzz check judges it")
        if self.operation in ("selected", "selected_backward"):
            raise TypeError("attention over listed blocks has no oracle here: attnfuzz check judges it")

    def oracle(self, **how):
        """What attnfuzz.oracle() returns, or for a backward pass attnfuzz.gradients(). `how`: their arguments errors,
        tiles and calibration, and lse for a forward pass."""
        self._no_oracle()
        if self.operation == "backward":
            return gradients(*self._backward(how), **self._gradients(), **self._arguments(), **how)
        return oracle(self.q, self.k, self.v, **self._arguments(), **how)

    def _backward(self, how):
        """The arrays of a backward pass; without O and LSE for a function that computes them by itself."""
        errors = how.get("errors")
        own = errors is not None and errors.saved == "recomputed"
        return self.q, self.k, self.v, self.dout, *((None, None) if own else (self.o, self.lse))

    def _refuse_missing(self, out):
        """Raises ValueError if `out` lacks a gradient that the case asks for. None in its place is enough."""
        names = gradient_names(self.p.dbias_shape, self.sink)
        if out is None:
            raise ValueError(f"out is None: the function has to return {', '.join(names)}")
        given = out if isinstance(out, dict) else names[:len(out)]
        if missing := [name for name in names if name not in given]:
            raise ValueError(f"the case asks for {', '.join(names)}: give {missing[0]} too, or None to leave it out")

    def _gradients(self):
        return {"dlse": self.dlse, "dbias_shape": self.p.dbias_shape}

    def assert_within(self, out, lse=None, **how):
        """Returns the largest error/bound of O and LSE, or raises an AssertionError whose last line is the case: attnfuzz.assert_within().
        If the case asks for an LSE (p.want_lse), one that is missing is a ValueError; lse=False leaves it out.
        For a backward pass `out` has the gradients in the form that attnfuzz.assert_gradients_within() takes: dQ, dK and dV, and
        dbias and dsink if the case asks for them (p.dbias_shape, p.has_sink). A missing gradient is a
        ValueError; None leaves a gradient out."""
        self._no_oracle()
        try:
            if self.operation == "backward":
                self._refuse_missing(out)
                return assert_gradients_within(out, *self._backward(how), **self._gradients(), **self._arguments(), **how)
            if lse is None and out is not None and self.p.want_lse:
                raise ValueError("the case asks for an LSE (p.want_lse): give it too, or lse=False to leave it out")
            return assert_within(out, None if lse is False else lse, self.q, self.k, self.v, **self._arguments(), **how)
        except AssertionError as e:
            raise AssertionError(f"{e}\n  case: {self.words}") from None

    def save(self, path):
        """Writes the case to a file for `attnfuzz replay`, `reduce` and `explain`."""
        with open(path, "w") as f:
            f.write(self.json)


class Stream:
    """Cases of one domain by their seed and index: Stream("dim=64").draw(seed=1, index=0)."""

    def __init__(self, domain=None, tiles=(64, 64), work=3_000_000, bf16="ml_dtypes", operation="forward"):
        if bf16 not in ("ml_dtypes", "bits"):
            raise ValueError(f"bf16={bf16!r}: 'ml_dtypes' or 'bits'")
        if operation in ("append", "copy_pages"):
            raise ValueError(f"operation={operation!r}: a case holds no cache; attnfuzz check and attnfuzz sequence judge caches")
        drawn = [name for name in c.OPERATIONS if name not in ("append", "copy_pages", "nsa_score")]
        if operation not in drawn:
            raise ValueError(f"operation={operation!r}: one of {', '.join(map(repr, drawn))}")
        self.operation, bit = operation, c.OPERATIONS[operation]
        features = domain.feature_bits() if isinstance(domain, Domain) else 0
        if isinstance(domain, Domain):
            refuse_features(operation, domain)
            if domain.heads_kv is not None:
                raise ValueError(f"Domain(heads_kv={domain.heads_kv!r}): cases are drawn by heads_q and group; say these")
        if bit:
            features |= bit | c.FEATURE_NO_FORWARD
        words = (domain.words() if isinstance(domain, Domain) else domain or "").split()
        refuse_sizes(operation, words)
        if bf16 == "ml_dtypes" and numpy_bfloat16() is None:
            words = _without_bf16(words)
        self.words = " ".join(words)
        said = dict(word.split("=") for word in words if word.startswith("lse_"))
        self._said = {name: 2 if value == "2" else value for name, value in said.items()}
        self._text = ctypes.create_string_buffer(4096)
        self._cases = _load().attnfuzz_cases_open(self.words.encode(), *tiles, work, features, self._text, len(self._text))
        if not self._cases:
            raise ValueError(self._why())

    def __del__(self):
        if getattr(self, "_cases", None):
            _library.attnfuzz_cases_close(self._cases)

    def _why(self):
        return self._text.value.decode("utf-8", "replace").replace("--domain", "domain")

    def draw(self, seed, index, within=""):
        """Case `index` of `seed`. `within`: the case is also moved into this domain, in the words of --domain."""
        drawn = _Drawn()
        if _library.attnfuzz_cases_draw(self._cases, seed, index, within.encode(), ctypes.byref(drawn), self._text,
                                        len(self._text)) != 0:
            raise ValueError(self._why())
        return Case(drawn, self._said, self.operation)


def _without_bf16(words):
    """The domain's words without bf16, for which NumPy has no type here; a warning says so."""
    needs = "NumPy has no bf16 without ml_dtypes: pip install ml_dtypes, or say bf16='bits' to get its bits in uint16"
    formats = [word for word in words if word in DTYPES or word in ("fp16", "fp32")]
    if "no_f16" in words or formats == ["bf16"]:
        raise ValueError(f"the domain is of bf16 alone, and {needs}")
    if "no_bf16" in words or (formats and "bf16" not in formats):
        return words
    warnings.warn(f"bf16 is left out: {needs}", stacklevel=4)
    return [word for word in words if word != "bf16"] if formats else [*words, "no_bf16"]


def cases(domain=None, seed=1, count=None, *, first=0, tiles=(64, 64), work=3_000_000, bf16="ml_dtypes", operation="forward"):
    """Yields drawn cases (attnfuzz.Case) for a loop of your own. Case `i` depends on the arguments and on i, not on other cases.

    domain  what the kernel takes: the words of --domain ("seq_q=1 seq_k=1000..4096 no_bias"), or an attnfuzz.Domain;
            None: everything
    seed    of the stream; count: number of cases, None for no end; first: the number of the first case
    tiles   rows of a tile of queries and of keys, at whose borders cases are aimed
    work    the most multiply-adds of a case, approximately
    bf16    "ml_dtypes" (without that package bf16 is left out, with a warning), or "bits": uint16 if it is missing
    operation  "forward", "backward", "merge", "selected" or "selected_backward"
    """
    stream = Stream(domain, tiles, work, bf16, operation)
    numbers = itertools.count(first) if count is None else range(first, first + count)
    return (stream.draw(seed, index) for index in numbers)
