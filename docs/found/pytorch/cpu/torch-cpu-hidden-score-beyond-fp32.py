"""scaled_dot_product_attention on the CPU, flash and math, fp32: if a boolean mask hides a key whose score exceeds
fp32, the row is NaN. The key is hidden by adding -inf to +inf.

    python3 docs/found/pytorch/cpu/torch-cpu-hidden-score-beyond-fp32.py       status 1: it shows, 0: it does not
"""
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

print("torch", torch.__version__)
q, k, v = torch.full((1, 1, 1, 1), 3e38), torch.ones(1, 1, 2, 1), torch.ones(1, 1, 2, 1)
k[..., 0, :], k[..., 1, :] = 0, 16
mask = torch.tensor([True, False])[None, None, None]
for backend in (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION):
    with sdpa_kernel(backend):
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=1.0)
    print(backend.name, o.item(), "expected: 1")
sys.exit(bool(o.isnan()))
