"""scaled_dot_product_attention, efficient, backward: more queries than keys under causal_lower_right. The first queries
see no key, so their gradient must be 0. If all 64 queries of a tile see no key, the gradient is never written and is
what the memory held.

    python3 docs/found/pytorch/efficient/efficient-backward-tile-without-keys.py       status 1: it shows, 0: it does not
"""
import sys
import warnings

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right

print("torch", torch.__version__)
warnings.filterwarnings("ignore")  # torch warns of NaN in O; O is 0 there
QUERIES, KEYS = 128, 64
q, k, v = (torch.randn(1, 1, n, 64, dtype=torch.bfloat16, device="cuda", requires_grad=True) for n in (QUERIES, KEYS, KEYS))
with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
    o = F.scaled_dot_product_attention(q, k, v, attn_mask=causal_lower_right(QUERIES, KEYS))
for size in (1 << 12, 1 << 14, 1 << 16, 1 << 18):  # PyTorch reuses the memory that this fills
    left = [torch.full((size,), 1234.0, dtype=torch.bfloat16, device="cuda") for _ in range(64)]
    del left
o.backward(torch.ones_like(o))
wrong = (q.grad[0, 0, : QUERIES - KEYS] != 0).any(-1)
print(f"{int(wrong.sum())} of {QUERIES - KEYS} queries that see no key have a gradient:", q.grad[0, 0, 0, :3].tolist())
sys.exit(bool(wrong.any()))
