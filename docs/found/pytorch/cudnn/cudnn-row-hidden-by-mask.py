"""scaled_dot_product_attention, cuDNN: if a boolean mask hides all keys of a query, O is V. With the other back ends it
is 0.

    python3 docs/found/pytorch/cudnn/cudnn-row-hidden-by-mask.py       status 1: it shows, 0: it does not
"""
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

print("torch", torch.__version__, "cuDNN", torch.backends.cudnn.version())


q, k, v = (torch.zeros(1, 1, n, 8, dtype=torch.float16, device="cuda") for n in (1, 2, 2))
v += 1
mask = torch.zeros(1, 1, 1, 2, dtype=torch.bool, device="cuda")
o = {}
for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH):
    with sdpa_kernel(backend):
        o[backend] = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    print(backend, o[backend].flatten().tolist())
sys.exit(bool((o[SDPBackend.CUDNN_ATTENTION] != o[SDPBackend.MATH]).any()))
