"""single_prefill_with_kv_cache on a Hopper GPU with kv_layout="HND": the back end that is chosen there takes the number
of heads of K and V for the number of keys. With more keys than query heads, a division by zero ends the process.

    python3 docs/found/flashinfer/flashinfer-fa3-heads-first.py       status 1: it shows, 0: it does not
"""
import subprocess
import sys

import flashinfer
import torch

CASES = [(heads, keys, layout) for heads, keys in ((8, 4), (1, 64)) for layout in ("NHD", "HND")]


def one(heads, keys, layout):
    q = torch.zeros(2, heads, 128, dtype=torch.float16, device="cuda")
    k = torch.zeros(keys, heads, 128, dtype=torch.float16, device="cuda")
    v = torch.arange(heads, device="cuda").half().view(1, heads, 1).expand(keys, heads, 128).contiguous()
    if layout == "HND":
        k, v = (t.transpose(0, 1).contiguous() for t in (k, v))
    o = flashinfer.single_prefill_with_kv_cache(q, k, v, kv_layout=layout)
    print("each head's number:", o[0, :, 0].tolist())


if len(sys.argv) > 1:
    one(*CASES[int(sys.argv[1])])
    sys.exit(0)

print("torch", torch.__version__, "flashinfer", flashinfer.__version__)
shows = False
for n, (heads, keys, layout) in enumerate(CASES):
    done = subprocess.run([sys.executable, __file__, str(n)], capture_output=True, text=True)
    said = done.stdout.strip() or f"status {done.returncode} {done.stderr.strip()[-200:]}"
    right = f"each head's number: {[float(h) for h in range(heads)]}"
    print(f"{heads} heads, {keys} keys, {layout}: {said}")
    shows |= layout == "HND" and said != right
sys.exit(shows)
