"""xFormers' cutlass operator, which is PyTorch's, bottom-right causal with more queries than keys: queries that see no
key get numbers, or are never written.

    python3 docs/found/xformers/xformers-causal-more-queries-than-keys.py       status 1: it shows, 0: it does not
"""
import sys

import torch
import xformers
import xformers.ops as xops
from xformers.ops import fmha

print("torch", torch.__version__, "xformers", xformers.__version__)
shows = False
for queries, keys, dim in ((64, 63, 136), (66, 11, 256)):
    q, k = (torch.ones(1, n, 1, 8, dtype=torch.float16, device="cuda") for n in (queries, keys))
    v = torch.ones(1, keys, 1, dim, dtype=torch.float16, device="cuda")
    junk = torch.full((1 << 22,), 7, dtype=torch.float16, device="cuda")
    del junk  # what is not written shows as 7
    o = xops.memory_efficient_attention_forward(q, k, v, attn_bias=fmha.attn_bias.LowerTriangularFromBottomRightMask(),
                                                op=fmha.cutlass.FwOp)
    dead = o[0, : queries - keys, 0]
    print(f"{queries} queries, {keys} keys: O of the {queries - keys} without keys", dead.unique().tolist()[:4], "expected: 0")
    shows |= bool((dead != 0).any())
sys.exit(shows)
