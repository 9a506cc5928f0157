#!/usr/bin/env python3
"""Measures what an ordinary random test finds in a library, and how fast it is, for comparison with
attnfuzz check.

    python3 fuzz/bench/plain_loop.py [--seconds 10] [--seed 1] [--json FILE] FILE.py:NAME ...

It draws shapes inside a target's domain (batch 1..3, heads 1..4, 1..300 positions, dim 32, 64 or 128 if the domain
has them). Half the problems are causal. Each other supported feature appears one time in four, among them sinks. A target of
listed blocks gets random lists. Inputs are Gaussian and dense. Other operations are refused, and no problem is packed or
has pages. The loop calls the target, computes attention in double precision on the same device, and repeats this for
--seconds on each target. A failure is an exception other than attnfuzz.Unsupported, or an error of O or LSE above the
fixed tolerance, 1e-2 absolute and relative. The loop has no bound, no redzones, no values other than Gaussian, no
strides and no reducer. It sets ATTNFUZZ_KNOWN=1, so that targets do not refuse the cases in which they are known to
fail.

Exit status: 0 each target was run, whatever was found; 1 a target could not be run; 2 bad use.
"""

import argparse
import importlib.util
import itertools
import json
import math
import os
import pathlib
import random
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

os.environ.setdefault("ATTNFUZZ_KNOWN", "1")
try:
    import attnfuzz
except ImportError:  # a checkout, where nothing is installed
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
    import attnfuzz
import numpy as np
from attnfuzz.contract import PROBLEM_FIELDS
from attnfuzz.declare import Target
from attnfuzz.operations import DTYPES
from attnfuzz.tensor import as_float32, numpy_bfloat16, to_bits_of_bf16

TOLERANCE = 1e-2  # absolute, and relative
MOST_RAISED = 20  # in a row: a GPU whose context is lost gives errors only
USUAL = {"batch": range(1, 4), "heads_q": range(1, 5), "heads_kv": range(1, 5), "seq_q": range(1, 301), "seq_k": range(1, 301),
         "dim_qk": (32, 64, 128), "dim_v": (32, 64, 128)}


class Broken(Exception):
    """The target cannot be run, with the reason."""


def load(name):
    path, _, function = name.rpartition(":")
    if not path.endswith(".py") or not os.path.isfile(path):
        raise Broken("FILE.py:NAME is required, and there is no such file")
    path = os.path.abspath(path)
    sys.path.insert(0, os.path.dirname(path))
    spec = importlib.util.spec_from_file_location(os.path.splitext(os.path.basename(path))[0], path)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as e:
        raise Broken(f"the file cannot be imported: {type(e).__name__}: {e}") from None
    target = vars(module).get(function)
    if not isinstance(target, Target):
        there = ", ".join(n for n, t in vars(module).items() if isinstance(t, Target))
        raise Broken(f"the file has no target of that name; it has: {there or 'none'}")
    if target.operation not in ("forward", "selected"):
        raise Broken(f"the loop knows forward passes and listed blocks, and not the operation {target.operation}")
    if target.arrays == "dlpack" or target.takes & {"out", "lse", "stream"}:
        raise Broken("the loop gives NumPy's, PyTorch's or JAX's arrays, and neither out, lse nor stream")
    return target


def draw(rng, target):
    """A problem of the target's domain. Each supported feature appears one time in four, causal every second time."""
    domain = replace(target.domain, layout=None, align_bytes=None)  # inputs are dense here
    sizes = {name: [n for n in USUAL[name] if size.holds(n)] or size.only for name, size in domain._sizes.items() if name in USUAL}
    if not all(sizes.values()):
        raise Broken("its domain has none of the usual sizes")
    for _ in range(100000):
        p = SimpleNamespace(**{**dict.fromkeys(PROBLEM_FIELDS, 0), **{name: rng.choice(of) for name, of in sizes.items()}})
        p.seq_k = p.seq_q if rng.random() < 0.5 and p.seq_q in sizes["seq_k"] else p.seq_k
        p.dim_v = p.dim_qk
        p.heads_kv = p.heads_q if rng.random() < 0.5 else p.heads_kv
        p.dtype, p.causal, p.align = rng.randrange(3), rng.random() < 0.5, rng.randrange(2)
        some = lambda name, value: value if name in target.takes and rng.random() < 0.25 else None
        p.has_mask, p.has_key_lengths = bool(some("mask", True)), bool(some("key_lengths", True))
        p.bias_dtype = p.dtype if some("bias", True) else -1
        windows = target.operation == "forward"
        p.window_left, p.window_right = (rng.randint(0, p.seq_k) if windows and rng.random() < 0.25 else -1 for _ in range(2))
        p.has_sink = "has_sink" in domain.features and bool(some("sink", True))
        p.block, p.select = (rng.choice((1, 16, 64)), rng.randint(1, 8)) if target.operation == "selected" else (0, 0)
        p.softcap, p.scale = 30.0 if rng.random() < 0.25 else 0.0, p.dim_qk**-0.5
        lse = SimpleNamespace(lse=SimpleNamespace(data=domain.lse))
        if p.heads_q % p.heads_kv == 0 and DTYPES[p.dtype] in domain.dtypes and domain.outside(p, lse) is None:
            p.dtype, p.align = DTYPES[p.dtype], ("top_left", "bottom_right")[p.align]
            p.has_bias, p.want_lse, p.sm_count = p.bias_dtype >= 0, domain.lse, 1
            return p
    raise Broken("its domain has none of 100000 usual problems")


