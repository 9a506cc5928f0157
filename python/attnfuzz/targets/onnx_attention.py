"""onnxruntime's Attention (ONNX opset 23) on the CPU, f16. Its causal mask is of the top left; a boolean mask is True
where a key may be seen. One session serves a set of attributes; sizes are dynamic.
"""

import functools

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

import attnfuzz


@functools.lru_cache(maxsize=256)
def session(heads_q, heads_kv, scale, softcap, causal, masked):
    half = TensorProto.FLOAT16
    names = ["Q", "K", "V"] + (["M"] if masked else [])
    inputs = [helper.make_tensor_value_info(n, half, ["b", "h" if n == "Q" else "g", n + "s", n + "d"])
              for n in names[:3]]
    if masked:
        inputs.append(helper.make_tensor_value_info("M", TensorProto.BOOL, ["b", "h", "Qs", "Ks"]))
    node = helper.make_node("Attention", names, ["O"], scale=scale, softcap=softcap, is_causal=int(causal))
    graph = helper.make_graph([node], "attention", inputs, [helper.make_tensor_value_info("O", half, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)])
    model.ir_version = 10
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


@attnfuzz.target(errors=attnfuzz.Errors(accumulator="ffma", p="input", partials="input"),
                 domain=attnfuzz.Domain(dtypes=("f16",), lse=False, bias=False, scale="positive", window=False, key_lengths=False,
                                        align="top_left", non_finite=False, seq=attnfuzz.at_least(1), batch=attnfuzz.at_least(1)))
def ort(p, q, k, v, mask=None):
    """onnxruntime, Attention of opset 23 on the CPU"""
    feed = {"Q": q, "K": k, "V": v}
    if mask is not None:
        feed["M"] = mask
    feed = {name: np.ascontiguousarray(a) for name, a in feed.items()}
    run = session(p.heads_q, p.heads_kv, p.scale, p.softcap, p.causal, mask is not None)
    return run.run(["O"], feed)[0]
