"""aten._flash_attention_forward with cum_seq_q, grouped heads and at most one query for each sequence. The first
sequence has no query, so row 0 is the query of the second one. But row n is taken for the query of sequence n.

    python3 docs/found/pytorch/flash/flash-entry-without-query.py       status 1: it shows, 0: it does not
"""
import sys

import torch

print("torch", torch.__version__)
torch.manual_seed(0)
q = torch.randn(2, 2, 8, dtype=torch.float16, device="cuda")  # (row, head, column); row 1 belongs to no sequence
k, v = (torch.randn(1, 1, 8, dtype=torch.float16, device="cuda") for _ in range(2))
queries = keys = torch.tensor([0, 0, 1], dtype=torch.int32, device="cuda")
o, *_ = torch.ops.aten._flash_attention_forward(q, k, v, queries, keys, 1, 1, 0.0, False, False)
print("O of the only query:", o[0, 0, :3].tolist(), "expected, as it sees one key:", v[0, 0, :3].tolist())
sys.exit(not torch.allclose(o[0], v[0].expand(2, 8)))
