"""merge_state: O of a side that begins 8 bytes after an aligned address is read in vectors of 16 bytes.

    python3 docs/found/flashinfer/flashinfer-merge-misaligned.py       status 1: it shows, 0: it does not
"""
import sys

import flashinfer
import torch

print("torch", torch.__version__, "flashinfer", flashinfer.__version__)
o1 = torch.ones(8 * 64 + 4, dtype=torch.float16, device="cuda")[4:].view(8, 1, 64)
o2, lse = torch.ones(8, 1, 64, dtype=torch.float16, device="cuda"), torch.zeros(8, 1, device="cuda")
print("contiguous:", o1.is_contiguous())
try:
    o, _ = flashinfer.merge_state(o1, lse, o2, lse)
    torch.cuda.synchronize()
    print("right" if bool((o == 1).all()) else "wrong")
    sys.exit(bool((o != 1).any()))
except RuntimeError as e:
    print(str(e).split("\n")[0])
    sys.exit(1)
