"""aten._efficient_attention_forward with cu_seqlens: a sequence without keys, and more than 128 columns. O of its
queries must be 0, as it is with 128 columns. It is never written, so it is what the memory held.

    python3 docs/found/pytorch/efficient/efficient-entry-without-keys.py       status 1: it shows, 0: it does not
"""
import sys

import torch

print("torch", torch.__version__)


def row_without_keys(columns):
    q = torch.zeros(1, 2, 1, columns, dtype=torch.float16, device="cuda")
    k, v = (torch.zeros(1, 1, 1, columns, dtype=torch.float16, device="cuda") for _ in range(2))
    queries, keys = (torch.tensor(ends, dtype=torch.int32, device="cuda") for ends in ([0, 1, 2], [0, 0, 1]))
    # PyTorch reuses the memory that this fills.
    left = [torch.full((1, 2, 1, columns), 1234.0, dtype=torch.float16, device="cuda") for _ in range(64)]
    del left
    o, *_ = torch.ops.aten._efficient_attention_forward(q, k, v, None, queries, keys, 1, 1, 0.0, 0, True)
    return o[0, 0, 0, :3].tolist()


wide = row_without_keys(136)
print("O of the query without keys, 128 columns:", row_without_keys(128), "136 columns:", wide)
sys.exit(any(x != 0 for x in wide))
