"""plan() and run() of a target, as the C side calls them (fuzz/worker/hosted.h)."""

import contextlib
import ctypes
import functools
import json
import os
import traceback

from attnfuzz import declare
from attnfuzz.cache import Life
from attnfuzz.contract import (CUDA, FAULT, FEATURE_BITS, FEATURE_F32, FEATURE_WIDE, OK, OPERATIONS, PROBLEM_FIELDS,
                               TENSOR_SPECS, UNSUPPORTED)
from attnfuzz.declare import Unsupported
from attnfuzz.operations import (DTYPES, INPUTS, OUTPUTS, STATES, STRIDED, argument_of, asked_for, blocks_of, dimensions_of,
                                 format_of, is_packed, member_of, optional_outputs, outputs_of, shape_of, stored_shape)
from attnfuzz.tensor import Tensor, numpy_view, to_bits_of_bf16

# The kinds of problem that Call handles: bits of attn_problem.features. Fields with a bit are offered to
# targets that declare them (fuzz/worker/hosted.cc).
KNOWN_FEATURES = FEATURE_F32 | FEATURE_WIDE | sum({*FEATURE_BITS.values(), *OPERATIONS.values()})


def write_text(address, size, text):
    """Writes text into a C buffer, cut to its size and NUL-terminated."""
    data = text.encode("utf-8", "replace")[: size - 1] + b"\0"
    ctypes.memmove(address, data, len(data))


def in_words(e, path=None):
    """An exception in a line: the error, and the place in the user's code."""
    said = said_by(e)
    if isinstance(e, SystemExit):
        text = f"called sys.exit({said})"
    else:
        text = f"raised {type(e).__name__}: {said}" if said else f"raised {type(e).__name__}"
    frames = [f for f in traceback.extract_tb(e.__traceback__) if not f.filename.startswith("<frozen")]
    own = [f for f in frames if f.filename == path] or [
        f for f in frames if os.path.dirname(f.filename) != os.path.dirname(__file__)]
    if own:
        text += f" ({os.path.basename(own[-1].filename)}:{own[-1].lineno})"
    return " ".join(text.split())[:500]


def said_by(e):
    """An exception's own text. It may be empty, or asking for it may raise another exception."""
    try:
        return repr(e.code) if isinstance(e, SystemExit) else str(e)
    except Exception:
        return "it cannot be printed"


# Converts a field of attn_problem for a target, by the field's meaning.
_READERS = {
    "boolean": bool,
    "dtype": lambda n: DTYPES[n] if n >= 0 else None,
    "align": lambda n: "bottom_right" if n else "top_left",
}


class Call:
    """attn_problem as a target sees it: each field by name; booleans, formats and alignments as such. dbias_shape: the shape of
    the gradient of the bias, 1 where it is a sum; None: it is not asked for. blocks: the number of blocks of keys.
    want_scores: the scores of blocks are wanted beside the lists."""

    __slots__ = (*PROBLEM_FIELDS, "has_bias", "want_lse", "want_scores", "sm_count", "dbias_shape", "blocks")

    def __init__(self, p, want_lse, sm_count, tensors=None):
        for name, meaning in PROBLEM_FIELDS.items():
            read = _READERS.get(meaning)
            setattr(self, name, read(getattr(p, name)) if read else getattr(p, name))
        self.has_bias = self.bias_dtype is not None
        self.want_lse, self.sm_count, self.blocks = want_lse, sm_count, blocks_of(p)
        self.want_scores = asked_for(p, "block_scores") and bool(tensors.scores.data)
        self.dbias_shape = stored_shape(p, "dbias", tensors.dbias) if asked_for(p, "dbias") else None


def status_of(call, path, text, size):
    """Makes a call for C: its status, with the reason in `text` if it raises."""
    try:
        call()
        return OK
    except Unsupported as e:
        write_text(text, size, said_by(e) or "unsupported")
        return UNSUPPORTED
    except BaseException as e:
        write_text(text, size, in_words(e, path))
        return FAULT


