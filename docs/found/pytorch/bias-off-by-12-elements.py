"""scaled_dot_product_attention with a bias that begins 24 bytes behind an aligned address: efficient and cuDNN read it
in vectors of 16 bytes.

    python3 docs/found/pytorch/bias-off-by-12-elements.py       status 1: it shows, 0: it does not
"""
import subprocess
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

CASES = [(backend, seq_q, seq_k, wide) for backend in ("EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "MATH")
         for seq_q, seq_k, wide in ((1, 64, False), (256, 127, True), (256, 128, False))]


def one(backend, seq_q, seq_k, wide):
    q, k, v = (torch.ones(1, 1, n, 8, dtype=torch.bfloat16, device="cuda") for n in (seq_q, seq_k, seq_k))
    rows = 1 if wide else seq_q  # wide: one row for all queries
    bias = torch.zeros(12 + rows * seq_k, dtype=torch.bfloat16, device="cuda")[12:].view(1, 1, rows, seq_k)
    with sdpa_kernel(getattr(SDPBackend, backend)):
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.expand(1, 1, seq_q, seq_k))
    print("right" if bool((o == 1).all()) else "wrong")


if len(sys.argv) > 1:
    case = CASES[int(sys.argv[1])]
    try:
        one(*case)
    except RuntimeError as e:
        print(str(e).split("\n")[0])
    sys.exit(0)

print("torch", torch.__version__, "cuDNN", torch.backends.cudnn.version())
shows = False
for n, (backend, seq_q, seq_k, wide) in enumerate(CASES):  # each in a process: a fault ends a context
    said = subprocess.run([sys.executable, __file__, str(n)], capture_output=True, text=True).stdout.strip()
    print(f"{backend}, {seq_q} queries, {seq_k} keys{', one row of bias for all' if wide else ''}: {said}")
    shows |= "misaligned" in said or said == "wrong"
sys.exit(shows)
