"""The declaration of a target: where it runs, how it rounds, what it takes."""

import contextlib
import functools
import inspect
import os
from dataclasses import dataclass

from attnfuzz.contract import CPU, CUDA, OPERATIONS, TENSOR_SPECS
from attnfuzz.domain import Domain, refuse_features
from attnfuzz.errors import Errors
from attnfuzz.operations import (STATES, always_there, argument_of, features_of, has_groups, inputs_of, optional_outputs,
                                 outputs_of)


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


def definition_of(function):
    """What defines a callable: the function inside of a functools.partial, or the class of an object with __call__."""
    while isinstance(function, functools.partial):
        function = function.func
    return function if hasattr(function, "__name__") else type(function)


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
        definition = definition_of(self.function)
        self.__name__, self.__doc__, self.__module__ = definition.__name__, definition.__doc__, definition.__module__
        names = self._parameters()
        if self.operation not in OPERATIONS:
            raise ValueError(f"target(operation={self.operation!r}): one of {', '.join(map(repr, OPERATIONS))}")
        for name in outputs_of(OPERATIONS[self.operation]):
            if TENSOR_SPECS[name][1] not in ("dtype", "f32", "bias_dtype", "index_dtype"):
                raise ValueError(f"target(operation={self.operation!r}): its output {argument_of(name)} is {TENSOR_SPECS[name][1]}, "
                                 "and a function in Python returns floating point or indices")
        needed, others = self._arguments()
        names, self.positional = self._spread(names, needed, others)
        if names[: len(needed)] != needed or any(n not in needed + others for n in names):
            raise TypeError(f"{self._kind} of the operation {self.operation} is a function of ({', '.join(needed)}), and of "
                            f"any of {', '.join(others)}; {self.__name__} is one of ({', '.join(names)}){self._behind}")
        self.takes = frozenset(names)
        self._check_features()
        if self.writes_alone and (missing := self._not_written()):
            raise TypeError(f"target(device='cuda', arrays='dlpack'): {self.__name__} needs the parameters "
                            f"{' and '.join(missing)} to write into, because what it returns cannot be read from a GPU")
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

    def _spread(self, names, needed, others):
        """The parameters with those that *args and **kwargs stand for, and the names of those that are given by position:
        *args takes the arrays that every call has, **kwargs these and all other inputs."""
        parameters = inspect.signature(self.function).parameters.values()
        spread = {x.kind: x.name for x in parameters if x.kind in (x.VAR_POSITIONAL, x.VAR_KEYWORD)}
        if not spread or self._behind or names[:1] != needed[:1]:
            return names, ()
        before = [x.name for x in parameters if x.kind in (x.POSITIONAL_ONLY, x.POSITIONAL_OR_KEYWORD)]
        if inspect.Parameter.VAR_POSITIONAL in spread and before != needed[: len(before)]:
            return names, ()  # an optional parameter before *args would get an array
        own = [name for name in names if name not in spread.values()]
        missing = [name for name in needed if name not in own]
        names = needed + [name for name in own if name not in needed]
        if inspect.Parameter.VAR_KEYWORD in spread:
            inputs = {argument_of(name) for name in inputs_of(self.operation)}
            return names + [name for name in others if name in inputs - self._bound() and name not in names], ()
        return names, tuple(needed[1:]) if missing else ()

    def _bound(self):
        """The parameters that a functools.partial has given already."""
        return set(self.function.keywords) if isinstance(self.function, functools.partial) else set()

    def _parameters(self):
        """The names of the parameters that a call may give."""
        return [name for name in inspect.signature(self.function).parameters if name not in self._bound()]

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

    @property
    def writes_alone(self):
        """True if nothing that the function returns can be copied: arrays of an unknown library on a GPU."""
        return self.device == "cuda" and self.arrays == "dlpack"

    def _not_written(self):
        """The outputs that some call asks for and that the function has no parameter for."""
        bits = OPERATIONS[self.operation]
        unasked = optional_outputs(bits) if not self.domain.lse else ()
        return [argument_of(name) for name in outputs_of(bits)
                if name not in unasked and not TENSOR_SPECS[name][8] & ~self.domain.feature_bits()
                and argument_of(name) not in self.takes]

    def __call__(self, *args, **kwargs):
        if self.positional and len(args) == 1:
            args = (*args, *(kwargs.pop(name) for name in self.positional))
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
        return inspect.getsourcefile(definition_of(self.function))


def target(function=None, *, device="cpu", arrays=None, tiles=(64, 64), errors=Errors(), domain=Domain(),
           description="", path="", compiles=(), bf16="ml_dtypes", operation="forward"):
    """Declares a function as a kernel to check: a decorator, with or without arguments.

        @attnfuzz.target(errors=attnfuzz.Errors(accumulator="ffma"), domain=attnfuzz.Domain(mask=False))
        def mine(p, q, k, v):
            return o, lse

    p holds the call's sizes and flags (p.seq_k, p.scale, p.causal, ...); q, k and v are (batch, heads, position, dim). The
    function may also have parameters named bias, mask, key_lengths, out, lse and stream. **kwargs takes all inputs, *args
    takes q, k and v. It returns O, or (O, LSE), or a dict of out (or o) and lse, or nothing if it wrote into out and lse.
    If it raises Unsupported, the case counts as refused.

    errors   how it rounds: Errors; what is not known is assumed at its loosest
    domain   what it takes: Domain; cases are drawn inside it
    device   where its tensors lie: "cpu" or "cuda"
    arrays   the type of its arrays: "numpy" (default on the CPU), "torch" (default on a GPU), "jax" (a copy; CPU), or
             "dlpack" (objects with __dlpack__; on a GPU the function writes into out and lse)
    tiles    rows of a tile of queries and of keys, at whose borders cases are aimed
    compiles what it compiles anew for, of "dtype", "batch", "heads", "seq", "dim", "causal", "lse", "bias", "mask",
             "key_lengths", "window", "softcap" and "scale": a check draws 32 cases for each compilation, and the first
             call of each counts as compiling()
    bf16     the type of NumPy's arrays of bf16: "ml_dtypes" (without that package bf16 is left out, and the check says
             so), or "bits": uint16 if it is not installed; attnfuzz.as_float32 reads both
    operation what it computes:
             "forward"            (p, q, k, v), with the parameters above
             "merge"              (p, o1, o2, lse1, lse2): O and LSE over the keys of both sides
             "backward"           (p, q, k, v, dout, o, lse): dQ, dK, dV, and dbias and dsink if they are asked for
             "selected"           (p, q, k, v, indices): O and LSE over the keys of the blocks that indices name
             "selected_backward"  (p, q, k, v, indices, dout, o, lse): dQ, dK and dV of such a call
             "nsa_score"          (p, q, k, lse): the chosen blocks, and the scores of all blocks
             "append"             (p, k, v, k_new, v_new): writes new rows into the caches k and v
             "copy_pages"         (p, k, v, copies): writes pages of the caches k and v

    docs/python.md has the shapes of all arrays, also of packed sequences (cu_seqlens_q, cu_seqlens_k) and of keys in pages
    (block_table).
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
