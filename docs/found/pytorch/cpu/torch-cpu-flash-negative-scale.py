"""scaled_dot_product_attention, flash on the CPU, is_causal: with a negative scale only the masked keys count, and with
a scale of 0 O is NaN. Keys are hidden by -inf before the scale is applied.

    python3 docs/found/pytorch/cpu/torch-cpu-flash-negative-scale.py       status 1: it shows, 0: it does not
"""
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

print("torch", torch.__version__)
q, k = (torch.zeros(1, 1, 32, 8) for _ in "qk")
v = torch.arange(32.0).reshape(1, 1, 32, 1).expand(1, 1, 32, 8).contiguous()
wrong = False
for scale in (1.0, -1.0, 0.0):
    o = []
    for backend in (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION):
        with sdpa_kernel(backend):
            o.append(F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)[0, 0, :, 0])
    print(f"scale {scale}: math {o[0][[0, 15, 31]].tolist()} flash {o[1][[0, 15, 31]].tolist()}")
    wrong |= not torch.allclose(*o)
sys.exit(wrong)
