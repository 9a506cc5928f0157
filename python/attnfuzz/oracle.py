"""The double-precision oracle, with a rounding-error bound for every element: a replacement for allclose.

    expected, bound = attnfuzz.oracle(q, k, v, causal=True, errors=attnfuzz.Errors(accumulator="tensor", p="input"))
    assert (abs(out - expected) <= bound).all()
    attnfuzz.assert_within(out, lse, q, k, v, causal=True)        # the same, and says where and by how much
    attnfuzz.assert_gradients_within((dq, dk, dv), q, k, v, dout, o, lse, causal=True)     # of a backward pass

q (batch, heads, seq_q, dim), k and v (batch, heads_kv, seq_k, dim): NumPy, torch or JAX arrays of f16, bf16
(in NumPy as ml_dtypes.bfloat16) or f32, wherever they lie; they are copied to the host. Needs NumPy.
"""

import ctypes
from dataclasses import replace

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


def _lent(a, name, types, shape):
    """An array on the host, broadcast to a shape: (array, view, format)."""
    import numpy

    a, fmt = on_host(name, a, types)
    try:
        a = numpy.broadcast_to(a, shape)
    except ValueError:
        raise ValueError(f"{name} has the shape {a.shape}, and {shape} is due") from None
    return a, _view(a), fmt


