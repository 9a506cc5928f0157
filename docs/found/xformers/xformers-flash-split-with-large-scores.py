"""xFormers' flash operator, which is PyTorch's: one query and 65 equal keys in two splits, with scores of 136 x 2^11. O
is 65/64 instead of 1.

    python3 docs/found/xformers/xformers-flash-split-with-large-scores.py       status 1: it shows, 0: it does not
"""
import sys

import torch
import xformers
import xformers.ops as xops
from xformers.ops import fmha

print("torch", torch.__version__, "xformers", xformers.__version__)
q, k, v = (torch.full((1, n, 1, 136), x, dtype=torch.float16, device="cuda") for n, x in ((1, 1.0), (65, 2.0**11), (65, 1.0)))
shows = False
for dim, scale in ((136, 1.0), (136, 136**-0.5), (64, 1.0)):
    o = xops.memory_efficient_attention_forward(*(t[..., :dim].contiguous() for t in (q, k, v)), scale=scale, op=fmha.flash.FwOp)
    print(f"{dim} columns, scores of {dim * 2**11 * scale:.6g}: O", o.unique().tolist(), "expected: 1")
    shows |= bool((o != 1).any())
sys.exit(shows)
