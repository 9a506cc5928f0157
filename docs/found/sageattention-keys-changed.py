"""sageattn with smooth_k, its default: the mean of the caller's keys is subtracted in place.

    python3 docs/found/sageattention-keys-changed.py       status 1: it shows, 0: it does not
"""
import sys
from importlib.metadata import version

import torch
from sageattention import sageattn

print("torch", torch.__version__, "sageattention", version("sageattention"))
torch.manual_seed(0)
q, k, v = (torch.randn(1, 2, 128, 64, dtype=torch.float16, device="cuda") + 1 for _ in "qkv")
before = k.clone()
first, second = (sageattn(q, k, v) for _ in range(2))
print("keys changed:", bool((k != before).any()), "by up to", float((k - before).abs().max()))
print("the same call again differs by up to", float((first - second).abs().max()))
sys.exit(bool((k != before).any()))
