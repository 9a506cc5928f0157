"""onnxruntime on the CPU: ONNX's Attention, and the older operators GroupQueryAttention and MultiHeadAttention.

Attention: is_causal is top-left, with lengths (opset 24) bottom-right. A boolean mask is True where a key is visible; any
other mask is added. The older operators: heads lie beside dims in rows; local_window_size includes the query's own key;
masked scores become mask_filter_value, here the least number of fp32. In all of them a row that sees no key is the mean of
V, so the adapter writes zero. In Attention with lengths and in MultiHeadAttention, NaN beyond the lengths reaches O, so the
adapter replaces it by zero. One session serves each set of attributes; sizes are dynamic.
"""

import functools

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

import attnfuzz
from attnfuzz.masks import finite_padding, one_mask, sees_nothing
from attnfuzz.tensor import as_float32

FORMATS = {"f16": TensorProto.FLOAT16, "f32": TensorProto.FLOAT}
OTHERS = {"bool": TensorProto.BOOL, "i32": TensorProto.INT32, "i64": TensorProto.INT64}


@functools.lru_cache(maxsize=512)
def session(operator, inputs, outputs, dtype, attributes):
    """`inputs`: pairs (name, type). A type of None is the call's format; a name of "" omits an input."""
    of = lambda kind: FORMATS[dtype] if kind is None else OTHERS[kind]
    domain = "" if operator == "Attention" else "com.microsoft"
    node = helper.make_node(operator, [name for name, _ in inputs], list(outputs), domain=domain, **dict(attributes))
    graph = helper.make_graph([node], "attention",
                              [helper.make_tensor_value_info(name, of(kind), None) for name, kind in inputs if name],
                              [helper.make_tensor_value_info(name, of(None), None) for name in outputs])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24), helper.make_opsetid("com.microsoft", 1)])
    model.ir_version = 10
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def run(operator, p, feed, kinds, attributes, outputs=("O",)):
    inputs = tuple((name, kinds.get(name)) for name in feed)
    while inputs[-1][0].startswith("-"):
        inputs = inputs[:-1]
    made = session(operator, tuple(("" if n.startswith("-") else n, k) for n, k in inputs), outputs, p.dtype,
                   tuple(sorted(attributes.items())))
    feed = {name: np.ascontiguousarray(a) for name, a in feed.items() if not name.startswith("-")}
    return made.run([outputs[0]], feed)[0]


def alive(o, nothing):
    """O with zeros for queries that see no key."""
    return np.where(nothing[..., None], np.zeros((), o.dtype), o)


COMMON = dict(lse=False, window=False, non_finite=False, seq=attnfuzz.at_least(1), batch=attnfuzz.at_least(1))
ERRORS = attnfuzz.Errors(accumulator="ffma", p="input", partials="input")


def float_mask(p, bias, mask):
    m = one_mask(bias, mask)
    if m is None or m.dtype == bool:
        return m
    return m.astype(np.float16 if p.dtype == "f16" else np.float32)


def attention(p, q, k, v, bias, mask, lengths=None):
    m = float_mask(p, bias, mask)
    feed = {"Q": q, "K": k, "V": v, "M" if m is not None else "-m": m, "-pk": None, "-pv": None,
            "L" if lengths is not None else "-l": lengths}
    if lengths is not None:
        feed["L"] = np.clip(lengths, 0, p.seq_k).astype(np.int64)
    kinds = {"L": "i64"}
    if m is not None and m.dtype == bool:
        kinds["M"] = "bool"
    o = run("Attention", p, feed, kinds, dict(scale=p.scale, softcap=p.softcap, is_causal=int(p.causal)))
    return alive(o, sees_nothing(p, bias, mask, lengths))


# Scores are in f16, as the operator's definition says. A score that f16 cannot hold, or that is added to a
# large bias, is known to be off.
@attnfuzz.target(errors=ERRORS, domain=attnfuzz.Domain(dtypes=("f16",), scale="positive", key_lengths=False,
                                                       bias="own" if attnfuzz.shows_known() else False,
                                                       align="top_left", **COMMON))
def ort(p, q, k, v, bias=None, mask=None):
    """onnxruntime, Attention of opset 24 on the CPU, f16"""
    group = p.heads_q // p.heads_kv
    with np.errstate(all="ignore"):
        scores = np.matmul(as_float32(q), np.repeat(as_float32(k), group, axis=1).swapaxes(2, 3))
        if (abs(scores) * max(p.scale, 1) > 60000).any():
            attnfuzz.known("scores that f16 does not hold")
    return attention(p, q, k, v, bias, mask)


@attnfuzz.target(errors=attnfuzz.Errors(accumulator="ffma", p="input"),
                 domain=attnfuzz.Domain(dtypes=("f32",), scale="positive", key_lengths=False, align="top_left", **COMMON))
def ort_f32(p, q, k, v, bias=None, mask=None):
    """onnxruntime, Attention of opset 24 on the CPU, fp32"""
    return attention(p, q, k, v, bias, mask)


@attnfuzz.target(errors=attnfuzz.Errors(accumulator="ffma", p="input"),
                 domain=attnfuzz.Domain(dtypes=("f32",), scale="positive", align="bottom_right", **COMMON))
