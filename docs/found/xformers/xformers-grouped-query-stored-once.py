"""xFormers' flash operator with grouped heads, and a query that is stored once for all heads of a group: Q is folded as
if it were K.

    python3 docs/found/xformers/xformers-grouped-query-stored-once.py       status 1: it shows, 0: it does not
"""
import sys

import torch
import xformers
import xformers.ops as xops
from xformers.ops import fmha

print("torch", torch.__version__, "xformers", xformers.__version__)
q = torch.ones(1, 3, 1, 1, 64, dtype=torch.float16, device="cuda").expand(1, 3, 1, 4, 64)
k, v = (torch.ones(1, 5, 1, 1, 64, dtype=torch.float16, device="cuda").expand(1, 5, 1, 4, 64) for _ in "kv")
try:
    o = xops.memory_efficient_attention_forward(q, k, v, op=fmha.flash.FwOp)
    print("right" if bool((o == 1).all()) else "wrong")
    sys.exit(bool((o != 1).any()))
except RuntimeError as e:
    print(str(e).split("\n")[0])
    sys.exit(1)
