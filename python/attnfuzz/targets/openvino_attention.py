"""OpenVINO's scaled_dot_product_attention (opset 13) on the CPU, in each precision that its plug-in computes in.

Its causal mask is top-left, and it ignores another mask beside it. A boolean mask is True where a key is visible; any other
mask is added. It promises nothing for a row that sees no key, so the adapter writes zero. Sizes are dynamic: one compiled
model serves each kind of mask.
"""

import functools

import numpy as np
import openvino as ov
from openvino import opset13

import attnfuzz
from attnfuzz.masks import one_mask, sees_nothing
from attnfuzz.tensor import as_float32


@functools.lru_cache(maxsize=64)
def request(causal, masked, precision, of_one_column):
    kind = ov.Type.f32
    inputs = [opset13.parameter(ov.PartialShape([-1] * 4), kind, name=name) for name in "qkv"]
    mask = None
    if masked:
        mask = opset13.parameter(ov.PartialShape([-1] * 4), ov.Type.boolean if masked == "bool" else kind, name="mask")
        inputs.append(mask)
    inputs.append(opset13.parameter(ov.PartialShape([]), kind, name="scale"))
    node = opset13.scaled_dot_product_attention(*inputs[:3], mask, inputs[-1], causal=causal)
    model = ov.Core().compile_model(ov.Model([node], inputs, "attention"), "CPU",
                                    {"INFERENCE_PRECISION_HINT": precision, "INFERENCE_NUM_THREADS": "1"})
    return model.create_infer_request()


def attend(p, q, k, v, bias, mask, precision):
    m = one_mask(None if bias is None else as_float32(bias), mask)
    group = p.heads_q // p.heads_kv
    q, k, v = (np.ascontiguousarray(as_float32(t)) for t in (q, k, v))
    if group > 1:
        k, v = (np.repeat(t, group, axis=1) for t in (k, v))
    masked = None if m is None else "bool" if m.dtype == bool else "float"
    feed = [q, k, v] + ([] if m is None else [np.ascontiguousarray(m)]) + [np.array(p.scale, np.float32)]
    # In bf16, a model that was called with a head dimension of 1 is known to be wrong with others.
    of_one_column = p.dim_qk == 1 and not attnfuzz.shows_known()
    o = request(p.causal, masked, precision, of_one_column).infer(feed)[0]
    return np.where(sees_nothing(p, bias, mask)[..., None], np.float32(0), o)


DOMAIN = dict(lse=False, softcap=False, window=False, key_lengths=False, align="top_left", causal_with_mask=False,
              non_finite=False, seq=attnfuzz.at_least(1), batch=attnfuzz.at_least(1))


@attnfuzz.target(errors=attnfuzz.Errors(accumulator="ffma", p="input"), domain=attnfuzz.Domain(dtypes=("f32",), **DOMAIN))
def f32(p, q, k, v, bias=None, mask=None):
    """OpenVINO on the CPU, in fp32"""
    return attend(p, q, k, v, bias, mask, "f32")


@attnfuzz.target(errors=attnfuzz.Errors(accumulator="tensor", p="input", scale="separate"),
                 domain=attnfuzz.Domain(dtypes=("bf16",), bias="own", **DOMAIN), bf16="bits")
def bf16(p, q, k, v, bias=None, mask=None):
    """OpenVINO on the CPU, in bf16"""
    return attend(p, q, k, v, bias, mask, "bf16")


@attnfuzz.target(errors=attnfuzz.Errors(accumulator="tensor", p="input"),
                 domain=attnfuzz.Domain(dtypes=("f16",), bias="own", **DOMAIN))
def f16(p, q, k, v, bias=None, mask=None):
    """OpenVINO on the CPU, in f16"""
    return attend(p, q, k, v, bias, mask, "f16")
