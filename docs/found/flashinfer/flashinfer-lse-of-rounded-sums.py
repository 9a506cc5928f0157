"""single_prefill_with_kv_cache, fa2, in bf16: the LSE is computed from probabilities that were rounded to bf16 before
they were added up.

    python3 docs/found/flashinfer/flashinfer-lse-of-rounded-sums.py       status 1: it shows, 0: it does not
"""
import math
import sys

import flashinfer
import torch

print("torch", torch.__version__, "flashinfer", flashinfer.__version__)
q, k, v = (torch.zeros(n, 1, 128, dtype=torch.bfloat16, device="cuda") for n in (1, 2, 2))
q[0, 0, 0] = k[1, 0, 0] = 1
_, lse = flashinfer.single_prefill_with_kv_cache(q, k, v, sm_scale=1.0, backend="fa2", return_lse=True)
got, due = float(lse) * math.log(2), math.log(1 + math.e)
print("LSE", got, "expected:", due, "off by", got - due)
sys.exit(abs(got - due) > 1e-4)
