"""scaled_dot_product_attention, cuDNN: if rows of Q are more than 2^31 elements apart, it reads elsewhere. The program
needs 4 GiB.

    python3 docs/found/pytorch/cudnn/cudnn-q-row-stride-of-2-31.py       status 1: it shows, 0: it does not
"""
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

print("torch", torch.__version__, "cuDNN", torch.backends.cudnn.version())


stride = 2148532096
q = torch.zeros(stride + 8, dtype=torch.float16, device="cuda").as_strided((1, 1, 2, 8), (stride, stride, stride, 1))
k, v = (torch.zeros(1, 1, 2, 8, dtype=torch.float16, device="cuda") for _ in "kv")
k[0, 0, 1], v[0, 0, 1] = 1, 1
q[0, 0, 1] = 8  # nearly all weight is on the second key
try:
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        o = F.scaled_dot_product_attention(q, k, v)
    print(o.tolist(), "expected: 0.5, 1")
    sys.exit(bool((o[0, 0, 1] < 0.9).any()))
except RuntimeError as e:
    print(str(e).split("\n")[0])
    sys.exit(1)
