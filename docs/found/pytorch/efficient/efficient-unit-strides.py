"""scaled_dot_product_attention, efficient: K with strides of 1 where a length is 1 passes the checks, and then no
kernel is found.

    python3 docs/found/pytorch/efficient/efficient-unit-strides.py       status 1: it shows, 0: it does not
"""
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

print("torch", torch.__version__, "cuDNN", torch.backends.cudnn.version())


q, v = (torch.zeros(1, 1, 1, 8, dtype=torch.float16, device="cuda") for _ in "qv")
k = torch.zeros(8, dtype=torch.float16, device="cuda").as_strided((1, 1, 1, 8), (1, 1, 1, 1))
try:
    with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
        print(F.scaled_dot_product_attention(q, k, v).tolist())
except RuntimeError as e:
    print(str(e).split("\n")[0])
    sys.exit(1)
