"""The worker's Python side: a zygote that has imported a file of targets, and workers that are forked from it.

The command starts `zygote(file)` (fuzz/host/zygote.h) and asks it for workers. Each is a supervisor with the worker proper
as its child. In the worker, libattnfuzz-hosted-{cpu,cuda}.so (fuzz/worker/hosted.h) serves requests and calls back for
plan and run.

The zygote runs nothing of an untrusted file. It imports the installed modules that the file names, so that a worker, which
imports the file once it is confined, need not wait for them. Code that an installed module runs on import is confined,
too: by then the zygote can write no file and open no connection.
"""

import contextlib
import ctypes
import functools
import gc
import hashlib
import importlib.machinery
import importlib.util
import json
import os
import signal
import socket
import sys
import traceback
from dataclasses import replace
from ctypes import c_char_p, c_int32, c_uint32, c_uint64, c_void_p

from attnfuzz import declare, poison
from attnfuzz.cache import Cache, Life
from attnfuzz.contract import (CUDA, FAULT, FEATURE_BITS, FEATURE_F32, FEATURE_NO_FORWARD, FEATURE_WIDE, OK, OPERATIONS,
                               PROBLEM_FIELDS, TENSOR_SPECS, UNSUPPORTED, Environment, Plan, Problem, Tensors)
from attnfuzz.declare import (DTYPES, INPUTS, OUTPUTS, STATES, STRIDED, CDomain, Target, Unsupported, argument_of, asked_for,
                              blocks_of, dimensions_of, format_of, is_packed, member_of, optional_outputs, outputs_of, shape_of,
                              stored_shape)
from attnfuzz.judge import named_modules
from attnfuzz.tensor import Tensor, numpy_bfloat16, numpy_view, to_bits_of_bf16

_ProblemP, _TensorsP, _EnvironmentP, _PlanP = map(ctypes.POINTER, (Problem, Tensors, Environment, Plan))
_HostedPlan = ctypes.CFUNCTYPE(c_int32, _ProblemP, _TensorsP, _EnvironmentP, _PlanP, c_void_p, c_uint64)
_HostedTell = ctypes.CFUNCTYPE(c_int32, c_char_p, c_void_p, c_uint64)
_HostedRun = ctypes.CFUNCTYPE(c_int32, _ProblemP, _TensorsP, _PlanP, _EnvironmentP, c_void_p, c_uint64)


# The kinds of problem that Call handles: bits of attn_problem.features. Fields with a bit are offered to
# targets that declare them (fuzz/worker/hosted.cc).
KNOWN_FEATURES = FEATURE_F32 | FEATURE_WIDE | sum({*FEATURE_BITS.values(), *OPERATIONS.values()})


class Hosted(ctypes.Structure):
    """fuzz/worker/hosted.h, field by field."""

    _fields_ = [
        ("size", c_uint32), ("backend", c_int32), ("name", c_char_p), ("description", c_char_p),
        ("domain", c_char_p), ("source_hash", c_char_p), ("host", c_char_p), ("source", c_char_p),
        ("plan", _HostedPlan), ("run", _HostedRun), ("dtypes", c_uint32),
        ("takes", ctypes.POINTER(CDomain)), ("finite", c_int32), ("note", c_char_p), ("features", c_uint64),
        ("cache", c_int32), ("tell", _HostedTell),
    ]


class Loaded(ctypes.Structure):
    _fields_ = [("kernels", ctypes.POINTER(Hosted)), ("count", c_uint32), ("refusal", c_char_p)]


_Load = ctypes.CFUNCTYPE(None, ctypes.POINTER(Loaded))


def write_text(address, size, text):
    """Writes text into a C buffer, cut to its size and NUL-terminated."""
    data = text.encode("utf-8", "replace")[: size - 1] + b"\0"
    ctypes.memmove(address, data, len(data))


SOCKET = 3
# The numbers of a worker's descriptors, in the order in which they are sent: output, then wire.h's.
DESCRIPTORS = (1, 3, 4, 5, 6, 7)


def zygote(path, confined_by=None):
    """Imports a file, and forks a worker whenever the socket asks for one, until the other end closes.

    confined_by: the library that confines this process before it imports what an untrusted file names; None: the file is
    trusted, and imported here.
    """
    # Makes torch look for a GPU without waking the driver, which does not survive a fork.
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    # If a library wakes the driver all the same, or if the file is untrusted, each worker imports
    # by itself.
    loaded = None if confined_by or os.environ.get("ATTNFUZZ_IMPORT_LATE") else found_in(path)
    if confined_by:
        confine_zygote(confined_by)
        import_what_is_installed(path)
        hide()
    gc.collect()
    gc.freeze()
    server = socket.socket(fileno=os.dup(SOCKET))
    os.close(SOCKET)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        words, descriptors, _, _ = socket.recv_fds(server, 8192, len(DESCRIPTORS))
        if not words:
            os._exit(0)
        if os.fork() == 0:
            try:
                server.detach()
                status = become_supervisor(words.decode().split("\0"), descriptors, path, loaded)
            except BaseException:
                traceback.print_exc()
                status = 121
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
        for fd in descriptors:
            os.close(fd)


