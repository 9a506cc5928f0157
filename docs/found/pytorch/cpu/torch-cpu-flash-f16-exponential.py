"""scaled_dot_product_attention, flash on the CPU, f16 and bf16: with 16 keys or more, exp(x) has a relative error of up
to 1.6e-4. In fp32 the error is about 3e-7. It is computed from the LSE, which is fp32: one score of 0 and 31 scores of
x make it log(1 + 31 exp(x)).

    python3 docs/found/pytorch/cpu/torch-cpu-flash-f16-exponential.py       status 1: it shows, 0: it does not
"""
import math
import sys

import torch

print("torch", torch.__version__)
flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
worst = {}
for dtype in (torch.float32, torch.bfloat16, torch.float16):
    worst[dtype] = (0.0, 0.0)
    for n in range(1, 512):
        x = -n / 128
        q, k, v = torch.zeros(1, 1, 16, 16, dtype=dtype), *torch.zeros(2, 1, 1, 32, 16, dtype=dtype)
        q[..., 0], k[0, 0, 1:, 0] = 1, x
        x = float(k[0, 0, 1, 0])
        _, lse = flash(q, k, v, 0.0, False, scale=1.0)
        off = math.expm1(float(lse[0, 0, 0])) / 31 / math.exp(x) - 1
        worst[dtype] = max(worst[dtype], (abs(off), x))
    print(dtype, "relative error of exp: %.2g, at %g" % worst[dtype])
sys.exit(worst[torch.float16][0] > 1e-5)
