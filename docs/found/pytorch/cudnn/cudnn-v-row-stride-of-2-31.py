"""scaled_dot_product_attention, cuDNN: if rows of V are 2^31 elements apart, the second key is lost. The program needs
4 GiB.

    python3 docs/found/pytorch/cudnn/cudnn-v-row-stride-of-2-31.py       status 1: it shows, 0: it does not
"""
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

print("torch", torch.__version__, "cuDNN", torch.backends.cudnn.version())


q, k = (torch.zeros(1, 1, 2, 8, dtype=torch.float16, device="cuda") for _ in "qk")
v = torch.zeros(2**31 + 8, dtype=torch.float16, device="cuda").as_strided((1, 1, 2, 8), (2**31, 2**31, 2**31, 1))
v[0, 0, 1] = 1
with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
    o = F.scaled_dot_product_attention(q, k, v)
print(o.flatten().tolist(), "expected: 0.5")
sys.exit(bool((o != 0.5).any()))
