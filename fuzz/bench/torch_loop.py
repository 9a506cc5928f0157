#!/usr/bin/env python3
"""How fast a plain fuzzing loop in PyTorch is: the comparison for attnfuzz bench.

    python3 fuzz/bench/torch_loop.py [--seconds 10] [--back-ends flash efficient cudnn math] [--json FILE]

Draws problems like `attnfuzz bench` (batch 1..3, heads 1..4, 1..300 positions,
dim 32, 64 or 128, full or causal, f16 or bf16, Gaussian), runs one back end,
computes attention in double precision on the GPU, compares within the usual
fixed tolerance and goes on, for --seconds a back end. No guards, no bound, no
shapes of masks, no reducer: only what costs the time.
"""

import argparse
import json
import math
import pathlib
import random
import sys
import time
import warnings

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

BACK_ENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "math": SDPBackend.MATH,
}
TOLERANCE = 2e-2  # absolute, and relative


def draw(rng, device):
    shape = (rng.randint(1, 3), rng.randint(1, 4), rng.randint(1, 300), rng.choice((32, 64, 128)))
    dtype = rng.choice((torch.float16, torch.bfloat16))
    causal = rng.random() < 0.5
    return [torch.randn(shape, dtype=dtype, device=device) for _ in range(3)], causal


def reference(q, k, v, causal):
    q, k, v = q.double(), k.double(), v.double()
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(hidden, -math.inf)
    return torch.softmax(scores, -1) @ v


def judge(back_end, q, k, v, causal):
    with sdpa_kernel([back_end]):
        got = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    expected = reference(q, k, v, causal)
    error = (got.double() - expected).abs()
    return bool((error <= TOLERANCE + TOLERANCE * expected.abs()).all().item())


def run(back_end, seconds, device):
    rng = random.Random(1)
    torch.manual_seed(1)
    for _ in range(3):  # handles, allocator, first kernels
        (q, k, v), causal = draw(rng, device)
        judge(back_end, q, k, v, causal)
    torch.cuda.synchronize()
    cases = wrong = 0
    start = time.monotonic()
    while (spent := time.monotonic() - start) < seconds:
        (q, k, v), causal = draw(rng, device)
        wrong += not judge(back_end, q, k, v, causal)
        cases += 1
    return {"cases": cases, "seconds": spent, "cases_per_s": cases / spent, "outside_tolerance": wrong}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10, help="a back end")
    parser.add_argument("--back-ends", nargs="+", choices=BACK_ENDS, default=list(BACK_ENDS))
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("torch_loop.py: torch sees no GPU")
        return 2
    warnings.filterwarnings("ignore")  # torch says at length why a back end is not available
    device = torch.device("cuda")
    out = {"device": torch.cuda.get_device_name(device), "torch": torch.__version__,
           "cudnn": torch.backends.cudnn.version(), "back_ends": {}}
    print(f"{out['device']}, torch {out['torch']}, cuDNN {out['cudnn']}")
    for name in arguments.back_ends:
        try:
            row = out["back_ends"][name] = run(BACK_ENDS[name], arguments.seconds, device)
            print(f"  {name:<10} {row['cases_per_s']:10.1f} cases/s  {row['cases']} cases, "
                  f"{row['outside_tolerance']} outside the tolerance", flush=True)
        except RuntimeError as error:
            out["back_ends"][name] = {"error": str(error).splitlines()[0]}
            print(f"  {name:<10} not available: {str(error).splitlines()[0]}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(out, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
