"""FlexAttention, compiled: if the rows of K lie far apart, their offsets wrap at 32 bits. The program needs 9 GiB.

    python3 docs/found/pytorch/flex-row-stride-of-2-31.py       status 1: it shows, 0: it does not
"""
import sys

import torch
from torch.nn.attention.flex_attention import flex_attention

print("torch", torch.__version__)
DIM = 64
compiled = torch.compile(flex_attention, dynamic=True)
shows = False
for rows, apart in ((129, 2**25), (2, 2**31)):
    q = torch.zeros(1, 1, 129, DIM, dtype=torch.bfloat16, device="cuda")
    q[..., 0] = 8
    v = torch.zeros(1, 1, rows, DIM, dtype=torch.bfloat16, device="cuda")
    v[:, :, -1] = 1
    k = torch.zeros((rows - 1) * apart + DIM, dtype=torch.bfloat16, device="cuda").as_strided(
        (1, 1, rows, DIM), (rows * apart, rows * apart, apart, 1))
    k[0, 0, -1, 0] = 64  # the last key has all of the weight
    try:
        o = compiled(q, k, v)
        torch.cuda.synchronize()
        wrong = bool((o != 1).any())
        print(f"{rows} keys {apart} elements apart: {o.flatten()[:4].tolist()}, expected: 1")
    except RuntimeError as e:
        wrong = True
        print(f"{rows} keys {apart} elements apart:", str(e).split("\n")[0])
    shows |= wrong
    if wrong:
        break  # the context may be lost
    del q, k, v
sys.exit(shows)
