"""single_prefill_with_kv_cache, fa3: V has a single head whose stride is 1, as transpose() leaves it. The creation of
its TMA descriptor fails, and the kernel is launched all the same.

    python3 docs/found/flashinfer/flashinfer-fa3-one-head-stride-of-1.py       status 1: it shows, 0: it does not
"""
import sys

import flashinfer
import torch

print("torch", torch.__version__, "flashinfer", flashinfer.__version__)
q, k = (torch.ones(n, 1, 128, dtype=torch.float16, device="cuda") for n in (1, 12))
v = torch.ones(12, 128, 1, dtype=torch.float16, device="cuda").transpose(1, 2)
print("strides of V", v.stride(), "contiguous:", v.is_contiguous())
try:
    o = flashinfer.single_prefill_with_kv_cache(q, k, v)
    torch.cuda.synchronize()
    print("right" if bool((o == 1).all()) else "wrong")
    sys.exit(bool((o != 1).any()))
except RuntimeError as e:
    print(str(e).split("\n")[0])
    sys.exit(1)