def in_words(p):
    words = [f"B={p.batch} H={p.heads_q}/{p.heads_kv} S={p.seq_q}/{p.seq_k} D={p.dim_qk} {p.dtype}"]
    words += [f"causal {p.align}"] if p.causal else []
    words += [f"window {p.window_left},{p.window_right} {p.align}"] if max(p.window_left, p.window_right) >= 0 else []
    words += ["softcap"] if p.softcap else []
    words += [f"lists of {p.select} blocks of {p.block}"] if p.block else []
    return " ".join(words + [name for name in ("bias", "mask", "key_lengths", "sink") if getattr(p, f"has_{name}")])


class Numpy:
    """Makes arrays on the host; JAX copies them."""

    def __init__(self, seed, arrays):
        self.xp, self.on, self.rng, self.arrays = np, {}, np.random.default_rng(seed), arrays

    def normal(self, shape, dtype):
        a = self.rng.standard_normal(shape, np.float32)
        if dtype != "bf16":
            return a.astype({"f16": np.float16, "f32": np.float32}[dtype])
        bits = to_bits_of_bf16(a)
        return bits if numpy_bfloat16() is None else bits.view(numpy_bfloat16())

    def integers(self, first, end, shape):
        return self.rng.integers(first, end, shape)

    def given(self, a):
        if self.arrays == "numpy":
            return a
        import jax.numpy

        return jax.numpy.array(a)

    def double(self, a):
        return as_float32(np.asarray(a)).astype(np.float64)


class Torch:
    def __init__(self, seed, device):
        import torch

        if device == "cuda" and not torch.cuda.is_available():
            raise Broken("torch sees no GPU")
        torch.manual_seed(seed)
        self.xp, self.on = torch, {"device": device}

    def normal(self, shape, dtype):
        return self.xp.randn(shape, dtype={"f16": self.xp.float16, "bf16": self.xp.bfloat16, "f32": self.xp.float32}[dtype],
                             **self.on)

    def integers(self, first, end, shape):
        return self.xp.randint(first, end, shape, **self.on)

    def given(self, a):
        return a

    def double(self, a):
        return a.double()