class Kernel:
    """plan() and run() of a target as C calls them."""

    def __init__(self, name, target, path):
        self.target, self.path = target, path
        self.cuda = target.backend == CUDA
        self.compiled = set()
        self.label = (target.path or f"{name} ({target.arrays})").encode()[:63]

    def plan(self, problem, tensors, env, plan, text, size):
        try:
            p = problem.contents
            unknown = p.features & ~KNOWN_FEATURES
            why = (f"Python targets do not know this kind of problem: attn_problem.features has the bits {unknown:#x}"
                   if unknown else None) or (self.target.domain.outside(p, tensors.contents) or self.missing(p)
                   or self.backwards(tensors.contents))
            if why:
                write_text(text, size, why)
                return UNSUPPORTED
            plan = plan.contents
            self.target.errors.fill(plan, p, self.target.tiles)
            self.target.domain.say_lse(plan)
            plan.path = self.label
            return OK
        except BaseException as e:
            write_text(text, size, in_words(e, self.path))
            return FAULT

    def wants(self, p, name):
        """True if the function is to be given an input."""
        return asked_for(p, name)

    def outputs(self, p):
        """The outputs that the function is asked for, among them the caches that it writes."""
        return [name for name in outputs_of(p.features) if asked_for(p, name)]

    def function(self, problem):
        return self.target if self.target.positional else self.target.function

    def declared_whole(self):
        """True if the target's domain says that it returns an LSE. Otherwise an LSE that is missing counts as a refusal."""
        return bool(self.target.domain.words())

    def missing(self, p):
        """Refuses the problem if it has an input for which the function has no parameter."""
        for name in INPUTS:
            if self.wants(p, name) and argument_of(name) not in self.target.takes:
                return f"the target has no parameter '{argument_of(name)}'"
        return None

    def backwards(self, tensors):
        """Why a target with DLPack cannot take the tensors: a dimension is reversed. None if none is."""
        for member in dict.fromkeys(map(member_of, STRIDED)):
            if self.target.arrays == "dlpack" and any(s < 0 for s in getattr(tensors, member).stride):
                return f"{member} has a negative stride, which DLPack's consumers know nothing of"
        return None

    def run(self, problem, tensors, plan, env, text, size):
        return status_of(lambda: self.call(problem.contents, tensors.contents, env.contents), self.path, text, size)

    def call(self, p, t, env):
        if self.target.arrays == "torch" and self.cuda:
            import torch

            # Sets the stream until the next call. A worker uses only one stream at a time.
            torch.cuda.set_stream(external_stream(env.stream))
        arguments = {argument_of(name): self.array(self.tensor(name, p, t)) for name in INPUTS if self.wants(p, name)}
        names = self.outputs(p)
        optional = optional_outputs(p.features)  # every other output is asked for
        outputs = {argument_of(name): self.tensor(name, p, t) for name in names
                   if name not in optional or getattr(t, member_of(name)).data}
        takes = self.target.takes
        given = {name: self.array(outputs[name]) if name in outputs else None
                 for name in map(argument_of, outputs_of(p.features)) if name in takes}
        if "stream" in takes:
            given["stream"] = env.stream
        problem = Call(p, "lse" in outputs, env.sm_count, t)
        compilation = self.target.compilation(problem)
        is_new = bool(compilation) and compilation not in self.compiled
        self.compiled.add(compilation)
        with declare.compiling() if is_new else contextlib.nullcontext():
            result = self.function(problem)(problem, **arguments, **given)
        caches = any(name in STATES for name in names)
        if caches and result is None and self.target.arrays == "jax":
            raise TypeError("the target returned nothing, and JAX's arrays are copies: return k and v")
        if not names and result is not None:
            raise TypeError("the target writes into memory of its own, and returned something")
        rows = {argument_of(name): self.rows_of_entries(p, t, name) for name in names}
        if self.target.writes_alone and result is not None:
            raise TypeError("the target returned something, which cannot be read from a GPU with arrays='dlpack': write into "
                            f"{' and '.join(outputs)} and return nothing")
        returned = None if result is None else by_name(result, list(map(argument_of, names)), map(argument_of, outputs_of(p.features)))
        self.store(returned, outputs, given, rows)

    def rows_of_entries(self, p, tensors, name):
        """The rows of a packed output that belong to entries; None: all rows do, or nothing is copied from a GPU."""
        if not is_packed(p, name):
            return None
        borders = self.tensor("cu_q" if "seq_q" in TENSOR_SPECS[name][2] else "cu_k", p, tensors)
        if self.target.arrays == "torch":
            return int(torch_view(borders)[-1])
        return None if borders.cuda else int(numpy_view(borders)[-1])

    def tensor(self, name, p, tensors):
        shape, given, dtype = shape_of(p, name), getattr(tensors, member_of(name)), format_of(p, name)
        at = dimensions_of(name, is_packed(p, name))
        if name in STRIDED:
            shape = stored_shape(p, name, given) if name in OUTPUTS else shape
            return Tensor(given.data, [shape[i] for i in at], [given.stride[i] for i in at], dtype, self.cuda)
        return Tensor(given, shape[-1:], (1,), dtype, self.cuda)

    def array(self, tensor):
        arrays = self.target.arrays
        if arrays == "dlpack":
            return tensor
        if arrays == "torch":
            turned = tensor.backwards()
            # torch has no such views, so this is a copy.
            return torch_view(tensor.forwards()).flip(turned) if turned else torch_view(tensor)
        if arrays == "jax":
            import jax.numpy

            view = numpy_view(tensor)
            # JAX has no 64-bit integers by default and would truncate lengths.
            return jax.numpy.array(view.clip(-(2**31), 2**31 - 1) if tensor.dtype == "i64" else view)
        return numpy_view(tensor)

    def store(self, returned, outputs, given, rows):
        """Copies what the function returned into guarded memory, and what it wrote into arrays that were no views of it.
        `rows` by output: packed rows behind these belong to no entry, and stay as they are."""
        if self.target.arrays == "torch":
            for name, array in given.items():
                if name in outputs and outputs[name].backwards():
                    self.copy(name, array, outputs[name], rows.get(name))
        if returned is None:
            for name in outputs:
                if given.get(name) is None and name in _OPTIONAL:
                    raise TypeError(f"{an(name)} wanted and the target has no parameter '{name}': declare Domain(lse=False)")
                if given.get(name) is None:
                    raise TypeError(f"the target returned nothing, and has no parameter '{name}' to write into")
            return
        for name, tensor in outputs.items():
            value = returned.get(name)
            if value is None and name in _OPTIONAL:
                kind = TypeError if self.declared_whole() else Unsupported
                raise kind(f"{an(name)} wanted and the target returned {_OPTIONAL[name]} alone: declare Domain(lse=False)")
            if value is None:
                raise TypeError(f"the target returned no {title_of(name)}")
            self.copy(title_of(name), value, tensor, rows.get(name))

    def copy(self, name, value, tensor, rows=None):
        what = f"{'an' if name in ('O', 'LSE') else 'an array of' if name in ('indices', 'scores') else 'a'} {name}"
        whole = tensor.dtype in ("i64", "i32")
        due = "integers are" if whole else "floating point is"
        if not hasattr(value, "shape"):
            raise TypeError(f"the target returned {what} that is a {type(value).__name__}, and an array is due")
        shape = tuple(value.shape)
        if name == "LSE" and shape == tensor.shape + (1,):
            value, shape = value.reshape(tensor.shape), tensor.shape
        if shape != tensor.shape:
            raise TypeError(f"the target returned {what} of shape {shape}, and {tensor.shape} is due")
        if rows is not None:
            # An LSE is (heads, row); O and gradients are (row, head, column).
            tensor, value = (tensor.first(1, rows), value[:, :rows]) if len(shape) == 2 else (tensor.first(0, rows), value[:rows])
        if 0 in tensor.shape:
            return
        if self.target.arrays == "torch":
            if turned := tensor.backwards():
                tensor, value = tensor.forwards(), value.flip(turned)
            import torch

            integers = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
            if value.dtype not in integers if whole else not value.dtype.is_floating_point:
                raise TypeError(f"the target returned {what} of {value.dtype}, and {due} due")
            refuse_wide(what, value, tensor)
            torch_view(tensor).copy_(value)
            return
        import numpy

        value = numpy.asarray(value)
        to = numpy_view(tensor)
        # A complex number would lose its imaginary part, and a string would be parsed. bf16 may be the type or
        # its bits.
        if value.dtype.kind not in "iu" if whole else (
                value.dtype.kind != "f" and value.dtype != to.dtype and value.dtype.name != "bfloat16"):
            raise TypeError(f"the target returned {what} of {value.dtype}, and {due} due")
        refuse_wide(what, value, tensor)
        if tensor.dtype == "bf16" and to.dtype == numpy.uint16 and value.dtype != numpy.uint16:
            value = to_bits_of_bf16(value)
        with numpy.errstate(over="ignore"):
            to[...] = value


