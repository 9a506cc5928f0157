"""aten._scaled_dot_product_flash_attention: a V that does not begin at a multiple of 16 bytes is neither refused nor
copied.

    python3 docs/found/pytorch/flash/flash-v-off-by-one-element.py       status 1: it shows, 0: it does not
"""
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

print("torch", torch.__version__, "cuDNN", torch.backends.cudnn.version())


q, k = (torch.zeros(1, 1, 1, 8, dtype=torch.float16, device="cuda") for _ in "qk")
v = torch.zeros(9, dtype=torch.float16, device="cuda")[1:].reshape(1, 1, 1, 8)
try:
    print(torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, False, False)[0].tolist())
    torch.cuda.synchronize()
except RuntimeError as e:
    print(str(e).split("\n")[0])
    sys.exit(1)
