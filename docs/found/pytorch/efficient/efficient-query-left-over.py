"""scaled_dot_product_attention, efficient: K and V of all heads stored once, and a query behind the last full tile of
64 queries (32 if there are more than 128 columns). This query gets the bias of another one. With is_causal it sees keys
that it must not see.

    python3 docs/found/pytorch/efficient/efficient-query-left-over.py       status 1: it shows, 0: it does not
"""
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

print("torch", torch.__version__)
KEYS = 104
shows = False
for queries, dim, heads in ((64, 8, 2), (65, 8, 2), (65, 8, 1), (33, 8, 2), (33, 136, 2), (65, 136, 2)):
    torch.manual_seed(0)
    q = torch.randn(1, heads, queries, dim, dtype=torch.float16, device="cuda")
    k, v = (torch.randn(1, 1, KEYS, dim, dtype=torch.float16, device="cuda").expand(1, heads, KEYS, dim) for _ in "kv")
    bias = torch.randn(1, heads, queries, KEYS, dtype=torch.float16, device="cuda")
    for what, mask in (("a bias", {"attn_mask": bias}), ("causal", {"is_causal": True})):
        o = {}
        for backend in (SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH):
            with sdpa_kernel(backend):
                o[backend] = F.scaled_dot_product_attention(q, k, v, **mask).float()
        off = (o[SDPBackend.EFFICIENT_ATTENTION] - o[SDPBackend.MATH]).abs().nan_to_num(torch.inf).amax((0, 1, 3))
        wrong = (off > 0.01).nonzero().flatten().tolist()
        print(f"{queries} queries, {dim} columns, heads {heads}, {what}: off by {off.max().item():.3g}, queries that are wrong: {wrong}")
        shows |= len(wrong) > 0
sys.exit(shows)