def become_supervisor(words, descriptors, path, loaded):
    library, kernel = words
    import fcntl

    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 64) for fd in descriptors]
    for fd, number in zip(high, DESCRIPTORS):
        os.dup2(fd, number)
    os.dup2(1, 2)
    for fd in high:
        os.close(fd)
    for fd in descriptors:
        if fd not in DESCRIPTORS and fd > 2:
            os.close(fd)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    host = ctypes.CDLL(library)
    declare._tell_compiling = host.attnfuzz_compiling
    host.attnfuzz_work.argtypes = [_Load, c_char_p, c_char_p, c_char_p, c_int32]
    supervisor = os.getpid()
    worker = os.fork()
    if worker:
        host.attnfuzz_supervise(worker)  # does not return

    @_Load
    def bring(to):
        # Reports an exception itself, because nobody above would.
        found = loaded or found_in(path)
        try:
            if poison.wanted():
                poison.poison_host(host)
                if "torch" in sys.modules and host.attnfuzz_backend() == CUDA:
                    poison.poison_device(library)
        except BaseException as e:
            found = nothing_in(path, e)
        _kept.append(found)
        to.contents.kernels, to.contents.count, to.contents.refusal = found

    return host.attnfuzz_work(bring, path.encode(), kernel.encode(), readable(path).encode(), supervisor)


def found_in(path):
    """The targets of a file as C reads them, their number, and a refusal or None. Workers that are forked later share them."""
    try:
        with open(path, "rb") as f:
            source = hashlib.sha256(f.read()).hexdigest()[:32]
        targets, refusal = load(path)
        hosted = (Hosted * max(len(targets), 1))(*[host_of(name, t, path, source) for name, t in targets])
        return hosted, len(targets), refusal.encode() if refusal else None
    except BaseException as e:
        return nothing_in(path, e)


def nothing_in(path, e):
    return (Hosted * 1)(), 0, f"{path} cannot be loaded: {in_words(e, path)}".encode()


def own_folders():
    """The folders of this interpreter and of its installed modules."""
    own = os.path.dirname(os.path.realpath(__file__))  # a build tree has a link to it
    return {os.path.realpath(p) for p in [sys.prefix, sys.base_prefix, sys.exec_prefix, own, *sys.path] if p}


def readable(path):
    """What a confined worker may read: the interpreter, installed modules, the file's folder, ATTNFUZZ_READABLE."""
    more = os.environ.get("ATTNFUZZ_READABLE", "").split(":")
    return ":".join(p for p in [*sorted(own_folders()), os.path.dirname(path), *more] if p)


def confine_zygote(library):
    """Gives up the rights to write files and to open TCP connections, as far as the system supports that.

    An untrusted file names the modules, and `import venv.__main__` would write a virtual environment.
    """
    host = ctypes.CDLL(library)
    host.attnfuzz_confine_zygote.restype = c_char_p
    why = host.attnfuzz_confine_zygote()
    if why:
        raise RuntimeError(f"the process that imports modules cannot be confined: {why.decode()}")


def import_what_is_installed(path):
    """The modules that a file names at its top, without those beside it. The file is read, not run."""
    beside = os.path.realpath(os.path.dirname(path))
    sys.path[:] = [p for p in sys.path if os.path.realpath(p) != beside]
    for name in ["numpy", *named_modules(path)]:
        try:
            if not name.endswith("__main__") and importlib.machinery.PathFinder.find_spec(name.split(".")[0]):
                importlib.import_module(name)
        except BaseException:
            pass  # includes sys.exit(): its worker reports what is wrong


def hide():
    """Hides what forked processes, and anyone who can trace this process, could see."""
    sys.argv[:] = [""]
    sys.orig_argv[:] = [""]
    sys.dont_write_bytecode = True
    for name in ("PYTHONPATH", "PYTHONHOME"):
        os.environ.pop(name, None)
    PR_SET_DUMPABLE, PR_SET_NAME = 4, 15
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    libc.prctl(PR_SET_NAME, b"main", 0, 0, 0)


