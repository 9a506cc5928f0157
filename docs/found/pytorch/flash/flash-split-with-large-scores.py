"""scaled_dot_product_attention, flash: one query and 65 equal keys, which it splits in two, with scores of 136 x 2^11.
O is 65/64 instead of 1.

    python3 docs/found/pytorch/flash/flash-split-with-large-scores.py       status 1: it shows, 0: it does not
"""
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

print("torch", torch.__version__)
q, k, v = (torch.full((1, 1, n, 136), x, dtype=torch.float16, device="cuda") for n, x in ((1, 1.0), (65, 2.0**11), (65, 1.0)))
shows = False
for backend in (SDPBackend.MATH, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.FLASH_ATTENTION):
    for scale in (1.0, 136**-0.5):
        with sdpa_kernel(backend):
            o = F.scaled_dot_product_attention(q, k, v, scale=scale)
        print(f"{backend}, scores of {136 * 2**11 * scale:.6g}: O", o.unique().tolist(), "expected: 1")
        shows |= bool((o != 1).any())
sys.exit(shows)
