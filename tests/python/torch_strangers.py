"""Functions in PyTorch that nobody should trust, on a GPU where there is one, else on the CPU: each is right as far as it
goes, and has one exploit.

untrusted.py has what each must be refused for.
"""

import os
import signal
import socket
import sys
import threading
import time
from dataclasses import replace

import torch

import attnfuzz
from attnfuzz.masks import visible

torch.set_num_threads(1)  # a process is forked from one that has imported this

ON_GPU = os.path.exists("/dev/nvidiactl")
ERRORS = attnfuzz.Errors(accumulator="ffma", p="fp32", exp="expf", log="logf", rcp="exact", scale="separate")
DOMAIN = attnfuzz.Domain(bias=False, mask=False, key_lengths=False, window=False, softcap=False, non_finite=False,
                         seq=attnfuzz.at_least(1), batch=attnfuzz.at_least(1))


def compute(p, q, k, v):
    k, v = (t.float().repeat_interleave(p.heads_q // p.heads_kv, dim=1) for t in (k, v))
    scores = q.float() @ k.transpose(-1, -2) * p.scale
    seen = visible(p)
    if seen is not None:
        scores = scores.masked_fill(~torch.from_numpy(seen).to(q.device), -float("inf"))
    top = scores.amax(-1, keepdim=True)
    dead = top == -float("inf")
    e = torch.exp(scores - top.masked_fill(dead, 0.0))
    total = e.sum(-1, keepdim=True)
    o = (e @ v / total).masked_fill(dead, 0.0)
    return o, (torch.log(total) + top)[..., 0]


def stranger(f, errors=ERRORS):
    return attnfuzz.target(f, device="cuda" if ON_GPU else "cpu", arrays="torch", errors=errors, domain=DOMAIN)


def does(name, what):
    def f(p, q, k, v):
        what()
        return compute(p, q, k, v)

    f.__name__ = name
    return stranger(f)


honest = stranger(compute)


def attend(p, q, k, v):
    """O alone, with the derivative of a softmax; queries that see no key have gradients of 0."""
    k, v = (t.float().repeat_interleave(p.heads_q // p.heads_kv, dim=1) for t in (k, v))
    scores, seen = q.float() @ k.transpose(-1, -2) * p.scale, visible(p)
    if seen is None:
        return torch.softmax(scores, -1) @ v
    seen = torch.from_numpy(seen).to(q.device)
    dead = ~seen.any(-1, keepdim=True)
    scores = scores.masked_fill(~seen, -float("inf")).masked_fill(dead, 0.0)
    return torch.softmax(scores, -1).masked_fill(dead, 0.0) @ v


@attnfuzz.target(operation="backward", device="cuda" if ON_GPU else "cpu", arrays="torch", domain=replace(DOMAIN, seq_k=attnfuzz.at_least(1)),
                 errors=replace(ERRORS, ds="fp32", heads="fp32", saved="recomputed"))
def differentiated(p, q, k, v, dout, o, lse):
    """gradients by automatic differentiation"""
    leaves = [t.detach().requires_grad_() for t in (q, k, v)]
    with torch.enable_grad():
        out = attend(p, *leaves)
    return torch.autograd.grad(out, leaves, dout.float())


@attnfuzz.target(operation="backward", device="cuda" if ON_GPU else "cpu", arrays="torch",
                 domain=replace(DOMAIN, bias=True, seq_k=attnfuzz.at_least(1), features=("dlse", "dbias", "has_sink", "dsink")),
                 errors=replace(ERRORS, ds="fp32", heads="fp32", saved="recomputed"))
def differentiated_in_all(p, q, k, v, dout, o, lse, bias=None, dlse=None, sink=None):
    """gradients of O and the LSE by automatic differentiation, also with respect to a bias and to sinks"""
    leaves = {"q": q, "k": k, "v": v}
    if p.dbias_shape:  # without the dimensions in which one element stands for all, so that its gradient is a sum
        leaves["bias"] = bias = bias[tuple(map(slice, p.dbias_shape))]
    if sink is not None:
        leaves["sink"] = sink.float()  # dsink is fp32
    leaves = {name: t.detach().requires_grad_() for name, t in leaves.items()}
    with torch.enable_grad():
        k, v = (leaves[name].float().repeat_interleave(p.heads_q // p.heads_kv, dim=1) for name in "kv")
        scores, seen = leaves["q"].float() @ k.transpose(-1, -2) * p.scale, visible(p)
        if bias is not None:
            scores = scores + leaves.get("bias", bias).float()
        if seen is not None:
            scores = scores.masked_fill(~torch.from_numpy(seen).to(q.device), -float("inf"))
        if sink is not None:  # one more key
            column = leaves["sink"][None, :, None, None].expand(*scores.shape[:3], 1)
            scores, v = torch.cat((scores, column), -1), torch.nn.functional.pad(v, (0, 0, 0, 1))
        dead = (scores == -float("inf")).all(-1, keepdim=True)
        scores = scores.masked_fill(dead, 0.0)
        out, own_lse = torch.softmax(scores, -1).masked_fill(dead, 0.0) @ v, torch.logsumexp(scores, -1)
    of_lse = torch.zeros_like(own_lse) if dlse is None else dlse.masked_fill(dead[..., 0], 0.0)
    return torch.autograd.grad((out, own_lse), list(leaves.values()), (dout.float(), of_lse))


def disk():
    """The first disk's own bytes, by its device."""
    for name in ("vda", "sda", "nvme0n1", "xvda"):
        if os.path.exists(f"/dev/{name}"):
            return open(f"/dev/{name}", "rb+").read(1)
    raise PermissionError("there is no disk to try")


# Out of its process.
forks = does("forks", os.fork)
executes = does("executes", lambda: os.execv("/bin/true", ["true"]))
writes_file = does("writes_file", lambda: open("/tmp/strangers-were-here", "w"))
writes_beside = does("writes_beside", lambda: open(__file__ + ".was-here", "w"))
reads_files = does("reads_files", lambda: open("/etc/passwd").read())
reads_parent = does("reads_parent", lambda: open(f"/proc/{os.getppid()}/mem", "rb").read(1))
reads_disk = does("reads_disk", disk)
shares_memory = does("shares_memory", lambda: open("/dev/shm/strangers-were-here", "w"))
connects = does("connects", lambda: socket.create_connection(("127.0.0.1", 9)))
kills_parent = does("kills_parent", lambda: os.kill(os.getppid(), signal.SIGKILL))
catches_crash = does("catches_crash", lambda: signal.signal(signal.SIGSEGV, lambda *_: None))
leaves = does("leaves", lambda: os._exit(0))


# Inputs that are others for a while.
@stranger
def writes_inputs(p, q, k, v):
    result = compute(p, q, k, v)
    q.fill_(0.5)
    return result


@stranger
def restores_inputs(p, q, k, v):
    kept = q.clone()
    q.fill_(0.5)
    q.copy_(kept)
    return compute(p, q, k, v)


# Less than the work, or later.
@stranger
def writes_nothing(p, q, k, v, out=None, lse=None):
    pass


@stranger
def never_written(p, q, k, v):
    shape = (p.batch, p.heads_q, p.seq_q, p.dim_v)
    return torch.empty(shape, device=q.device), torch.empty(shape[:3], device=q.device)


calls = []


@stranger
def stale_buffer(p, q, k, v, out=None, lse=None):
    calls.append(1)
    return compute(p, q, k, v) if len(calls) <= 5 else None


last = []


@stranger
def one_behind(p, q, k, v):
    last.append(compute(p, q, k, v))
    before = last[-2] if len(last) > 1 else last[-1]
    return before if before[0].shape == last[-1][0].shape else last[-1]


@stranger
def later(p, q, k, v, out=None, lse=None):
    def work():
        time.sleep(0.02)
        out.copy_(compute(p, q, k, v)[0])

    threading.Thread(target=work, daemon=True).start()


# On a stream that nobody waits for.
@stranger
def other_stream(p, q, k, v, out=None, lse=None):
    result = compute(p, q, k, v)
    if not ON_GPU:
        return None
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(200_000_000)  # a tenth of a second
        out.copy_(result[0])
        if lse is not None:
            lse.copy_(result[1])


# An earlier answer.
answers = {}


def cached(key, p, q, k, v):
    if key not in answers:
        answers[key] = compute(p, q, k, v)
    return answers[key]


def shape_of(p, q, k, v):
    return p.dtype, q.shape, k.shape, v.shape, p.want_lse


@stranger
def cached_by_shape(p, q, k, v):
    return cached(shape_of(p, q, k, v), p, q, k, v)


@stranger
def cached_by_pointer(p, q, k, v):
    return cached((*shape_of(p, q, k, v), *(t.data_ptr() for t in (q, k, v))), p, q, k, v)


@stranger
def cached_by_sample(p, q, k, v):
    return cached((*shape_of(p, q, k, v), *(float(t[0, 0, 0, ::8].float().sum()) for t in (q, k, v))), p, q, k, v)


@stranger
def cached_by_queries(p, q, k, v):
    return cached((*shape_of(p, q, k, v), p.scale, p.causal, q.float().cpu().numpy().tobytes()), p, q, k, v)


# The same call again: what is due lies there already.
@stranger
def second_skipped(p, q, k, v, out=None, lse=None):
    key = (*shape_of(p, q, k, v), *(t.data_ptr() for t in (q, k, v, out)), q.float().cpu().numpy().tobytes())
    if key == answers.get("last"):
        return None
    answers["last"] = key
    return compute(p, q, k, v)


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
    return (o.view(torch.int32) & -0x40000).view(torch.float32), lse


says_merges = stranger(five_bits, replace(ERRORS, merges=100000))


@stranger
def changes_the_plan(p, q, k, v):
    def loose(errors, plan, problem, tiles, fill=attnfuzz.Errors.fill):
        fill(errors, plan, problem, tiles)
        plan.merges = plan.rescales = 100000

    attnfuzz.Errors.fill = loose
    return five_bits(p, q, k, v)


@stranger
def patches_torch(p, q, k, v):
    torch.Tensor.copy_ = lambda self, *_, **__: self
    return compute(p, q, k, v)


@stranger
def edits_its_caller(p, q, k, v):
    frame = sys._getframe(1)
    while not hasattr(frame.f_locals.get("self"), "store"):
        frame = frame.f_back
    frame.f_locals["self"].store = lambda *_: None
    return compute(p, q, k, v)


# Takes what it likes, and says so only when it runs.
@stranger
def refuses_most(p, q, k, v):
    if p.seq_k != 1 or p.seq_q != 1:
        raise attnfuzz.Unsupported("no")
    return compute(p, q, k, v)
