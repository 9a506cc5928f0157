"""scaled_dot_product_attention, cuDNN: an attn_mask of fp32 beside inputs of f16 is read as f16.

    python3 docs/found/pytorch/cudnn/cudnn-fp32-bias-with-half-inputs.py       status 1: it shows, 0: it does not
"""
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

print("torch", torch.__version__, "cuDNN", torch.backends.cudnn.version())


torch.manual_seed(1)
q, k = (torch.zeros(1, 1, 2, 8, dtype=torch.float16, device="cuda") for _ in "qk")
v = torch.randn(1, 1, 2, 8, device="cuda").half()
bias = torch.randn(1, 1, 2, 2, device="cuda")
o = {}
for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.MATH):
    with sdpa_kernel(backend):
        o[backend] = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
    print(backend, o[backend].tolist())
error = (o[SDPBackend.CUDNN_ATTENTION].float() - o[SDPBackend.MATH].float()).abs().max().item()
sys.exit(not error < 1e-2)
