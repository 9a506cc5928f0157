"""The worker's Python side: a zygote that has imported a file of targets, and workers that are forked from it.

The command starts `zygote(file)` (fuzz/host/zygote.h) and asks it for workers. Each is a supervisor with the worker proper
as its child. In the worker, libattnfuzz-hosted-{cpu,cuda}.so (fuzz/worker/hosted.h) serves requests and calls back for
plan and run.

The zygote runs nothing of an untrusted file. It imports the installed modules that the file names, so that a worker, which
imports the file once it is confined, need not wait for them. Code that an installed module runs on import is confined,
too: by then the zygote can write no file and open no connection.
"""

import ctypes
import gc
import hashlib
import importlib.machinery
import importlib.util
import os
import signal
import socket
import sys
import traceback
from dataclasses import replace
from ctypes import c_char_p, c_int32, c_uint32, c_uint64, c_void_p

from attnfuzz import declare, home, poison
from attnfuzz.asleep import awake
from attnfuzz.cache import Cache
from attnfuzz.contract import CUDA, FEATURE_BITS, FEATURE_NO_FORWARD, OPERATIONS, Environment, Plan, Problem, Tensors
from attnfuzz.declare import Target
from attnfuzz.domain import CDomain
from attnfuzz.judge import named_modules
from attnfuzz.kernel import CacheKernel, Kernel, in_words
from attnfuzz.operations import DTYPES
from attnfuzz.tensor import numpy_bfloat16

_ProblemP, _TensorsP, _EnvironmentP, _PlanP = map(ctypes.POINTER, (Problem, Tensors, Environment, Plan))
_HostedPlan = ctypes.CFUNCTYPE(c_int32, _ProblemP, _TensorsP, _EnvironmentP, _PlanP, c_void_p, c_uint64)
_HostedTell = ctypes.CFUNCTYPE(c_int32, c_char_p, c_void_p, c_uint64)
_HostedRun = ctypes.CFUNCTYPE(c_int32, _ProblemP, _TensorsP, _PlanP, _EnvironmentP, c_void_p, c_uint64)


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


SOCKET = 3
# The numbers of a worker's descriptors, in the order in which they are sent: output, then wire.h's.
DESCRIPTORS = (1, 3, 4, 5, 6, 7)


# Set if a library wakes the CUDA driver on import: then the zygote imports nothing, and each worker imports by itself.
IMPORT_LATE = "ATTNFUZZ_IMPORT_LATE"


def start_late(begun_in, begun_with):
    """Replaces this process by a zygote that imports nothing, in the folder and with the environment that it began with."""
    os.environ.clear()
    os.environ.update(begun_with, **{IMPORT_LATE: "1"})
    os.chdir(begun_in)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, sys.orig_argv)


def zygote(path, confined_by=None):
    """Imports a file, and forks a worker whenever the socket asks for one, until the other end closes.

    confined_by: the library that confines this process before it imports what an untrusted file names; None: the file is
    trusted, and imported here.
    """
    home.worker_of = path
    # Makes torch look for a GPU without waking the driver, which does not survive a fork.
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    begun_in, begun_with = os.readlink("/proc/self/cwd"), dict(os.environ)
    loaded = None
    if confined_by:
        confine_zygote(confined_by)
    if not os.environ.get(IMPORT_LATE):
        if confined_by:
            import_what_is_installed(path)
        else:
            loaded = found_in(path)
        if awake():
            start_late(begun_in, begun_with)
    if confined_by:
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
