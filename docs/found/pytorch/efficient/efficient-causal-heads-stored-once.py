"""scaled_dot_product_attention, efficient: one query with is_causal, and K and V of all heads stored once. Each head
sees one key more than the head before it. All heads must see only the first key.

    python3 docs/found/pytorch/efficient/efficient-causal-heads-stored-once.py       status 1: it shows, 0: it does not
"""
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

print("torch", torch.__version__)
HEADS, KEYS = 4, 8
q = torch.zeros(1, HEADS, 1, 8, dtype=torch.float16, device="cuda")
k = torch.zeros(1, 1, KEYS, 8, dtype=torch.float16, device="cuda").expand(1, HEADS, KEYS, 8)
v = torch.eye(KEYS, dtype=torch.float16, device="cuda").expand(1, HEADS, KEYS, KEYS)
seen = {}
for backend in (SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH):
    with sdpa_kernel(backend):
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    seen[backend] = (o > 0.01).sum(-1).flatten().tolist()
    print(backend, "keys that each head sees:", seen[backend])
sys.exit(seen[SDPBackend.EFFICIENT_ATTENTION] != seen[SDPBackend.MATH])
