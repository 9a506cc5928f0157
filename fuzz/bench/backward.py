"""Times kernels of gradients beside PyTorch's, for bench.py --only backward.

    python3 bench.py --lib lib --only backward --dtype bf16 --dims 64,128 --against flash,cudnn
    python3 bench.py --lib lib --only backward --kernels fa1_backward:1,fa1_backward:2 --seqs 1024,4096

A kernel of ours is NAME or NAME:VARIANT. Shapes have batch * positions = 16384, heads * dim = 2048,
and 512 to --longest positions, full and causal. Rates are in TFLOP/s, for 10 B H S^2 D operations
(five products), or half of that if causal. All contenders get the same random Q, K, V and dO, and
the O and LSE of PyTorch's flash forward pass. For PyTorch, aten's backward operators are called, so
no forward pass is timed. Before a contender is timed, it writes into gradients filled with NaN,
which are then compared with double precision.
"""

import functools
import json
import math
import statistics
import time

import torch

import attention
import timing
from timing import log, say_ceilings

OURS = "fa1_backward"
aten = torch.ops.aten


class Shape:
    def __init__(self, batch, heads, seq, dim, causal, dtype):
        self.batch, self.heads, self.seq, self.dim, self.causal, self.dtype = batch, heads, seq, dim, causal, dtype

    def describe(self):
        return f"{str(self.dtype).split('.')[1]} D{self.dim} {'causal' if self.causal else 'full'} S={self.seq}"

    def rate(self, seconds):
        flops = 10 * self.batch * self.heads * self.seq**2 * self.dim / (2 if self.causal else 1)
        return flops / seconds / 1e12

    def kv_bytes(self):
        return 4 * self.batch * self.heads * self.seq * self.dim


