"""scaled_dot_product_attention, cuDNN: a boolean mask that is stored once for all queries, with strides of 1 where a
length is 1, leads to a misaligned address.

    python3 docs/found/pytorch/cudnn/cudnn-mask-stored-once.py       status 1: it shows, 0: it does not
"""
import subprocess
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

CASES = ((1, 1, 0, 1), (19, 19, 0, 1), (1, 1, 19, 1))


def one(strides):
    q, k, v = (torch.ones(1, 1, n, 8, dtype=torch.float16, device="cuda") for n in (32, 19, 19))
    mask = torch.ones(32 * 19, dtype=torch.bool, device="cuda").as_strided((1, 1, 32, 19), strides)
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    print("right" if bool((o == 1).all()) else "wrong")


if len(sys.argv) > 1:
    try:
        one(CASES[int(sys.argv[1])])
    except RuntimeError as e:
        print(str(e).split("\n")[0])
    sys.exit(0)

print("torch", torch.__version__, "cuDNN", torch.backends.cudnn.version())
shows = False
for n, case in enumerate(CASES):  # each in a process: a fault ends a context
    said = subprocess.run([sys.executable, __file__, str(n)], capture_output=True, text=True).stdout.strip()
    print(f"strides {case}: {said}")
    shows |= "misaligned" in said or said == "wrong"
sys.exit(shows)