class _Call:
    """attn_problem, attn_tensors and attn_plan of a call, with the arrays that they point to."""

    def __init__(self, q, k, v, *, causal, align, scale, softcap, window, bias, mask, key_lengths, errors, tiles, calibration,
                 lse_base, lse_dead, sink=None, slopes=None):
        q, k, v, self.format = _qkv(q, k, v)
        batch, heads_q, seq_q, dim_qk = q.shape
        _, heads_kv, seq_k, dim_v = v.shape
        self.calibration, self.kept = calibration, [q, k, v]
        self.p = p = c.Problem(
            size=ctypes.sizeof(c.Problem), dtype=DTYPES.index(self.format), batch=batch, heads_q=heads_q, heads_kv=heads_kv,
            seq_q=seq_q, seq_k=seq_k, dim_qk=dim_qk, dim_v=dim_v, scale=dim_qk**-0.5 if scale is None else scale,
            softcap=softcap, causal=bool(causal), align={"top_left": c.TOP_LEFT, "bottom_right": c.BOTTOM_RIGHT}[align],
            window_left=window[0], window_right=window[1], bias_dtype=c.NONE,
            features=(c.FEATURE_F32 if self.format == "f32" else 0)
            | (c.FEATURE_WIDE if max(dim_qk, dim_v) > c.USUAL_DIMS else 0))
        self.t = c.Tensors(size=ctypes.sizeof(c.Tensors), q=_view(q), k=_view(k), v=_view(v))
        self._add_scores(bias, mask, key_lengths)
        if sink is not None:
            p.sink_dtype = DTYPES.index(self._lend("sink", sink, DTYPES, (heads_q,), lambda s: (0, s[0], 0, 0)))
            p.has_sink, p.features = 1, p.features | c.FEATURE_BITS["has_sink"]
        if slopes is not None:
            self._lend("slopes", slopes, ("f32",), (batch, heads_q), lambda s: (*s, 0, 0))
            p.has_alibi, p.features = 1, p.features | c.FEATURE_BITS["has_alibi"]
        self.plan = c.Plan(size=ctypes.sizeof(c.Plan), num_splits=1, workspace_align=1)
        (errors or Errors()).fill(self.plan, p, tiles)
        Domain(lse_base=lse_base, lse_dead=lse_dead).say_lse(self.plan)

    def _lend(self, name, a, types, shape, strides=tuple):
        """Points the member `name` of the tensors to an array that is broadcast to a shape. Returns its format."""
        a, view, fmt = _lent(a, name, types, shape)
        view.stride[:] = strides(tuple(s // a.itemsize for s in a.strides))
        self.kept.append(a)
        setattr(self.t, name, view)
        return fmt

    def _add_scores(self, bias, mask, key_lengths):
        import numpy

        p = self.p
        square = (p.batch, p.heads_q, p.seq_q, p.seq_k)
        if bias is not None:
            p.bias_dtype = DTYPES.index(self._lend("bias", bias, DTYPES, square))
        if mask is not None:
            self._lend("mask", mask, ("bool",), square)
            p.has_mask = 1
        if key_lengths is not None:
            key_lengths = numpy.ascontiguousarray(key_lengths, dtype=numpy.int64)
            if key_lengths.shape != (p.batch,):
                raise ValueError(f"key_lengths has the shape {key_lengths.shape}, and {(p.batch,)} is due")
            p.has_key_lengths = 1
            self.kept.append(key_lengths)
            self.t.key_lengths = key_lengths.ctypes.data

    def write_into(self, name, shape):
        """Memory for an output that nothing is written to: a call must have all of its tensors."""
        import numpy

        dense = numpy.empty(shape, numpy.uint32 if self.format == "f32" else numpy.uint16)
        self.kept.append(dense)
        setattr(self.t, name, _view(dense))

    def ask(self, function, outputs):
        """{name: (value, bound, got, ratio)} of {name: (shape, what was computed or None)}, and "assumptions"."""
        import numpy

        text = ctypes.create_string_buffer(4096)
        answer, structs = {}, []
        for name, (shape, got) in outputs.items():
            got = None if got is None else _floats(name, got, shape)
            value, bound, ratio = (numpy.empty(shape, numpy.float64) for _ in range(3))
            answer[name] = (value, bound, got, ratio)
            structs.append(_Expected(value.ctypes.data, bound.ctypes.data, None if got is None else got.ctypes.data,
                                     ratio.ctypes.data))
        status = getattr(_load(), function)(ctypes.byref(self.p), ctypes.byref(self.t), ctypes.byref(self.plan),
                                            self.calibration.encode(), *map(ctypes.byref, structs), text,
                                            ctypes.c_uint64(len(text)))
        if status != 0:
            raise ValueError(text.value.decode())
        return {**answer, "assumptions": text.value.decode()}


def _evaluate(q, k, v, out, lse, **call):
    of = _Call(q, k, v, **call)
    p = of.p
    o_shape = (p.batch, p.heads_q, p.seq_q, p.dim_v)
    of.write_into("o", o_shape)
    return of.ask("attnfuzz_oracle", {"out": (o_shape, out), "lse": (o_shape[:3], lse)})


def _evaluate_gradients(q, k, v, dout, o, lse, got, **call):
    import numpy

    if (o is None) != (lse is None):
        raise ValueError("o and lse: both, or neither")
    errors = call["errors"] or Errors()
    if o is None and errors.saved == "given":
        errors = replace(errors, saved="recomputed")
    if o is not None and errors.saved == "recomputed":
        raise ValueError("o and lse: a function that computes both by itself, Errors(saved='recomputed'), is given neither")
    of = _Call(q, k, v, **{**call, "errors": errors})
    p = of.p
    p.features |= c.OPERATIONS["backward"]
    shapes = {"dq": (p.batch, p.heads_q, p.seq_q, p.dim_qk), "dk": (p.batch, p.heads_kv, p.seq_k, p.dim_qk),
              "dv": (p.batch, p.heads_kv, p.seq_k, p.dim_v)}
    o_shape = (p.batch, p.heads_q, p.seq_q, p.dim_v)
    if o is None:  # a call must have them, and nothing reads them
        of.write_into("o", o_shape)
        lse = numpy.zeros(o_shape[:3], numpy.float32)
    else:
        if of._lend("o", o, DTYPES, o_shape) != of.format:
            raise TypeError(f"o: must be of q's format, {of.format}")
        lse = _floats("lse", lse, o_shape[:3])
    of._lend("lse", lse, ("f32",), o_shape[:3], lambda s: (*s, 0))
    if of._lend("dout", dout, DTYPES, o_shape) != of.format:
        raise TypeError(f"dout: must be of q's format, {of.format}")
    for name, shape in shapes.items():
        of.write_into(name, shape)
    return of.ask("attnfuzz_gradients", {name: (shape, got.get(name)) for name, shape in shapes.items()})


def _worst(r, names, axes):
    """The largest error/bound of these outputs; AssertionError with the worst element if one is above 1."""
    import numpy

    worst = 0.0
    for name in names:
        value, bound, got, ratio = r[name]
        if got is None or not ratio.size:
            continue
        bad = ~(ratio <= 1)
        if bad.any():
            at = numpy.unravel_index(numpy.argmax(numpy.where(numpy.isnan(ratio), numpy.inf, ratio)), ratio.shape)
            place = ", ".join(f"{axis}={i}" for axis, i in zip(axes(name), at))
            raise AssertionError(
                f"{name}({place}) is {got[at]:.6g}, expected {value[at]:.6g} +- {bound[at]:.3g}, error/bound "
                f"{ratio[at]:.3g}; {bad.sum()} of {bad.size} elements are outside their bound"
                + (f" ({r['assumptions']})" if r["assumptions"] else ""))
        worst = max(worst, float(ratio.max()))
    return worst


def oracle(q, k, v, *, causal=False, align="top_left", scale=None, softcap=0.0, window=(-1, -1), bias=None, mask=None,
           key_lengths=None, errors=None, tiles=(64, 64), calibration="documented", lse=False, lse_base="e",
           lse_dead="-inf", sink=None, slopes=None):
    """What O must be, and how far off it may be: two arrays of doubles, (batch, heads, seq_q, dim_v).

    `expected` is NaN if NaN is due; `bound` is infinite if anything passes. scale None is 1/sqrt(dim_qk). `errors` says how
    the kernel rounds (None: the loosest documented classes). With lse=True, the log-sum-exp and its bound follow: four
    arrays. The LSE is natural, or as lse_base and lse_dead say (attnfuzz.Domain). sink: (heads_q,), one more score for each
    head; slopes: ALiBi's, (heads_q,) or (batch, heads_q), fp32.
    """
    r = _evaluate(q, k, v, None, None, causal=causal, align=align, scale=scale, softcap=softcap, window=window, bias=bias,
                  mask=mask, key_lengths=key_lengths, errors=errors, tiles=tiles, calibration=calibration, lse_base=lse_base,
                  lse_dead=lse_dead, sink=sink, slopes=slopes)
    return r["out"][:2] + (r["lse"][:2] if lse else ())


def assert_within(out, lse, q, k, v, *, causal=False, align="top_left", scale=None, softcap=0.0, window=(-1, -1),
                  bias=None, mask=None, key_lengths=None, errors=None, tiles=(64, 64), calibration="documented",
                  lse_base="e", lse_dead="-inf", sink=None, slopes=None):
    """Raises AssertionError with the worst element if O or the LSE is out of its bound; lse may be None.

    Returns the largest error/bound otherwise.
    """
    r = _evaluate(q, k, v, out, lse, causal=causal, align=align, scale=scale, softcap=softcap, window=window, bias=bias,
                  mask=mask, key_lengths=key_lengths, errors=errors, tiles=tiles, calibration=calibration, lse_base=lse_base,
                  lse_dead=lse_dead, sink=sink, slopes=slopes)
    return _worst(r, ("out", "lse"), lambda name: "bhqd")


_GRADIENTS = ("dq", "dk", "dv")


def gradients(q, k, v, dout, o=None, lse=None, *, causal=False, align="top_left", scale=None, softcap=0.0, window=(-1, -1),
              bias=None, mask=None, key_lengths=None, errors=None, tiles=(64, 64), calibration="documented", lse_base="e",
              lse_dead="-inf"):
    """What dQ, dK and dV must be: {"dq": (expected, bound), "dk": ..., "dv": ...}, as oracle() has them.

    dout is the gradient of O. o and lse are what a forward pass stored: the expected gradients follow from these, and the
    bound has a backward pass's own errors alone. Without them the gradients are those of the exact function, for code that
    computes O itself, as automatic differentiation does; the bound has the errors of its forward pass as well.
    """
    r = _evaluate_gradients(q, k, v, dout, o, lse, {}, causal=causal, align=align, scale=scale, softcap=softcap, window=window,
                            bias=bias, mask=mask, key_lengths=key_lengths, errors=errors, tiles=tiles, calibration=calibration,
                            lse_base=lse_base, lse_dead=lse_dead)
    return {name: r[name][:2] for name in _GRADIENTS}


def assert_gradients_within(got, q, k, v, dout, o=None, lse=None, *, causal=False, align="top_left", scale=None, softcap=0.0,
                            window=(-1, -1), bias=None, mask=None, key_lengths=None, errors=None, tiles=(64, 64),
                            calibration="documented", lse_base="e", lse_dead="-inf"):
    """Raises AssertionError with the worst element if a gradient is out of its bound; the largest error/bound otherwise.

    `got`: dQ, dK and dV in this order, or a dict of dq, dk and dv; one that is None or missing is not looked at. The rest as
    gradients() has it.
    """
    got = dict(got) if isinstance(got, dict) else dict(zip(_GRADIENTS, got))
    if unknown := set(got) - set(_GRADIENTS):
        raise ValueError(f"{sorted(unknown)[0]!r}: a gradient is one of dq, dk and dv")
    if all(value is None for value in got.values()):
        raise ValueError("no gradient is given")
    r = _evaluate_gradients(q, k, v, dout, o, lse, got, causal=causal, align=align, scale=scale, softcap=softcap, window=window,
                            bias=bias, mask=mask, key_lengths=key_lengths, errors=errors, tiles=tiles, calibration=calibration,
                            lse_base=lse_base, lse_dead=lse_dead)
    return _worst(r, _GRADIENTS, lambda name: "bhqd" if name == "dq" else "bhkd")
