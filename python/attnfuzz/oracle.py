"""The double-precision oracle, with a rounding-error bound for every element: a replacement for allclose.

    expected, bound = attnfuzz.oracle(q, k, v, causal=True, errors=attnfuzz.Errors(accumulator="tensor", p="input"))
    assert (abs(out - expected) <= bound).all()
    attnfuzz.assert_within(out, lse, q, k, v, causal=True)        # the same, and says where and by how much
    attnfuzz.assert_gradients_within((dq, dk, dv), q, k, v, dout, o, lse, causal=True)     # of a backward pass

q (batch, heads, seq_q, dim), k and v (batch, heads_kv, seq_k, dim): NumPy, torch or JAX arrays of f16, bf16
(in NumPy as ml_dtypes.bfloat16) or f32, wherever they lie; they are copied to the host. Needs NumPy.
"""

import sys
import warnings
from dataclasses import replace

from attnfuzz import contract as c
from attnfuzz.errors import Errors
from attnfuzz.operations import DTYPES
from attnfuzz.oracle_call import Call, NotJudged, floats


def _evaluate(q, k, v, out, lse, **call):
    of = Call(q, k, v, **call)
    o_shape = (of.p.batch, of.p.heads_q, of.p.seq_q, of.p.dim_v)
    of.write_into("o", o_shape, of.queries)
    return of.ask("attnfuzz_oracle", {"out": (o_shape, out, of.queries), "lse": (o_shape[:3], lse, of.queries)})


def _evaluate_gradients(q, k, v, dout, o, lse, got, dlse=None, dbias_shape=None, **call):
    import numpy

    if (o is None) != (lse is None):
        raise ValueError("o and lse: both, or neither")
    errors = call.get("errors") or Errors()
    if o is None and errors.saved == "given":
        errors = replace(errors, saved="recomputed")
    if o is not None and errors.saved == "recomputed":
        raise ValueError("o and lse: a function that computes both by itself, Errors(saved='recomputed'), is given neither")
    of = Call(q, k, v, **{**call, "errors": errors})
    p = of.p
    p.features |= c.OPERATIONS["backward"]
    outputs = {"dq": ((p.batch, p.heads_q, p.seq_q, p.dim_qk), of.queries), "dk": ((p.batch, p.heads_kv, p.seq_k, p.dim_qk), of.keys),
               "dv": ((p.batch, p.heads_kv, p.seq_k, p.dim_v), of.keys)}
    o_shape = (p.batch, p.heads_q, p.seq_q, p.dim_v)
    rows = of.queries.shape(o_shape[:3]) if of.queries else o_shape[:3]
    if o is None:  # a call must have both tensors, although nothing reads them
        of.write_into("o", o_shape, of.queries)
        lse = numpy.zeros(rows, numpy.float32)
    elif of.lend_rows("o", o, DTYPES, p.dim_v) != of.format:
        raise TypeError(f"o: must be of q's format, {of.format}")
    of.lend_rows("lse", floats("lse", lse, rows), ("f32",))
    if of.lend_rows("dout", dout, DTYPES, p.dim_v) != of.format:
        raise TypeError(f"dout: must be of q's format, {of.format}")
    for name, (shape, side) in outputs.items():
        of.write_into(name, shape, side)
    if dlse is not None:
        of.lend_rows("dlse", floats("dlse", dlse, rows), ("f32",))
        p.features |= c.FEATURE_BITS["dlse"]
    r = of.ask("attnfuzz_gradients", {**{name: (shape, got.get(name), side) for name, (shape, side) in outputs.items()},
                                      "dbias": of.dbias(dbias_shape, got.get("dbias")), "dsink": of.dsink(got.get("dsink"))})
    if "dbias" in r:
        r["dbias"] = [a if a is None else a[tuple(map(slice, dbias_shape))] for a in r["dbias"]]
    return r


