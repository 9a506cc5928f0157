"""The double-precision oracle, with a rounding-error bound for every element: a replacement for allclose.

    expected, bound = attnfuzz.oracle(q, k, v, causal=True, errors=attnfuzz.Errors(accumulator="tensor", p="input"))
    assert (abs(out - expected) <= bound).all()
    attnfuzz.assert_within(out, lse, q, k, v, causal=True)        # the same, and says where and by how much

q (batch, heads, seq_q, dim), k and v (batch, heads_kv, seq_k, dim): NumPy, torch or JAX arrays of f16, bf16
(in NumPy as ml_dtypes.bfloat16) or f32, wherever they lie; they are copied to the host. Needs NumPy.
"""

import ctypes

from attnfuzz import contract as c
from attnfuzz.declare import DTYPES, Domain, Errors
from attnfuzz.home import find

_library = None


class _Expected(ctypes.Structure):
    _fields_ = [("value", ctypes.c_void_p), ("bound", ctypes.c_void_p), ("got", ctypes.c_void_p),
                ("ratio", ctypes.c_void_p)]


def _load():
    global _library
    if _library is None:
        _library = ctypes.CDLL(find("lib", "libattnfuzz-oracle.so"))
    return _library


def on_host(name, array, types):
    """(NumPy array, name of its format) with unchanged values; bf16 as its bits."""
    import numpy

    if type(array).__module__.split(".")[0] == "torch":
        array = array.detach().cpu()
        if str(array.dtype) == "torch.bfloat16":
            import torch

            array = array.contiguous().view(torch.int16).numpy().view(numpy.uint16)
        else:
            array = array.numpy()
    else:
        array = numpy.asarray(array)
    formats = {"float16": "f16", "uint16": "bf16", "bfloat16": "bf16", "float32": "f32", "bool": "bool"}
    fmt = formats.get(array.dtype.name)
    if fmt not in types:
        raise TypeError(f"{name} is of {array.dtype}: must be {' or '.join(types)}")
    return (array.view(numpy.uint16) if array.dtype.name == "bfloat16" else array), fmt


def _floats(name, array, shape):
    """An output as dense fp32."""
    import numpy

    if type(array).__module__.split(".")[0] == "torch":
        array = array.detach().float().cpu().numpy()
    array = numpy.asarray(array)
    if array.dtype == numpy.uint16:
        array = (array.astype(numpy.uint32) << 16).view(numpy.float32)
    if name == "lse" and array.shape == shape + (1,):
        array = array[..., 0]
    if array.shape != shape:
        raise ValueError(f"{name} has the shape {array.shape}, and {shape} is due")
    return numpy.ascontiguousarray(array, dtype=numpy.float32)


