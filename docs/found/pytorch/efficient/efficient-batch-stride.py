"""scaled_dot_product_attention, efficient: batch entries of V whose distance is no multiple of 16 bytes are neither
refused nor copied. The strides of rows and heads are checked, the stride of the batch is not.

    python3 docs/found/pytorch/efficient/efficient-batch-stride.py       status 1: it shows, 0: it does not
"""
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

print("torch", torch.__version__)
BATCH, KEYS, DIM = 2, 64, 64
q, k = (torch.zeros(BATCH, 1, KEYS, DIM, dtype=torch.float16, device="cuda") for _ in "qk")
entry = KEYS * DIM + 2
v = torch.ones(BATCH * entry, dtype=torch.float16, device="cuda").as_strided((BATCH, 1, KEYS, DIM), (entry, entry, DIM, 1))
try:
    with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
        o = F.scaled_dot_product_attention(q, k, v)
    print(o.unique().tolist(), "expected: 1")
    sys.exit(bool((o != 1).any()))
except RuntimeError as e:
    print(str(e).split("\n")[0])
    sys.exit(1)
