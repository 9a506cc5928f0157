"""single_prefill_with_kv_cache, fa2: if queries are 2^32 elements apart, the first one is read in place of the second.
The program needs 8 GiB.

    python3 docs/found/flashinfer/flashinfer-row-stride-of-2-32.py       status 1: it shows, 0: it does not
"""
import sys

import flashinfer
import torch

print("torch", torch.__version__, "flashinfer", flashinfer.__version__)
q = torch.zeros(2**32 + 128, dtype=torch.float16, device="cuda").as_strided((2, 1, 128), (2**32, 128, 1))
k = torch.zeros(2, 1, 128, dtype=torch.float16, device="cuda")
v = torch.zeros(2, 1, 128, dtype=torch.float16, device="cuda")
q[1, 0, 0], k[1, 0, 0], v[1] = 100, 100, 1  # all weight of the second query is on the second key
o = flashinfer.single_prefill_with_kv_cache(q, k, v, sm_scale=1.0, backend="fa2")
print("O of each query:", o[:, 0, 0].tolist(), "expected: 0.5, 1")
sys.exit(o[:, 0, 0].tolist() != [0.5, 1.0])
