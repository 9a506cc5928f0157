"""onnxruntime, com.microsoft.MultiHeadAttention on the CPU: unidirectional=1 with more keys than queries hides keys from every
query but the last, which sees them all.

    python3 docs/found/onnxruntime/onnxruntime-mha-causal-lengths.py       status 1: it shows, 0: it does not
"""
import sys

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

print("onnxruntime", onnxruntime.__version__)
QUERIES, KEYS, DIM = 4, 8, 8
shapes = {"Q": (1, QUERIES, DIM), "K": (1, KEYS, DIM), "V": (1, KEYS, KEYS)}
node = helper.make_node("MultiHeadAttention", list(shapes), ["O"], domain="com.microsoft", num_heads=1, unidirectional=1)
value = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
graph = helper.make_graph([node], "attention", [value(n, s) for n, s in shapes.items()], [value("O", None)])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)],
                          ir_version=10)
run = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
# Scores are equal, and V says which keys a query sees.
o = run.run(None, {"Q": np.zeros(shapes["Q"], "f4"), "K": np.zeros(shapes["K"], "f4"), "V": np.eye(KEYS, dtype="f4")[None]})[0]
seen = (o[0] > 0.01).sum(axis=1)
print("keys that each query sees:", seen, "expected:", np.arange(QUERIES) + 1, "or", np.arange(QUERIES) + 1 + KEYS - QUERIES)
sys.exit(len(set(np.diff(seen))) != 1)