class MethodKernel(Kernel):
    """A method of a class, called on the instance of the sequence."""

    def __init__(self, name, method, path, life):
        super().__init__(name, method, path)
        self.life = life

    def wants(self, p, name):
        # A class with memory of its own has its own pools, lengths and tables.
        return asked_for(p, name) and (not self.target.own or argument_of(name) not in ("k", "v", "key_lengths", "block_table"))

    def outputs(self, p):
        return [name for name in super().outputs(p) if not (self.target.own and name in STATES)]

    def function(self, problem):
        method = getattr(self.life.instance, self.target.method)
        return functools.partial(method, **self.life.more(self.target, problem))

    def declared_whole(self):
        return True  # every attend of a sequence wants an LSE, so refusals would leave none to judge


class CacheKernel:
    """plan(), run() and tell() of a class as C calls them."""

    def __init__(self, name, of, path):
        self.of, self.path, self.life = of, path, Life(of)
        self.kernels = {OPERATIONS[operation]: MethodKernel(name, method, path, self.life)
                        for operation, method in of.methods.items()}

    def kernel(self, problem):
        return self.kernels.get(problem.contents.features & sum(OPERATIONS.values()))

    def plan(self, problem, tensors, env, plan, text, size):
        kernel = self.kernel(problem)
        if self.life.told is None or kernel is None:
            write_text(text, size, "a class makes calls in sequences (attnfuzz sequence), those for which it has methods")
            return UNSUPPORTED
        return kernel.plan(problem, tensors, env, plan, text, size)

    def run(self, problem, tensors, plan, env, text, size):
        return self.kernel(problem).run(problem, tensors, plan, env, text, size)

    def tell(self, told, text, size):
        return status_of(lambda: self.tell_instance(json.loads(told)), self.path, text, size)

    def tell_instance(self, told):
        self.life.tell(told)
        if self.of.arrays == "torch" and self.of.backend == CUDA:
            import torch

            torch.cuda.synchronize()  # the next call may come on another stream


