"""BatchPrefillWithPagedKVCacheWrapper, fa2: causal, with 128 queries and 64 keys. The diagonal ends at the bottom right, so the
first 64 queries see no key, and their O must be 0. With 127 queries it is; with 128 it is the mean of V.

    python3 docs/found/flashinfer/flashinfer-batch-more-queries-than-keys.py       status 1: it shows, 0: it does not
"""
import sys

import flashinfer
import torch

print("torch", torch.__version__, "flashinfer", flashinfer.__version__)
PAGE = 64
room = torch.empty(128 << 20, dtype=torch.uint8, device="cuda")


def first_rows(queries):
    """O of the queries that see no key, all keys being 0 and all values 1."""
    q = torch.zeros(queries, 1, 128, dtype=torch.float16, device="cuda")
    k, v = (torch.full((1, 1, PAGE, 128), x, dtype=torch.float16, device="cuda") for x in (0.0, 1.0))
    ends, pages, indices, last = (torch.tensor(x, dtype=torch.int32, device="cuda") for x in ([0, queries], [0, 1], [0], [PAGE]))
    call = flashinfer.BatchPrefillWithPagedKVCacheWrapper(room, "HND", backend="fa2")
    call.plan(ends, pages, indices, last, 1, 1, 128, PAGE, causal=True, q_data_type=q.dtype)
    return call.run(q, (k, v))[: queries - PAGE, 0, 0]


wrong = False
for queries in (127, 128, 192):
    o = first_rows(queries)
    print(queries, "queries, 64 keys: of", len(o), "queries that see no key", int((o != 0).sum()), "have an O that is not 0:",
          o.unique().tolist())
    wrong |= bool((o != 0).any())
sys.exit(wrong)
