"""xFormers' flash operator, which is PyTorch's, with a window that has a left and no right side, and more queries than
keys: some queries that see a key get none.

    python3 docs/found/xformers/xformers-window-more-queries-than-keys.py       status 1: it shows, 0: it does not
"""
import sys

import torch
import xformers
import xformers.ops as xops
from xformers.ops import fmha

print("torch", torch.__version__, "xformers", xformers.__version__)
mask = fmha.attn_bias.LocalAttentionFromBottomRightMask(window_left=0, window_right=100)
q, k, v = (torch.ones(1, n, 1, 8, dtype=torch.float16, device="cuda") for n in (3, 1, 1))
print("the mask's materialize():", mask.materialize((3, 1)).flatten().tolist())
o = xops.memory_efficient_attention_forward(q, k, v, attn_bias=mask, op=fmha.flash.FwOp)
print("O of each query:", o[0, :, 0, 0].tolist(), "expected: 1, 1, 1")
sys.exit(bool((o != 1).any()))
