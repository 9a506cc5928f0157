"""scaled_dot_product_attention, flash: it is chosen for 65,536 heads, and its launch fails. math can compute them.

    python3 docs/found/pytorch/flash/flash-65536-heads.py       status 1: it shows, 0: it does not
"""
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

print("torch", torch.__version__, "cuDNN", torch.backends.cudnn.version())


q, k, v = (torch.ones(1, 65536, 1, 8, dtype=torch.float16, device="cuda") for _ in "qkv")
with sdpa_kernel(SDPBackend.MATH):
    print("math:", F.scaled_dot_product_attention(q, k, v).unique().tolist())
try:
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        print("flash:", F.scaled_dot_product_attention(q, k, v).unique().tolist())
    torch.cuda.synchronize()
except RuntimeError as e:
    print("flash:", str(e).split("\n")[0])
    sys.exit(1)