def _worst(r, names, axes):
    """The largest error/bound of these outputs. If it is above 1, raises AssertionError with the worst element."""
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
    rows, uninformative, unconstrained = r["rows"]
    if 2 * (uninformative + unconstrained) > rows:  # as in weigh_rows() of properties/judge/judge_case.cc
        # One text for all calls: by default Python prints it once for each line of the caller.
        warnings.warn("nearly any result would pass: most rows have scores too uncertain to judge, or may hold anything",
                      NotJudged, stacklevel=_outside())
    return worst


def _outside():
    """The stacklevel of the caller outside this package, for a warning of the calling function."""
    frame, level = sys._getframe(1), 1
    while frame is not None and frame.f_globals.get("__name__", "").startswith("attnfuzz."):
        frame, level = frame.f_back, level + 1
    return level


def _expect_result(got, what):
    if got is None:
        raise ValueError(f"{what} is None: a function that returns nothing, or writes into an argument, has to return it")


def oracle(q, k, v, *, causal=False, align="top_left", scale=None, softcap=0.0, window=(-1, -1), bias=None, mask=None,
           key_lengths=None, errors=None, tiles=(64, 64), calibration="documented", lse=False, lse_base="e",
           lse_dead="-inf", sink=None, slopes=None, cu_seqlens_q=None, cu_seqlens_k=None, max_seqlen_q=None, max_seqlen_k=None,
           block_table=None, key_blocks=None):
    """What O must be, and how far off it may be: two arrays of doubles, (batch, heads, seq_q, dim_v).

    `expected` is NaN if NaN is due; `bound` is infinite if anything passes. scale None is 1/sqrt(dim_qk). `errors` says how
    the kernel rounds (None: the loosest documented classes). With lse=True, the log-sum-exp and its bound follow: four
    arrays. The LSE is natural, or as lse_base and lse_dead say (attnfuzz.Domain). sink: (heads_q,), one more score for each
    head; slopes: ALiBi's, (heads_q,) or (batch, heads_q), fp32.

    With cu_seqlens_q, queries are packed: q is (row, head, dim), O is (row, head, dim_v) and the LSE (head, row). With
    cu_seqlens_k, k and v are (row, head, dim). Both hold batch + 1 integers. A bias and a mask stay (batch, heads,
    max_seqlen_q, max_seqlen_k); both numbers default to the longest entry's.

    With block_table, (batch, pages of an entry), k and v are pools (page, head, slot, dim), and key_lengths says how many keys
    each entry has. Other entries of the table, and slots without a key, may hold anything.

    key_blocks=(step, length): key j stands for `length` keys of a longer sequence, from key j * step on, and a query sees it if
    it sees the last of them. key_lengths and the diagonal then count keys of the longer sequence.
    """
    r = _evaluate(q, k, v, None, None, causal=causal, align=align, scale=scale, softcap=softcap, window=window, bias=bias,
                  mask=mask, key_lengths=key_lengths, errors=errors, tiles=tiles, calibration=calibration, lse_base=lse_base,
                  lse_dead=lse_dead, sink=sink, slopes=slopes, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k,
                  max_seqlen_q=max_seqlen_q, max_seqlen_k=max_seqlen_k, block_table=block_table, key_blocks=key_blocks)
    return r["out"][:2] + (r["lse"][:2] if lse else ())


