"""scaled_dot_product_attention, cuDNN: rows of K that are 9 elements apart are neither refused nor copied.

    python3 docs/found/pytorch/cudnn/cudnn-row-gap-of-one-element.py       status 1: it shows, 0: it does not
"""
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

print("torch", torch.__version__, "cuDNN", torch.backends.cudnn.version())


q, v = (torch.zeros(1, 1, n, 8, dtype=torch.float16, device="cuda") for n in (1, 2))
k = torch.zeros(1, 1, 2, 9, dtype=torch.float16, device="cuda")[..., :8]
try:
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        print(F.scaled_dot_product_attention(q, k, v).tolist())
    torch.cuda.synchronize()
except RuntimeError as e:
    print(str(e).split("\n")[0])
    sys.exit(1)
