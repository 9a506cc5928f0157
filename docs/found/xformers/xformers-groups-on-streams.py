"""xFormers' cutlass operator runs each group of heads on a stream of its own. It frees the groups' results while the
caller's stream still reads them, so other work on the group's stream may get their memory. Here another call's fill
does.

    python3 docs/found/xformers/xformers-groups-on-streams.py       status 1: it shows, 0: it does not
"""
import sys

import torch
import xformers
import xformers.ops as xops
from xformers.ops import fmha

print("torch", torch.__version__, "xformers", xformers.__version__)
GROUPS, KEYS, QUERIES = 2, 16, 1 << 19
q = torch.ones(1, QUERIES, GROUPS, 2, 64, dtype=torch.float16, device="cuda")
k, v = (torch.ones(1, KEYS, GROUPS, 1, 64, dtype=torch.float16, device="cuda").expand(1, KEYS, GROUPS, 2, 64) for _ in "kv")
streams = [torch.cuda.Stream() for _ in range(64)]  # PyTorch has fewer: one of these is the second group's
wrong = 0
for _ in range(20):
    o = xops.memory_efficient_attention_forward(q, k, v, op=fmha.cutlass.FwOp)
    for stream in streams:
        with torch.cuda.stream(stream):
            torch.full((1, QUERIES, 2, 64), float("nan"), dtype=torch.float16, device="cuda")
    torch.cuda.synchronize()
    wrong += int((o != 1).any())
    del o
print(f"{wrong} of 20 results hold what another stream wrote")
sys.exit(wrong > 0)