def ort_lengths(p, q, k, v, bias=None, mask=None, key_lengths=None):
    """onnxruntime, Attention of opset 24 on the CPU, fp32, with lengths"""
    if key_lengths is None:
        key_lengths = np.full(p.batch, p.seq_k)
    k, v = (finite_padding(t, key_lengths) for t in (k, v))
    return attention(p, q, k, v, bias, mask, key_lengths)


def rows(t):
    """(batch, position, heads and dims)"""
    return np.ascontiguousarray(t.swapaxes(1, 2)).reshape(t.shape[0], t.shape[2], -1)


def heads(o, p):
    return o.reshape(p.batch, p.seq_q, p.heads_q, p.dim_v).swapaxes(1, 2)


def grouped(p, q, k, v, past_k, past_v, lengths, bias):
    feed = {"Q": rows(q), "K": rows(k), "V": rows(v), "PK": past_k, "PV": past_v, "L": (lengths - 1).astype(np.int32),
            "T": np.array(p.seq_k, np.int32), "-cos": None, "-sin": None, "-at": None,
            "M" if bias is not None else "-m": float_mask(p, bias, None)}
    far = p.window_left < 0 or p.window_left >= 1 << 30
    window = -1 if far else p.window_left + 1
    o = run("GroupQueryAttention", p, feed, {"L": "i32", "T": "i32"},
            dict(num_heads=p.heads_q, kv_num_heads=p.heads_kv, scale=p.scale, softcap=p.softcap, local_window_size=window),
            ("O", "NK", "NV"))
    return heads(o, p)


GROUPED = dict(dtypes=("f16", "f32"), bias="own", lse=False, mask=False, scale="positive", non_finite=False, equal_dims=True,
               batch=attnfuzz.at_least(1), align="bottom_right", dim=attnfuzz.multiple(8))


@attnfuzz.target(errors=attnfuzz.Errors(accumulator="ffma", p="input"),
                 domain=attnfuzz.Domain(seq=attnfuzz.at_least(1), equal_lengths=True, causal="only", key_lengths=False,
                                        **GROUPED))
def ort_gqa(p, q, k, v, bias=None):
    """onnxruntime, GroupQueryAttention on the CPU: a prompt"""
    empty = np.zeros((p.batch, p.heads_kv, 0, p.dim_qk), q.dtype)
    o = grouped(p, q, k, v, empty, empty, np.full(p.batch, p.seq_k), bias)
    return alive(o, sees_nothing(p, bias))


@attnfuzz.target(errors=attnfuzz.Errors(accumulator="ffma", p="input"),
                 domain=attnfuzz.Domain(seq_q=1, seq_k=attnfuzz.at_least(1), causal="only", **GROUPED))
def ort_gqa_decode(p, q, k, v, bias=None, key_lengths=None):
    """onnxruntime, GroupQueryAttention on the CPU: one query, its key behind those of the cache"""
    key_lengths = np.full(p.batch, p.seq_k) if key_lengths is None else np.clip(key_lengths, 0, p.seq_k)
    lengths = np.maximum(key_lengths, 1)  # it cannot express a length of 0
    at = np.arange(p.batch)
    own = lambda t: t[at, :, lengths - 1][:, :, None]
    o = grouped(p, q, own(k), own(v), k[:, :, : p.seq_k - 1], v[:, :, : p.seq_k - 1], lengths, bias)
    return alive(o, sees_nothing(p, bias, None, key_lengths))


def of_many_heads(p, q, k, v, bias, key_lengths):
    if key_lengths is not None:
        k, v = (finite_padding(t, key_lengths) for t in (k, v))
    feed = {"Q": rows(q), "K": rows(k), "V": rows(v), "-bias": None, "L" if key_lengths is not None else "-l": None,
            "M" if bias is not None else "-m": None if bias is None else np.asarray(bias, q.dtype)}
    if key_lengths is not None:
        feed["L"] = np.clip(key_lengths, 0, p.seq_k).astype(np.int32)
    o = run("MultiHeadAttention", p, feed, {"L": "i32"},
            dict(num_heads=p.heads_q, scale=p.scale, unidirectional=int(p.causal),
                 mask_filter_value=float(np.finfo(np.float32).min)))
    return alive(heads(o, p), sees_nothing(p, bias, None, key_lengths))


# Causal with different lengths is known to be wrong.
MANY_HEADS = dict(COMMON, dtypes=("f32",), scale="positive", softcap=False, align="top_left", gqa=False, mask=False)


@attnfuzz.target(errors=attnfuzz.Errors(accumulator="ffma", p="input"),
                 domain=attnfuzz.Domain(causal=attnfuzz.shows_known(), **MANY_HEADS))
def ort_mha(p, q, k, v, bias=None, key_lengths=None):
    """onnxruntime, MultiHeadAttention on the CPU, fp32"""
    return of_many_heads(p, q, k, v, bias, key_lengths)


@attnfuzz.target(errors=attnfuzz.Errors(accumulator="ffma", p="input"),
                 domain=attnfuzz.Domain(causal="only", equal_lengths=True, **MANY_HEADS))
def ort_mha_causal(p, q, k, v, bias=None, key_lengths=None):
    """onnxruntime, MultiHeadAttention on the CPU, fp32, causal"""
    return of_many_heads(p, q, k, v, bias, key_lengths)
