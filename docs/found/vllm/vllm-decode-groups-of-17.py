"""vLLM's decode_attention_fwd (Triton): 17 query heads to a KV head, and two KV heads. Heads 17 to 31 must read the second
KV head. They read the first.

    python3 docs/found/vllm/vllm-decode-groups-of-17.py       status 1: it shows, 0: it does not
"""
import importlib.metadata
import sys

import torch
from vllm.v1.attention.ops.triton_decode_attention import decode_attention_fwd

print("torch", torch.__version__, "vllm", importlib.metadata.version("vllm"))


def means_of_values(group):
    """O of every head: V of KV head n is n, so O must be head // group."""
    heads, dim = 2 * group, 16
    q = torch.zeros(1, heads, dim, dtype=torch.float16, device="cuda")
    k = torch.zeros(1, 16, 2, dim, dtype=torch.float16, device="cuda")
    v = torch.arange(2, device="cuda").half()[None, None, :, None].expand(1, 16, 2, dim).contiguous()
    o, lse = torch.empty_like(q), torch.empty(1, heads, device="cuda")
    table, lengths = torch.zeros(1, 1, dtype=torch.int32, device="cuda"), torch.full((1,), 16, dtype=torch.int32, device="cuda")
    parts = torch.empty(1, heads, 4, dim + 1, device="cuda")
    decode_attention_fwd(q, k, v, o, lse, table, lengths, parts, 4, 1.0, page_size=16)
    return o[0, :, 0].tolist()


wrong = 0
for group in (16, 17, 32):
    o = means_of_values(group)
    heads = [head for head, got in enumerate(o) if got != head // group]
    print("group of", group, "heads: wrong heads", heads)
    wrong += len(heads)
sys.exit(bool(wrong))
