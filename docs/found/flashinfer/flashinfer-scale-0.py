"""single_prefill_with_kv_cache, fa2 and fa3: O is NaN if the scale is 0 or negative.

    python3 docs/found/flashinfer/flashinfer-scale-0.py       status 1: it shows, 0: it does not
"""
import sys

import flashinfer
import torch

print("torch", torch.__version__, "flashinfer", flashinfer.__version__)
q, k, v = (torch.ones(2, 1, 128, dtype=torch.float16, device="cuda") for _ in "qkv")
shows = False
for backend in ("fa2", "fa3"):
    for scale in (1.0, 0.0, -1.0):
        o = flashinfer.single_prefill_with_kv_cache(q, k, v, sm_scale=scale, backend=backend)[0, 0, :1].tolist()
        print(backend, scale, o, "expected: 1")
        shows |= o != [1.0]
sys.exit(shows)
