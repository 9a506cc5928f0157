"""single_decode_with_kv_cache: keys that begin one element behind an aligned address are read in vectors of 16 bytes.

    python3 docs/found/flashinfer/flashinfer-decode-keys-off-by-one.py       status 1: it shows, 0: it does not
"""
import sys

import flashinfer
import torch

print("torch", torch.__version__, "flashinfer", flashinfer.__version__)
q, v = (torch.ones(*shape, dtype=torch.float16, device="cuda") for shape in ((1, 128), (18, 1, 128)))
k = torch.ones(18 * 128 + 1, dtype=torch.float16, device="cuda")[1:].view(18, 1, 128)
print("contiguous:", k.is_contiguous())
try:
    o = flashinfer.single_decode_with_kv_cache(q, k, v)
    torch.cuda.synchronize()
    print("right" if bool((o == 1).all()) else "wrong")
    sys.exit(bool((o != 1).any()))
except RuntimeError as e:
    print(str(e).split("\n")[0])
    sys.exit(1)