def _view(array):
    strides = [s // array.itemsize for s in array.strides]
    return c.TensorView(array.ctypes.data, (ctypes.c_int64 * 4)(*strides))


def _qkv(q, k, v):
    """Q, K and V on the host, and their common format. Raises an error that says which shape or format is required."""
    (q, fmt), (k, of_k), (v, of_v) = (on_host(n, a, DTYPES) for n, a in (("q", q), ("k", k), ("v", v)))
    for name, a in (("q", q), ("k", k), ("v", v)):
        if a.ndim != 4:
            raise ValueError(f"{name} has {a.ndim} dimensions: must be (batch, heads, length, dim)")
    if of_k != fmt or of_v != fmt:
        raise TypeError(f"q is {fmt}, k {of_k} and v {of_v}: must be of one format")
    batch, _, _, dim_qk = q.shape
    _, heads_kv, seq_k, _ = k.shape
    for name, a, due in (("k", k, (batch, heads_kv, seq_k, dim_qk)), ("v", v, (batch, heads_kv, seq_k, v.shape[3]))):
        if a.shape != due:
            raise ValueError(f"{name} has the shape {a.shape}, and beside the others {due} is due")
    return q, k, v, fmt


def _evaluate(q, k, v, out, lse, causal, align, scale, softcap, window, bias, mask, key_lengths, errors, tiles,
              calibration, lse_base, lse_dead):
    import numpy

    q, k, v, fmt = _qkv(q, k, v)
    batch, heads_q, seq_q, dim_qk = q.shape
    _, heads_kv, seq_k, _ = k.shape
    p = c.Problem(size=ctypes.sizeof(c.Problem), dtype=DTYPES.index(fmt), batch=batch,
                  heads_q=heads_q, heads_kv=heads_kv, seq_q=seq_q, seq_k=seq_k, dim_qk=dim_qk, dim_v=v.shape[3],
                  scale=dim_qk**-0.5 if scale is None else scale, softcap=softcap, causal=bool(causal),
                  align={"top_left": c.TOP_LEFT, "bottom_right": c.BOTTOM_RIGHT}[align], window_left=window[0],
                  window_right=window[1], bias_dtype=c.NONE,
                  features=c.FEATURE_F32 if fmt == "f32" else 0)
    o_shape, lse_shape = (batch, heads_q, seq_q, v.shape[3]), (batch, heads_q, seq_q)
    value, bound, lse_value, lse_bound, ratio, lse_ratio = (
        numpy.empty(s, numpy.float64) for s in (o_shape, o_shape, lse_shape, lse_shape, o_shape, lse_shape))
    t = c.Tensors(size=ctypes.sizeof(c.Tensors), q=_view(q), k=_view(k), v=_view(v))
    dense = numpy.empty(o_shape, numpy.uint32 if fmt == "f32" else numpy.uint16)
    t.o = _view(dense)
    square = (batch, heads_q, seq_q, seq_k)
    if bias is not None:
        bias, bias_fmt = on_host("bias", bias, DTYPES)
        bias = numpy.broadcast_to(bias, square)
        p.bias_dtype = DTYPES.index(bias_fmt)
        t.bias = _view(bias)
    if mask is not None:
        mask = numpy.broadcast_to(on_host("mask", mask, ("bool",))[0], square)
        p.has_mask = 1
        t.mask = _view(mask)
    if key_lengths is not None:
        key_lengths = numpy.ascontiguousarray(key_lengths, dtype=numpy.int64)
        if key_lengths.shape != (batch,):
            raise ValueError(f"key_lengths has the shape {key_lengths.shape}, and {(batch,)} is due")
        p.has_key_lengths = 1
        t.key_lengths = key_lengths.ctypes.data
    plan = c.Plan(size=ctypes.sizeof(c.Plan), num_splits=1, workspace_align=1)
    (errors or Errors()).fill(plan, p, tiles)
    Domain(lse_base=lse_base, lse_dead=lse_dead).say_lse(plan)
    got = None if out is None else _floats("out", out, o_shape)
    got_lse = None if lse is None else _floats("lse", lse, lse_shape)
    text = ctypes.create_string_buffer(4096)

    def expected(values, bounds, given, ratios):
        return _Expected(values.ctypes.data, bounds.ctypes.data, None if given is None else given.ctypes.data,
                         ratios.ctypes.data)

    status = _load().attnfuzz_oracle(
        ctypes.byref(p), ctypes.byref(t), ctypes.byref(plan), calibration.encode(),
        ctypes.byref(expected(value, bound, got, ratio)), ctypes.byref(expected(lse_value, lse_bound, got_lse, lse_ratio)),
        text, ctypes.c_uint64(len(text)))
    if status != 0:
        raise ValueError(text.value.decode())
    return {"out": (value, bound, got, ratio), "lse": (lse_value, lse_bound, got_lse, lse_ratio),
            "assumptions": text.value.decode()}


def oracle(q, k, v, *, causal=False, align="top_left", scale=None, softcap=0.0, window=(-1, -1), bias=None, mask=None,
           key_lengths=None, errors=None, tiles=(64, 64), calibration="documented", lse=False, lse_base="e",
           lse_dead="-inf"):
    """What O must be, and how far off it may be: two arrays of doubles, (batch, heads, seq_q, dim_v).

    `expected` is NaN if NaN is due; `bound` is infinite if anything passes. scale None is 1/sqrt(dim_qk). `errors` says how
    the kernel rounds (None: the loosest documented classes). With lse=True, the log-sum-exp and its bound follow: four
    arrays. The LSE is natural, or as lse_base and lse_dead say (attnfuzz.Domain).
    """
    r = _evaluate(q, k, v, None, None, causal, align, scale, softcap, window, bias, mask, key_lengths, errors, tiles,
                  calibration, lse_base, lse_dead)
    return r["out"][:2] + (r["lse"][:2] if lse else ())


def assert_within(out, lse, q, k, v, *, causal=False, align="top_left", scale=None, softcap=0.0, window=(-1, -1),
                  bias=None, mask=None, key_lengths=None, errors=None, tiles=(64, 64), calibration="documented",
                  lse_base="e", lse_dead="-inf"):
    """Raises AssertionError with the worst element if O or the LSE is out of its bound; lse may be None.

    Returns the largest error/bound otherwise.
    """
    import numpy

    r = _evaluate(q, k, v, out, lse, causal, align, scale, softcap, window, bias, mask, key_lengths, errors, tiles,
                  calibration, lse_base, lse_dead)
    worst = 0.0
    for name in ("out", "lse"):
        value, bound, got, ratio = r[name]
        if got is None or not ratio.size:
            continue
        bad = ~(ratio <= 1)
        if bad.any():
            at = numpy.unravel_index(numpy.argmax(numpy.where(numpy.isnan(ratio), numpy.inf, ratio)), ratio.shape)
            place = ", ".join(f"{axis}={i}" for axis, i in zip("bhqd", at))
            raise AssertionError(
                f"{name}({place}) is {got[at]:.6g}, expected {value[at]:.6g} +- {bound[at]:.3g}, error/bound "
                f"{ratio[at]:.3g}; {bad.sum()} of {bad.size} elements are outside their bound"
                + (f" ({r['assumptions']})" if r["assumptions"] else ""))
        worst = max(worst, float(ratio.max()))
    return worst
