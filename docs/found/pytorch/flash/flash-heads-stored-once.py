"""scaled_dot_product_attention, flash, on a GPU and on the CPU: the output is made by empty_like(query). If the heads
of the query are stored once, and a stride is 1 where a length is 1, the columns of this output are not contiguous. The
kernel writes them as if they were.

    python3 docs/found/pytorch/flash/flash-heads-stored-once.py       status 1: it shows, 0: it does not
"""
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

print("torch", torch.__version__)
DIM, HEADS = 8, 4
device, dtype = ("cuda", torch.float16) if torch.cuda.is_available() else ("cpu", torch.float32)
row = torch.zeros(DIM, 1, 1, 1, dtype=dtype, device=device)  # a vector, then three dimensions of length 1
q = row.permute(1, 2, 3, 0).expand(1, HEADS, 1, DIM)
k, v = (torch.ones(1, HEADS, 3, DIM, dtype=dtype, device=device) for _ in "kv")
print("strides of the query", q.stride())
try:
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        o = F.scaled_dot_product_attention(q, k, v)
    print("of the output", o.stride(), o.flatten().tolist(), "expected: 1")
    sys.exit(bool((o != 1).any()))
except RuntimeError as e:
    print(str(e).split("\n")[0])
    sys.exit(1)
