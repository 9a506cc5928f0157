"""OpenVINO, scaled_dot_product_attention of dynamic shape on the CPU in bf16: after a call with a head dimension of 1,
calls with other head dimensions are wrong.

    python3 docs/found/openvino/openvino-bf16-head-dimension-changes.py       status 1: it shows, 0: it does not
"""
import sys

import numpy as np
import openvino as ov
from openvino import opset13

print("openvino", ov.__version__)


def request(hint):
    inputs = [opset13.parameter(ov.PartialShape([-1] * 4), ov.Type.f32, name=name) for name in "qkv"]
    inputs.append(opset13.parameter(ov.PartialShape([]), ov.Type.f32, name="scale"))
    node = opset13.scaled_dot_product_attention(*inputs[:3], None, inputs[3], causal=False)
    return ov.Core().compile_model(ov.Model([node], inputs, "attention"), "CPU",
                                   {"INFERENCE_PRECISION_HINT": hint}).create_infer_request()


def error(request, dim, length=32):
    """The largest error of one call."""
    q, k, v = (np.random.default_rng(n).standard_normal((1, 1, length, dim)).astype("f4") for n in range(3))
    o = request.infer([q, k, v, np.float32(0.1)])[0]
    p = np.exp(0.1 * q[0, 0] @ k[0, 0].T)
    return abs(o[0, 0] - p / p.sum(-1, keepdims=True) @ v[0, 0]).max()


wrong = False
for hint in ("f32", "f16", "bf16"):
    for before in (1, 2, 3, 8, 17, 64):
        used = request(hint)
        error(used, before)
        after, fresh = error(used, 16), error(request(hint), 16)
        print(f"{hint}: error at dimension 16 after {before}: {after:.2g}, in a new request: {fresh:.2g}")
        wrong |= not after < 2 * fresh + 0.01
sys.exit(wrong)
