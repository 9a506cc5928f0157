"""xFormers' cutlass operator, which is PyTorch's: if a bias hides all keys of a query, its LSE is 0.

    python3 docs/found/xformers/xformers-lse-of-hidden-row.py       status 1: it shows, 0: it does not
"""
import math
import sys

import torch
import xformers
import xformers.ops as xops
from xformers.ops import fmha

print("torch", torch.__version__, "xformers", xformers.__version__)
q, k, v = (torch.ones(1, 8, 1, 8, dtype=torch.float16, device="cuda") for _ in "qkv")
shown = {}
for op in (fmha.cutlass.FwOp, fmha.triton_splitk.FwOp):
    dim = 8 if op is fmha.cutlass.FwOp else 16
    bias = torch.full((1, 1, 8, 8), -math.inf, dtype=torch.float16, device="cuda")
    o, lse = xops.memory_efficient_attention_forward_requires_grad(*(t.repeat(1, 1, 1, dim // 8) for t in (q, k, v)), attn_bias=bias, op=op)
    print(op.NAME, "O", float(o[0, 0, 0, 0]), "LSE", float(lse[0, 0, 0]), "expected: 0, -inf (or inf)")
    shown[op.NAME] = math.isfinite(float(lse[0, 0, 0]))
sys.exit(any(shown.values()))
