"""vLLM's decode_attention_fwd (Triton): as many KV heads as query heads. With groups of heads it multiplies Q and K in matrix
products with sums in fp32. Without them it multiplies elementwise in Q's format: each product is rounded to it, and in fp16
the score overflows.

    python3 docs/found/vllm/vllm-decode-without-groups.py       status 1: it shows, 0: it does not
"""
import importlib.metadata
import sys

import torch
from vllm.v1.attention.ops.triton_decode_attention import decode_attention_fwd

print("torch", torch.__version__, "vllm", importlib.metadata.version("vllm"))


def decode(heads):
    """O and the LSE of one key: Q is 8,192, K and V are 1 in 16 columns, so O is 1 and the LSE 131,072."""
    q = torch.full((1, heads, 16), 8192.0, dtype=torch.float16, device="cuda")
    k = torch.ones(1, 16, 1, 16, dtype=torch.float16, device="cuda")
    o, lse = torch.empty_like(q), torch.empty(1, heads, device="cuda")
    table, lengths = torch.zeros(1, 1, dtype=torch.int32, device="cuda"), torch.ones(1, dtype=torch.int32, device="cuda")
    parts = torch.empty(1, heads, 4, 17, device="cuda")
    decode_attention_fwd(q, k, k.clone(), o, lse, table, lengths, parts, 4, 1.0, page_size=16)
    return o[0, 0, 0].item(), lse[0, 0].item()


results = {heads: decode(heads) for heads in (2, 1)}
for heads, (o, lse) in results.items():
    print("query heads to a KV head:", heads, "O", o, "LSE", lse)
sys.exit(results[1] != (1.0, 131072.0))
