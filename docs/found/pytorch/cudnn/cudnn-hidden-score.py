"""scaled_dot_product_attention, cuDNN: a boolean mask becomes a number that is added, about -65504. A key that it hides
therefore counts if its score exceeds the others by more.

    python3 docs/found/pytorch/cudnn/cudnn-hidden-score.py       status 1: it shows, 0: it does not
"""
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

print("torch", torch.__version__, "cuDNN", torch.backends.cudnn.version())
shows = False
for dtype in (torch.float16, torch.bfloat16):
    q, k, v = (torch.zeros(1, 1, n, 8, dtype=dtype, device="cuda") for n in (1, 2, 2))
    q[..., 0] = 256
    v[..., 0, :] = 1  # V of the hidden key
    mask = torch.tensor([False, True], device="cuda").view(1, 1, 1, 2)
    for hidden in (128, 512):
        k[..., 0, 0] = hidden
        for backend in (SDPBackend.MATH, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION):
            with sdpa_kernel(backend):
                o = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=1.0)
            print(f"{dtype}, {backend}, a hidden score of {256 * hidden}: O", o.unique().tolist(), "expected: 0")
            shows |= bool((o != 0).any())
sys.exit(shows)