def by_name(result, names, known):
    """What a function returned, by the names of the outputs that are asked for: a dict, a NamedTuple, or a tuple in their order.
    A single array is the first output. `known`: all outputs of the operation; one that is not asked for must be missing or None."""
    known = set(known)
    if isinstance(result, list):
        raise TypeError("the target returned a list; outputs are a tuple, a dict or a NamedTuple, or one array")
    if isinstance(result, tuple) and set(names) <= set(getattr(result, "_fields", ())) <= known:
        result = result._asdict()
    if isinstance(result, dict):
        if "out" in known and "o" in result and "out" not in result:  # a backward pass calls the same tensor o
            result = {"out" if name == "o" else name: value for name, value in result.items()}
        if unknown := [name for name in result if name not in known]:
            raise TypeError(f"the target returned {unknown[0]!r}; an output is one of {', '.join(names)}")
        if more := [name for name, value in result.items() if name not in names and value is not None]:
            raise TypeError(f"the target returned {title_of(more[0])}, for which this call does not ask; it asks for {', '.join(names)}")
        return result
    returned = result if isinstance(result, tuple) else (result,)
    # A forward pass may return O alone, and lists may come without scores.
    least = 1 if len(names) == 2 and names[1] in _OPTIONAL else len(names)
    if not least <= len(returned) <= len(names):
        raise TypeError(f"the target returned {len(returned)} arrays, and {len(names)} are due: {', '.join(names)}")
    return dict(zip(names, returned))


# Outputs that some calls do not want, with the output that a function then returns alone.
_OPTIONAL = {"lse": "O", "scores": "indices"}


def an(name):
    return "an LSE is" if name == "lse" else f"{name} are"


def refuse_wide(what, value, tensor):
    """Refuses integers that the output cannot hold: copied, they would be other numbers."""
    if tensor.dtype == "i32" and ((value < -2**31) | (value > 2**31 - 1)).any():
        raise TypeError(f"the target returned {what} beyond 32 bits, and int32 is due")


def title_of(name):
    """The name of an output in messages: "O", "LSE", "dQ", "dbias"."""
    return {"out": "O", "lse": "LSE", "dq": "dQ", "dk": "dK", "dv": "dV"}.get(name, name)


@functools.cache
def external_stream(address):
    import torch

    return torch.cuda.ExternalStream(address)


def torch_view(tensor):
    import torch

    if 0 in tensor.shape or not tensor.data:
        dtype = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "bool": torch.bool,
                 "i64": torch.int64, "i32": torch.int32}[tensor.dtype]
        return torch.empty(tensor.shape, dtype=dtype, device="cuda" if tensor.cuda else "cpu")
    return torch.from_dlpack(tensor.lend())  # a capsule, so torch asks nothing about devices and streams