def shapes(dtypes, dims, seqs, tokens=16384, width=2048):
    for dtype in dtypes:
        for dim in dims:
            for causal in (False, True):
                for seq in seqs:
                    yield Shape(tokens // seq, width // dim, seq, dim, causal, dtype)


class Inputs:
    def __init__(self, shape, device):
        size = (shape.batch, shape.heads, shape.seq, shape.dim)
        self.q, self.k, self.v, self.dout = (torch.randn(size, dtype=shape.dtype, device=device) for _ in range(4))
        self.o, self.lse, self.cum_q, self.cum_k, *_, self.seed, self.offset, _ = (
            aten._scaled_dot_product_flash_attention(self.q, self.k, self.v, 0.0, shape.causal, False))
        self.o = self.o.contiguous()  # it has the heads between positions and columns


class Ours:
    def __init__(self, kernel, variant, shape, sets, properties):
        env, workspace, self.calls = attention.environment(properties, variant), None, []
        for inputs in sets:
            grads = tuple(torch.full_like(t, math.nan) for t in (inputs.q, inputs.k, inputs.v))
            call = kernel.prepare_backward(inputs.q, inputs.k, inputs.v, inputs.o, inputs.lse, inputs.dout, grads,
                                           shape.causal, env, workspace)
            workspace = call.workspace
            self.calls.append(call)
        self.path = call.plan.path.decode()

    def run(self, n):
        self.calls[n]()

    def result(self):
        self.run(0)
        return self.calls[0].grads


@functools.cache
def of_cudnn():
    """The result of cuDNN's forward operator for a small call. Its backward operator needs parts of
    it."""
    small = torch.zeros((1, 1, 64, 64), dtype=torch.float16, device="cuda")
    return aten._scaled_dot_product_cudnn_attention(small, small, small, None, True)


class Torch:
    def __init__(self, name, shape, sets):
        self.name, self.shape, self.sets, self.path = name, shape, sets, ""

    def run(self, n):
        x, s = self.sets[n], self.shape
        if self.name == "flash":
            return aten._scaled_dot_product_flash_attention_backward(
                x.dout, x.q, x.k, x.v, x.o, x.lse, x.cum_q, x.cum_k, s.seq, s.seq, 0.0, s.causal, x.seed, x.offset)
        _, lse, cum_q, cum_k, _, _, seed, offset, *_ = of_cudnn()
        return aten._scaled_dot_product_cudnn_attention_backward(
            x.dout, x.q, x.k, x.v, x.o, x.lse.reshape(*x.lse.shape, *[1] * (lse.ndim - 3)), seed, offset, None, cum_q,
            cum_k, s.seq, s.seq, 0.0, s.causal)

    def result(self):
        return self.run(0)[:3]


def reference(shape, x):
    """Yields (batch, heads, (dQ, dK, dV)) in double precision, some heads at a time; of long sequences only the first
    and the last two heads."""
    at_once = max(1, (1 << 27) // shape.seq**2)
    firsts = range(0, shape.heads, at_once)
    if shape.seq >= 4096:
        at_once, firsts = min(at_once, 2), (0, shape.heads - min(at_once, 2))
    for b in range(0, shape.batch, max(1, shape.batch - 1)):
        for first in firsts:
            heads = slice(first, min(first + at_once, shape.heads))
            q, k, v, dout = (t[b, heads].double() for t in (x.q, x.k, x.v, x.dout))
            scale = shape.dim**-0.5
            p = (q @ k.transpose(1, 2)).mul_(scale)
            if shape.causal:
                p.masked_fill_(torch.ones(shape.seq, shape.seq, dtype=torch.bool, device=q.device).triu_(1), -math.inf)
            p.sub_(torch.logsumexp(p, -1, keepdim=True)).exp_()
            dv = p.transpose(1, 2) @ dout
            o = p @ v
            ds = (dout @ v.transpose(1, 2)).sub_((dout * o).sum(-1, keepdim=True)).mul_(p)
            del p
            yield b, heads, ((ds @ k).mul_(scale), (ds.transpose(1, 2) @ q).mul_(scale), dv)


def errors(expected, results):
    """name -> the largest of ||g - ref|| / ||ref|| of dQ, dK and dV. NaN stays NaN."""
    off, size = {name: [0.0] * 3 for name in results}, [0.0] * 3
    for b, heads, due in expected:
        for n, gradient in enumerate(due):
            size[n] += gradient.square().sum().item()
            for name, got in results.items():
                off[name][n] += (got[n][b, heads].double() - gradient).square().sum().item()
    found = {name: [math.sqrt(a / b) for a, b in zip(of, size)] for name, of in off.items()}
    return {name: math.nan if any(map(math.isnan, of)) else max(of) for name, of in found.items()}


def bench_shape(shape, makers, rounds, cold):
    sets = timing.make_sets(shape, torch.device("cuda"), Inputs)
    contenders, found, notes = timing.compare(
        {name: functools.partial(make, shape, sets) for name, make in makers.items()},
        lambda results: errors(reference(shape, sets[0]), results),
        lambda error: error <= 4 * timing.UNIT[shape.dtype], "relative error {0:.3g} of a gradient")
    wrong = [name for name in found if name not in contenders]
    samples, rested, failed = timing.time_all(contenders, sets, rounds, cold)
    row = {"shape": shape.describe(), "unit": "TFLOP/s", "notes": notes | failed, "wrong": wrong, "contenders": {}}
    for name, seconds in samples.items():
        row["contenders"][name] = {
            "seconds": statistics.median(seconds), "least_seconds": min(seconds), "most_seconds": max(seconds),
            "rate": shape.rate(statistics.median(seconds)), "relative_error": found[name], "path": contenders[name].path}
        if cold:
            row["contenders"][name]["cold_rate"] = shape.rate(statistics.median(rested[name]))
    return row


def ratio(row, mine, theirs, rate="rate"):
    of = row["contenders"]
    return of[mine][rate] / of[theirs][rate] if mine in of and theirs in of and rate in of[mine] else math.nan


def print_row(row, names, ours, cold):
    def cells(rate):
        return "".join(f"{row['contenders'][name][rate]:>8.1f}" if name in row["contenders"] else
                       f"{'WRONG' if name in row['wrong'] else '-':>8}" for name in names)

    rate = "cold_rate" if cold else "rate"
    ratios = " ".join(f"{ratio(row, name, 'flash', rate):6.3f}" for name in ours)
    log(f"{row['shape']:<28}{cells('rate')}{'  cold' + cells(rate) if cold else ''}  {ratios}")


def run(arguments, dtypes, device):
    properties = torch.cuda.get_device_properties(device)
    makers = {}
    for name in (arguments.kernels or OURS).split(","):
        library, _, variant = name.partition(":")
        kernel = attention.load(str(arguments.lib.resolve() / f"libattn_{library}_cuda.so"))
        makers[name] = functools.partial(Ours, kernel, int(variant or arguments.variant), properties=properties)
    ours = list(makers)
    makers |= {name: functools.partial(Torch, name) for name in arguments.against.split(",") if name in ("flash", "cudnn")}
    seqs = [512 << n for n in range(20) if 512 << n <= arguments.longest]
    if arguments.seqs:
        seqs = [int(n) for n in arguments.seqs.split(",")]
    dims = [int(n) for n in arguments.dims.split(",") if int(n) <= 128]
    wider = [n for n in arguments.dims.split(",") if int(n) > 128]
    if wider:
        log(f"left out: head dimensions {', '.join(wider)}; the backward kernels that are timed have at most 128")
    out = {"device": properties.name, "torch": torch.__version__, "cuda": torch.version.cuda,
           "cudnn": torch.backends.cudnn.version(), "rounds": arguments.rounds, "before": timing.ceilings(device),
           "rows": []}
    log(f"{out['device']}, torch {out['torch']}, CUDA {out['cuda']}, cuDNN {out['cudnn']}; {say_ceilings(out['before'])}")
    log(f"backward, TFLOP/s: {', '.join(makers)}; then x flash of {', '.join(ours)}")
    start, skipped = time.monotonic(), []
    for shape in shapes(dtypes, dims, seqs):
        if time.monotonic() - start > arguments.seconds:
            skipped.append(shape.describe())
            continue
        row = bench_shape(shape, makers, arguments.rounds, arguments.cold)
        torch.cuda.empty_cache()
        out["rows"].append(row)
        print_row(row, makers, ours, arguments.cold)
    out["after"], out["skipped"] = timing.ceilings(device), skipped
    log(f"after: {say_ceilings(out['after'])}")
    for note in sorted({f"{name}: {note}" for row in out["rows"] for name, note in row["notes"].items()}):
        log(note)
    for path in sorted({f"{name}: {c['path']}" for row in out["rows"] for name, c in row["contenders"].items()}):
        log(path)
    if skipped:
        log(f"left out after {arguments.seconds:.0f} s: {', '.join(skipped)}")
    if arguments.json:
        arguments.json.write_text(json.dumps(out, indent=1) + "\n")
    if not any(name in row["contenders"] or name in row["wrong"] for row in out["rows"] for name in ours):
        log("no problem was timed with a kernel of ours: nothing is shown")
        return 1
    return 1 if any(name in row["wrong"] for row in out["rows"] for name in ours) else 0