def reference(to, p, q, k, v, bias=None, mask=None, key_lengths=None, sink=None, indices=None):
    """O and LSE in double precision; NumPy and PyTorch have the same names for this."""
    xp, group = to.xp, p.heads_q // p.heads_kv
    q, k, v = map(to.double, (q, k, v))
    q = q.reshape(p.batch, p.heads_kv, group, p.seq_q, p.dim_qk)
    scores = (q @ k[:, :, None].swapaxes(-1, -2) * p.scale).reshape(p.batch, p.heads_q, p.seq_q, p.seq_k)
    if p.softcap:
        scores = p.softcap * xp.tanh(scores / p.softcap)
    if bias is not None:
        scores = scores + to.double(bias)
    i, j = xp.arange(p.seq_q, **to.on)[:, None], xp.arange(p.seq_k, **to.on)
    length = p.seq_k if key_lengths is None else key_lengths.reshape(-1, 1, 1, 1)
    offset = j - i - (length - p.seq_q if p.align == "bottom_right" else 0)
    hidden = (j >= length) | (p.causal & (offset > 0))
    if p.window_left >= 0:
        hidden = hidden | (offset < -p.window_left)
    if p.window_right >= 0:
        hidden = hidden | (offset > p.window_right)
    if mask is not None:
        hidden = hidden | ~mask
    if indices is not None:
        listed = (indices[..., None] == xp.arange(-(-p.seq_k // p.block), **to.on)).any(3)
        hidden = hidden | ~listed[:, xp.arange(p.heads_q, **to.on) // group][..., j // p.block]
    scores = xp.where(hidden, -math.inf, scores)
    top = xp.amax(scores, axis=-1, keepdims=True)
    if sink is not None:
        sink = to.double(sink)[:, None, None]
        top = xp.maximum(top, sink)
    e = xp.exp(scores - xp.where(top == -math.inf, 0.0, top))
    total = e.sum(-1)[..., None] + (0 if sink is None else xp.exp(sink - top))
    w = (e / xp.where(total == 0, 1.0, total)).reshape(p.batch, p.heads_kv, group, p.seq_q, p.seq_k)
    lse = xp.where(total == 0, -math.inf, xp.log(xp.where(total == 0, 1.0, total)) + xp.where(total == 0, 0.0, top))
    return (w @ v[:, :, None]).reshape(p.batch, p.heads_q, p.seq_q, p.dim_v), lse[..., 0]


def declared_lse(to, domain, lse):
    """The LSE in the target's base, with the declared value for queries that see no key; None: anything."""
    dead = {"-inf": -math.inf, "+inf": math.inf, "0": 0.0, "any": math.nan}[domain.lse_dead]
    return to.xp.where(lse == -math.inf, dead, lse / math.log(2) if domain.lse_base == 2 else lse)


def judge(target, to, p):
    """Why a case fails; None if it does not."""
    square = (p.batch, p.heads_q, p.seq_q, p.seq_k)
    arrays = {"q": to.normal((p.batch, p.heads_q, p.seq_q, p.dim_qk), p.dtype),
              "k": to.normal((p.batch, p.heads_kv, p.seq_k, p.dim_qk), p.dtype),
              "v": to.normal((p.batch, p.heads_kv, p.seq_k, p.dim_v), p.dtype)}
    if p.has_bias:
        arrays["bias"] = to.normal(square, p.dtype)
    if p.has_mask:
        arrays["mask"] = to.normal(square, "f32") > -1
    if p.has_key_lengths:
        steps = to.normal((p.batch,), "f32")  # half of them are shorter
        arrays["key_lengths"] = p.seq_k - to.xp.where(steps > 0, to.xp.arange(p.batch, **to.on) * (p.seq_k - 1) // p.batch, 0)
    if p.has_sink:
        arrays["sink"] = to.normal((p.heads_q,), "f32")
    if p.block:
        arrays["indices"] = to.integers(-1, -(-p.seq_k // p.block), (p.batch, p.heads_kv, p.seq_q, p.select))
    result = target(p, **{name: to.given(a) for name, a in arrays.items()})
    o, lse = reference(to, p, **arrays)
    for name, got, due in zip(("O", "LSE"), result if isinstance(result, tuple) else (result,),
                              (o, declared_lse(to, target.domain, lse))):
        got = to.double(got).reshape(due.shape)
        with np.errstate(invalid="ignore"):
            # NaN is due: anything passes
            error = to.xp.where((got == due) | to.xp.isnan(due), 0.0, abs(got - due))
        if bool(((error <= TOLERANCE + TOLERANCE * abs(due)) & (error < math.inf) | (error == 0)).all()):
            continue
        return f"{name} is off by {float(error.max()):.3g}"
    return None


def run(name, seconds, seed):
    target, rng = load(name), random.Random(seed)
    to = Torch(seed, target.device) if target.arrays == "torch" else Numpy(seed, target.arrays)
    row = {"target": name, "cases": 0, "refused": 0, "failed": 0, "first": None, "stopped": None}
    start, raised = None, 0
    for index in itertools.count():
        p, why = draw(rng, target), None
        try:
            why, raised = judge(target, to, p), 0
        except attnfuzz.Unsupported:
            row["refused"] += 1
        except Exception as e:
            why, raised = f"raised {type(e).__name__}: {' '.join(str(e).split())[:200]}", raised + 1
        row["cases"] += 1
        if why:
            row["failed"] += 1
            row["first"] = row["first"] or f"case {index}, {in_words(p)}: {why}"
        start = start or time.monotonic()  # after handles, allocators and first kernels exist
        row["seconds"] = time.monotonic() - start
        if raised == MOST_RAISED:
            row["stopped"] = f"{raised} errors, one after the other"
        if row["seconds"] >= seconds or row["stopped"]:
            row["cases_per_s"] = row["cases"] / max(row["seconds"], 1e-9)
            return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="+", metavar="FILE.py:NAME")
    parser.add_argument("--seconds", type=float, default=10, help="for each target")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    if not 0 < arguments.seconds < 1e6:
        parser.error("--seconds must be more than 0")
    if arguments.seed < 0:
        parser.error("--seed must not be negative")
    rows, status = [], 0
    for name in arguments.targets:
        short = os.path.basename(name)
        try:
            row = run(name, arguments.seconds, arguments.seed)
            print(f"{short:<34} {row['cases_per_s']:8.1f} cases/s  {row['cases']} cases, {row['refused']} refused, "
                  f"{row['failed']} failed{', stopped after ' + row['stopped'] if row['stopped'] else ''}", flush=True)
            if row["first"]:
                print(f"    first: {row['first']}", flush=True)
        except Broken as e:
            row, status = {"target": name, "error": str(e)}, 1
            print(f"plain_loop.py: {name}: {e}", file=sys.stderr, flush=True)
        rows.append(row)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
