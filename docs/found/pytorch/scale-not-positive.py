"""scaled_dot_product_attention, flash and cuDNN: O is NaN if scale is 0 or negative. By math and efficient it is right.

    python3 docs/found/pytorch/scale-not-positive.py       status 1: it shows, 0: it does not
"""
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

print("torch", torch.__version__, "cuDNN", torch.backends.cudnn.version())


q, k, v = (torch.ones(1, 1, 2, 8, dtype=torch.float16, device="cuda") for _ in "qkv")
wrong = False
for backend in (SDPBackend.MATH, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION):
    for scale in (1.0, 0.0, -1.0):
        with sdpa_kernel(backend):
            o = F.scaled_dot_product_attention(q, k, v, scale=scale).unique().tolist()
        print(backend, scale, o)
        wrong |= o != [1.0]
sys.exit(wrong)
