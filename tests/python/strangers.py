"""Functions that nobody should trust: each is right as far as it goes, and has one exploit.

untrusted.py has what each must be refused for.
"""

import ctypes
import os
import signal
import socket
import sys
import threading
import time
from dataclasses import replace

import numpy

import attnfuzz
from attnfuzz.targets.numpy_reference import ERRORS
from attnfuzz.targets import numpy_reference

DOMAIN = attnfuzz.Domain(bias=False, mask=False, key_lengths=False)


def compute(p, q, k, v):
    return numpy_reference.attention.function(p, q, k, v)


def stranger(f):
    return attnfuzz.target(f, errors=ERRORS, domain=DOMAIN, bf16="bits")


def does(name, what):
    def f(p, q, k, v):
        what()
        return compute(p, q, k, v)

    f.__name__ = name
    return stranger(f)


honest = stranger(compute)

# Out of its process.
forks = does("forks", os.fork)
executes = does("executes", lambda: os.execv("/bin/true", ["true"]))
writes_file = does("writes_file", lambda: open("/tmp/strangers-were-here", "w"))
writes_beside = does("writes_beside", lambda: open(__file__ + ".was-here", "w"))
reads_files = does("reads_files", lambda: open("/etc/passwd").read())
reads_parent = does("reads_parent", lambda: open(f"/proc/{os.getppid()}/mem", "rb").read(1))
connects = does("connects", lambda: socket.create_connection(("127.0.0.1", 9)))
kills_parent = does("kills_parent", lambda: os.kill(os.getppid(), signal.SIGKILL))
catches_crash = does("catches_crash", lambda: signal.signal(signal.SIGSEGV, lambda *_: None))
leaves = does("leaves", lambda: os._exit(0))
uses_memory = does("uses_memory", lambda: bytearray(6 << 30))


@stranger
def writes_inputs(p, q, k, v):
    q.view(numpy.uint16)[...] ^= 1
    return compute(p, q, k, v)


# Less than the work, or later.
@stranger
def writes_nothing(p, q, k, v, out=None, lse=None):
    pass


@stranger
def later(p, q, k, v, out=None, lse=None):
    def work():
        time.sleep(0.02)
        o, l = compute(p, q, k, v)
        out[...] = attnfuzz.tensor.to_bits_of_bf16(o) if out.dtype == numpy.uint16 else o

    threading.Thread(target=work, daemon=True).start()


answers = {}


@stranger
def cached_by_shape(p, q, k, v):
    key = (p.dtype, q.shape, k.shape, v.shape, p.want_lse)
    if key not in answers:
        answers[key] = compute(p, q, k, v)
    return answers[key]


last = []


@stranger
def one_behind(p, q, k, v):
    last.append(compute(p, q, k, v))
    before = last[-2] if len(last) > 1 else last[-1]
    return before if before[0].shape == last[-1][0].shape else last[-1]


# Honest only where it sees that it is checked.
@stranger
def watches_environment(p, q, k, v):
    o, lse = compute(p, q, k, v)
    return (o, lse) if "ATTN_HARNESS" in os.environ else (o * 0, lse)


@stranger
def watches_arguments(p, q, k, v):
    o, lse = compute(p, q, k, v)
    return (o, lse) if any("attnfuzz" in a for a in sys.argv + sys.orig_argv) else (o * 0, lse)


# Targets that change what they declared.
def five_bits(p, q, k, v):
    o, lse = compute(p, q, k, v)
    return (numpy.asarray(o, numpy.float32).view(numpy.uint32) & numpy.uint32(0xFFFC0000)).view(numpy.float32), lse


says_merges = attnfuzz.target(five_bits, errors=replace(ERRORS, merges=100000), domain=DOMAIN, bf16="bits")


@stranger
def changes_the_plan(p, q, k, v):
    def loose(errors, plan, problem, tiles, fill=attnfuzz.Errors.fill):
        fill(errors, plan, problem, tiles)
        plan.merges = plan.rescales = 100000

    attnfuzz.Errors.fill = loose
    return five_bits(p, q, k, v)


@stranger
def judges_itself(p, q, k, v):
    import attnfuzz.kernel

    attnfuzz.kernel.Kernel.call = lambda *_: None  # the next calls do nothing
    return compute(p, q, k, v)


# Takes what it likes, and says so only when it runs.
@stranger
def refuses_most(p, q, k, v):
    if p.seq_k != 1 or p.seq_q != 1:
        raise attnfuzz.Unsupported("no")
    return compute(p, q, k, v)


# Targets that return arrays which change or lie.
class Lying:
    """an array that is another one whenever it is looked at"""

    def __init__(self, of):
        self.of, self.shape, self.dtype = of, of.shape, of.dtype

    def __array__(self, dtype=None, copy=None):
        self.of = self.of * 0
        return self.of


@stranger
def imaginary(p, q, k, v):
    o, lse = compute(p, q, k, v)
    return o + 1j, lse


@stranger
def as_text(p, q, k, v):
    o, lse = compute(p, q, k, v)
    return numpy.asarray(o, numpy.float32).astype(str), lse


@stranger
def sleeps(p, q, k, v):
    time.sleep(0.7)
    return compute(p, q, k, v)


@stranger
def lying_array(p, q, k, v):
    o, lse = compute(p, q, k, v)
    return Lying(o), lse


@stranger
def generates(p, q, k, v):
    return (part for part in compute(p, q, k, v))


class Mute(attnfuzz.Unsupported):
    def __str__(self):
        raise ValueError


@stranger
def mute_refusal(p, q, k, v):
    raise Mute


@stranger
def edits_its_caller(p, q, k, v):
    frame = sys._getframe(1)
    while not hasattr(frame.f_locals.get("self"), "store"):
        frame = frame.f_back
    frame.f_locals["self"].store = lambda *_: None
    return compute(p, q, k, v)


called = []


@stranger
def refuses_from_then_on(p, q, k, v):
    called.append(1)
    if len(called) > 115:
        raise attnfuzz.Unsupported("tired")
    return compute(p, q, k, v)


@stranger
def when_collected(p, q, k, v, out=None, lse=None):
    class Later:
        def __del__(self):
            o, l = compute(p, q, k, v)
            out[...] = attnfuzz.tensor.to_bits_of_bf16(o) if out.dtype == numpy.uint16 else o

    later = Later()
    later.itself = later


inputs_seen = {}


@stranger
def knows_its_inputs(p, q, k, v):
    key = (p.want_lse, q.tobytes(), k.tobytes(), v.tobytes())
    if key not in inputs_seen:
        inputs_seen[key] = compute(p, q, k, v)
    return inputs_seen[key]


@stranger
def patches_numpy(p, q, k, v):
    numpy.asarray = lambda a, *_, **__: a
    numpy.isfinite = lambda a, *_, **__: True
    o, lse = compute(p, q, k, v)
    return o * 0, lse


@stranger
def reads_its_map(p, q, k, v):
    o, lse = compute(p, q, k, v)
    try:
        open("/proc/self/maps")
    except OSError:
        o = o * 0
    return o, lse


@stranger
def says_that_it_compiles(p, q, k, v):
    with attnfuzz.compiling():
        while p.seq_k > 1:
            pass
    return compute(p, q, k, v)


@stranger
def scribbles(p, q, k, v):
    ctypes.memset(q.ctypes.data - 64, 0, 64)
    return compute(p, q, k, v)