def load(path):
    """The targets of a file in order, by the file's names; or a sentence that says why there are none."""
    sys.path.insert(0, os.path.dirname(path))
    name = os.path.splitext(os.path.basename(path))[0]
    try:
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules.setdefault(name, module)
        spec.loader.exec_module(module)
    except BaseException as e:
        advice = f"; the interpreter is {sys.executable}, and ATTNFUZZ_PYTHON names another" if isinstance(e, ImportError) else ""
        return [], f"{path} cannot be imported: {in_words(e, path)}{advice}"
    targets = [(name, t) for name, t in vars(module).items() if isinstance(t, (Target, Cache))]
    if not targets:
        return [], (f"{path} has no targets: a kernel is a function with @attnfuzz.target above it, or a class with "
                    "@attnfuzz.cache")
    for name, target in targets:
        if why := lacks(target):
            return [], f"{path}: {name} {why}"
    return targets, None


def lacks(target):
    """The package that a target's arrays need and this interpreter lacks, and what to do. None if
    none is missing."""
    package = {"numpy": "numpy", "torch": "torch", "jax": "jax"}.get(target.arrays)
    if package and package not in sys.modules and not importlib.util.find_spec(package):
        return (f"is given arrays of {package}, which {sys.executable} has not: {sys.executable} -m pip install {package}, "
                "or name another interpreter in ATTNFUZZ_PYTHON")
    if lacks_bf16(target) and set(target.domain.dtypes) == {"bf16"}:
        return ("takes bf16 alone, of which NumPy has no type without ml_dtypes: pip install ml_dtypes, or declare "
                "bf16='bits' for a function that reads them in uint16")
    return None


def lacks_bf16(target):
    """True if NumPy would have to pass bits instead of bf16 and the target has not declared that it reads them."""
    return (target.arrays == "numpy" and target.bf16 != "bits" and "bf16" in target.domain.dtypes
            and numpy_bfloat16() is None)


def in_words(e, path=None):
    """An exception in a line: the error, and the place in the user's code."""
    said = said_by(e)
    if isinstance(e, SystemExit):
        text = f"called sys.exit({said})"
    else:
        text = f"raised {type(e).__name__}: {said}" if said else f"raised {type(e).__name__}"
    frames = [f for f in traceback.extract_tb(e.__traceback__) if not f.filename.startswith("<frozen")]
    own = [f for f in frames if f.filename == path] or [f for f in frames if f.filename != __file__]
    if own:
        text += f" ({os.path.basename(own[-1].filename)}:{own[-1].lineno})"
    return " ".join(text.split())[:500]


def said_by(e):
    """An exception's own text. It may be empty, or asking for it may raise another exception."""
    try:
        return repr(e.code) if isinstance(e, SystemExit) else str(e)
    except Exception:
        return "it cannot be printed"


def host_of(name, target, path, source):
    note = None
    if lacks_bf16(target):
        target.domain = replace(target.domain, dtypes=tuple(d for d in target.domain.dtypes if d != "bf16"))
        note = ("bf16 is left out, for NumPy has no type of it here: pip install ml_dtypes, or declare "
                f"attnfuzz.{'cache' if isinstance(target, Cache) else 'target'}(bf16='bits') if it reads its bits in uint16")
    is_class = isinstance(target, Cache)
    kernel = CacheKernel(name, target, path) if is_class else Kernel(name, target, path)
    domain = target.domain.struct()
    host = f"{sys.implementation.name} {sys.version.split()[0]}"
    hosted = Hosted(size=ctypes.sizeof(Hosted), backend=target.backend, name=name.encode(),
                    description=target.description.encode(), domain=target.words().encode(),
                    source_hash=source.encode(), host=host.encode(), source=path.encode(),
                    plan=_HostedPlan(kernel.plan), run=_HostedRun(kernel.run),
                    dtypes=sum(1 << DTYPES.index(name) for name in set(target.domain.dtypes)),
                    takes=ctypes.pointer(domain) if domain else None, finite=not target.domain.non_finite,
                    note=note.encode() if note else None,
                    features=target.domain.feature_bits() | (class_bits(target) if is_class else operation_bits(target)),
                    cache=(0 if not is_class else 2 if target.own else 1),
                    tell=_HostedTell(kernel.tell) if is_class else _HostedTell())
    _kept.append((kernel, hosted, domain))
    return hosted


def operation_bits(target):
    """The bits of attn_kernel.features that say which operation the target has."""
    feature = OPERATIONS[target.operation]
    return feature | FEATURE_NO_FORWARD if feature else 0


def class_bits(of):
    """The same of a class, whose attends have pages."""
    bits = FEATURE_BITS["paged"] | sum(OPERATIONS[operation] for operation in of.methods)
    return bits if "forward" in of.methods else bits | FEATURE_NO_FORWARD


_kept = []


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
        return self.target.function

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