def assert_within(out, lse, q, k, v, *, causal=False, align="top_left", scale=None, softcap=0.0, window=(-1, -1),
                  bias=None, mask=None, key_lengths=None, errors=None, tiles=(64, 64), calibration="documented",
                  lse_base="e", lse_dead="-inf", sink=None, slopes=None, cu_seqlens_q=None, cu_seqlens_k=None,
                  max_seqlen_q=None, max_seqlen_k=None, block_table=None, key_blocks=None):
    """Raises AssertionError with the worst element if O or the LSE is out of its bound.

    Returns the largest error/bound otherwise. The arguments are those of oracle(). An LSE that is None is not judged; an O
    that is None is a ValueError. If most rows would pass whatever they hold,
    the call warns with attnfuzz.NotJudged.
    """
    _expect_result(out, "out")
    r = _evaluate(q, k, v, out, lse, causal=causal, align=align, scale=scale, softcap=softcap, window=window, bias=bias,
                  mask=mask, key_lengths=key_lengths, errors=errors, tiles=tiles, calibration=calibration, lse_base=lse_base,
                  lse_dead=lse_dead, sink=sink, slopes=slopes, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k,
                  max_seqlen_q=max_seqlen_q, max_seqlen_k=max_seqlen_k, block_table=block_table, key_blocks=key_blocks)
    packed = {"out": "qhd", "lse": "hq"}
    return _worst(r, ("out", "lse"), lambda name: "bhqd" if cu_seqlens_q is None else packed[name])


def gradient_names(dbias_shape=None, sink=None, **_):
    """The names of the gradients that a call asks for, in the order of a tuple."""
    return ["dq", "dk", "dv"] + ["dbias"] * (dbias_shape is not None) + ["dsink"] * (sink is not None)


def gradients(q, k, v, dout, o=None, lse=None, **call):
    """What dQ, dK and dV must be: {"dq": (expected, bound), "dk": ..., "dv": ...}, as oracle() has them.

    dout is the gradient of O. o and lse are what a forward pass stored: the expected gradients follow from these, and the
    bound has a backward pass's own errors alone. Without them the gradients are those of the exact function, for code that
    computes O itself, as automatic differentiation does; the bound has the errors of its forward pass as well.

    `call`: what oracle() takes by name, except block_table and slopes. With cu_seqlens_q, dout, o and dq are (row,
    head, dim) and lse is (head, row); with cu_seqlens_k, dk and dv are (row, head, dim). Also dlse, the gradient of the LSE, in
    the form of lse. With sink=, lse includes the sink, and the answer has "dsink". With dbias_shape= it has "dbias", (batch,
    heads, seq_q, seq_k), with 1 in each dimension over which the gradient of the bias is summed.
    """
    r = _evaluate_gradients(q, k, v, dout, o, lse, {}, **call)
    return {name: tuple(r[name][:2]) for name in gradient_names(**call)}


def assert_gradients_within(got, q, k, v, dout, o=None, lse=None, **call):
    """Raises AssertionError with the worst element if a gradient is out of its bound; the largest error/bound otherwise.

    `got`: dQ, dK and dV in this order, and dbias and dsink if the call asks for them; or a dict of dq, dk, dv, dbias and
    dsink. A gradient that is None or missing is not judged; if all are, that is a ValueError. Warns as
    assert_within() does. All other arguments are those of gradients(); the dbias of a dict implies dbias_shape.
    """
    _expect_result(got, "got")
    if isinstance(got, dict) and got.get("dbias") is not None:
        call.setdefault("dbias_shape", getattr(got["dbias"], "shape", None))
    names = gradient_names(**call)
    if not isinstance(got, dict) and len(got) > len(names):
        raise ValueError(f"{len(got)} gradients are given, and there are {len(names)}: {', '.join(names)}")
    got = {name: value for name, value in (got if isinstance(got, dict) else dict(zip(names, got))).items() if value is not None}
    if unknown := set(got) - set(names):
        raise ValueError(f"{sorted(unknown)[0]!r}: a gradient of this call is one of {', '.join(names)}")
    if not got:
        raise ValueError("no gradient is given")
    r = _evaluate_gradients(q, k, v, dout, o, lse, got, **call)
    sides = {"dq": ("q", call.get("cu_seqlens_q")), "dk": ("k", call.get("cu_seqlens_k")), "dv": ("k", call.get("cu_seqlens_k"))}

    def axes(name):
        if name not in sides:
            return {"dbias": "bhqk", "dsink": "h"}[name]
        rows, packed = sides[name]
        return f"bh{rows}d" if packed is None else f"{rows}hd"

    return _worst(r, names, axes)
