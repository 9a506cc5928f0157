"""Attention in NumPy, forward, backward and over listed blocks, and scores of blocks: right, slow and plain, in fp32
arithmetic."""

import copy
from dataclasses import replace

import numpy as np

import attnfuzz
from attnfuzz.masks import block_shares, candidates, distances, finite_padding, key_counts, place_rows, visible
from attnfuzz.tensor import as_float32

ERRORS = attnfuzz.Errors(accumulator="ffma", p="fp32", exp="fast_expf", log="logf", rcp="exact", tanh="tanhf",
                         scale="separate", rescales=1, deterministic=True)


def scores(p, q, k):
    group = p.heads_q // p.heads_kv
    with np.errstate(all="ignore"):
        x = np.matmul(as_float32(q), np.repeat(as_float32(k), group, axis=1).swapaxes(2, 3)) * np.float32(p.scale)
        if p.softcap > 0:
            x = np.float32(p.softcap) * np.tanh(x / np.float32(p.softcap))
    return x


def packed_call(p, q, k):
    """The call of the same problem with both sides packed, as attnfuzz.pack() makes them."""
    of = copy.copy(p)
    of.ragged, of.total_q, of.total_k = 3, q.shape[0], k.shape[0]
    return of


def packed(call, p, q, k, v, cu_seqlens_q, cu_seqlens_k, **more):
    """O and LSE of each packed entry, by a call of its own."""
    o = np.zeros((p.total_q, p.heads_q, p.dim_v) if p.ragged & 1 else (p.batch, p.heads_q, p.seq_q, p.dim_v), np.float32)
    lse = np.zeros((p.heads_q, p.total_q) if p.ragged & 1 else o.shape[:3], np.float32)
    for place, of, arrays in attnfuzz.entries(p, q, k, v, cu_seqlens_q, cu_seqlens_k, **more):
        one, its_lse = call(of, **arrays)
        place_rows(p, o, place, one)
        lse[(slice(None), place) if p.ragged & 1 else place] = its_lse[0]
    return o, lse


@attnfuzz.target(errors=ERRORS, bf16="bits",
                 domain=attnfuzz.Domain(features=("has_sink", "has_alibi", "latent", "packed", "int32", "paged", "key_step")))
def attention(p, q, k, v, bias=None, mask=None, key_lengths=None, sink=None, slopes=None, cu_seqlens_q=None, cu_seqlens_k=None,
              block_table=None):
    """attention in NumPy, fp32"""
    if block_table is not None:
        k, v = attnfuzz.gather(p, k, v, block_table, key_lengths)
    if p.ragged:
        return packed(attention.function, p, q, k, v, cu_seqlens_q, cu_seqlens_k, bias=bias, mask=mask,
                      key_lengths=key_lengths, sink=sink, slopes=slopes)
    with np.errstate(all="ignore"):
        x = scores(p, q, k)
        if slopes is not None:
            x = x - slopes[:, :, None, None] * distances(p, key_lengths).astype(np.float32)
        if bias is not None:
            b = as_float32(bias)
            x = np.where(np.isneginf(b), -np.inf, x + b)
        seen = visible(p, key_lengths)
        if seen is not None:
            x = np.where(seen, x, -np.inf)
        if mask is not None:
            x = np.where(mask, x, -np.inf)
        # A hidden key adds nothing, whatever it holds.
        hidden = np.isneginf(x)
        top = x.max(axis=-1, keepdims=True, initial=-np.inf)
        if sink is not None:
            sink = as_float32(sink)[:, None, None]
            top = np.maximum(top, sink)
        shift = np.where(np.isneginf(top), 0, top)
        e = np.exp(x - shift)
        total = e.sum(axis=-1, keepdims=True)
        if sink is not None:
            total = total + np.exp(sink - shift)
        w = np.repeat(as_float32(v), p.heads_q // p.heads_kv, axis=1)
        bad = ~np.isfinite(w)
        o = np.matmul(e, np.where(bad, 0, w))
        if bad.any():  # adds 0 to all other columns, which keep their bits
            o = o + np.where(hidden[..., None] | ~bad[:, :, None], 0, e[..., None] * w[:, :, None]).sum(axis=3)
        o = np.where(total == 0, 0, o / np.where(total == 0, 1, total))
        lse = (np.log(total) + top)[..., 0]
    return o.astype(np.float32), lse.astype(np.float32)


attention_fp32 = attnfuzz.target(attention.function, errors=ERRORS, domain=attnfuzz.Domain(dtypes=("f32",)),
                                 description="attention in NumPy, inputs and output in fp32")


def listed(p, indices):
    """(batch, heads_kv, seq_q, seq_k): True if the query's list names the key's block."""
    indices, blocks = np.asarray(indices, np.int64), -(-p.seq_k // p.block)
    named = np.zeros((*indices.shape[:3], blocks + 1), bool)
    np.put_along_axis(named, np.where((indices >= 0) & (indices < blocks), indices, blocks), True, axis=-1)
    return named[..., np.arange(p.seq_k) // p.block]


@attnfuzz.target(operation="selected", errors=ERRORS, bf16="bits",
                 domain=attnfuzz.Domain(dtypes=("f16", "bf16", "f32"), features=("packed", "int32")))
def selected(p, q, k, v, indices, key_lengths=None, cu_seqlens_q=None, cu_seqlens_k=None):
    """attention over listed blocks in NumPy, fp32"""
    if p.ragged:
        return packed(selected.function, p, q, k, v, cu_seqlens_q, cu_seqlens_k, indices=indices, key_lengths=key_lengths)
    seen = np.repeat(listed(p, indices), p.heads_q // p.heads_kv, axis=1)
    return attention.function(p, q, k, v, mask=seen, key_lengths=key_lengths)


def chosen(p, block_scores, count):
    """The lists of the blocks with the highest scores. `count`: the candidates of each query."""
    block, count, most = np.arange(p.blocks), count[..., None], np.finfo(np.float32).max
    order = np.where(np.isnan(block_scores), most, np.clip(-block_scores, -most, most))
    order = np.where((block < p.select_first) | (block >= count - p.select_last), -np.inf, order)
    lists = np.argsort(np.where(block < count, order, np.inf), axis=-1, kind="stable")[..., : p.select]
    lists = np.pad(lists, [(0, 0)] * 3 + [(0, p.select - lists.shape[-1])])
    return np.where(np.arange(p.select) < count, lists, -1)


def packed_choice(call, p, q, k, cu_seqlens_q, cu_seqlens_k, **more):
    """The lists and the scores of each packed entry, by a call of its own."""
    rows = (p.total_q, p.heads_kv) if p.ragged & 1 else (p.batch, p.heads_kv, p.seq_q)
    lists, block_scores = np.full((*rows, p.select), -1), np.zeros((*rows, p.blocks), np.float32)
    for place, of, arrays in attnfuzz.entries(p, q, k, None, cu_seqlens_q, cu_seqlens_k, **more):
        for to, one in zip((lists, block_scores), call(of, **arrays)):
            place_rows(p, to, place, one)
    return lists, block_scores


@attnfuzz.target(operation="nsa_score", errors=ERRORS, bf16="bits",
                 domain=attnfuzz.Domain(dtypes=("f16", "bf16", "f32"), features=("packed", "int32")))
def nsa_score(p, q, k, lse, key_lengths=None, cu_seqlens_q=None, cu_seqlens_k=None):
    """scores of blocks, and the choice by them, in NumPy, fp32"""
    if p.ragged:
        return packed_choice(nsa_score.function, p, q, k, cu_seqlens_q, cu_seqlens_k, lse=lse, key_lengths=key_lengths)
    with np.errstate(all="ignore"):
        weights = np.exp(scores(p, q, k) - as_float32(lse)[..., None])
        seen = visible(p, key_lengths)
        if seen is not None:
            weights = np.where(seen, weights, np.float32(0))
        of_group = weights.reshape(p.batch, p.heads_kv, p.heads_q // p.heads_kv, p.seq_q, p.seq_k).sum(axis=2)
        block_scores = np.matmul(of_group, block_shares(p))
    return chosen(p, block_scores, candidates(p, key_lengths)), block_scores


def in_order(*arrays):
    """Arrays in fp32 and dense: NumPy adds in the order of strides, and a kernel's bits must not depend on them."""
    return [np.ascontiguousarray(as_float32(array)) for array in arrays]


def _pairs(p, q, k, v, dout, bias, mask, key_lengths):
    """For all pairs, in fp32: the scores, -inf where a query does not see a key; the derivative of
    the softcap; and dO V. Also K for every query head, with finite rows beyond the lengths."""
    if key_lengths is not None:
        k, v = (finite_padding(as_float32(t), key_counts(p, np.asarray(key_lengths))) for t in (k, v))
    k, v = (np.repeat(as_float32(t), p.heads_q // p.heads_kv, axis=1) for t in (k, v))
    x = np.matmul(as_float32(q), k.swapaxes(2, 3)) * np.float32(p.scale)
    slope = np.float32(1)
    if p.softcap > 0:
        t = np.tanh(x / np.float32(p.softcap))
        x, slope = np.float32(p.softcap) * t, 1 - t * t
    if bias is not None:
        b = as_float32(bias)
        x = np.where(np.isneginf(b), -np.inf, x + b)
    for seen in (visible(p, key_lengths), mask):
        x = x if seen is None else np.where(seen, x, -np.inf)
    return np.ascontiguousarray(x), slope, np.matmul(as_float32(dout), v.swapaxes(2, 3)), k


def _gradients(p, q, dout, k, key_lengths, hidden, weight, z, slope):
    """dQ, dK and dV of the weights, which are 0 where a query does not see a key, and of z = dO V - D; and dbias if it is asked
    for."""
    ds = np.where(hidden, 0, weight * z)
    da = np.where(hidden, 0, ds * slope)
    of_keys = np.matmul(da.swapaxes(2, 3), as_float32(q)), np.matmul(weight.swapaxes(2, 3), as_float32(dout))
    dk, dv = (t.reshape(p.batch, p.heads_kv, p.heads_q // p.heads_kv, *t.shape[2:]).sum(axis=2) for t in of_keys)
    if key_lengths is not None:  # 0 even where Q or dO holds NaN
        beyond = np.arange(p.seq_k)[:, None] >= key_counts(p, np.asarray(key_lengths)).reshape(-1, 1, 1, 1)
        dk, dv = np.where(beyond, 0, dk), np.where(beyond, 0, dv)
    scale = np.float32(p.scale)
    due = {"dq": (np.matmul(da, k) * scale).astype(np.float32), "dk": dk * scale, "dv": dv}
    return due if p.dbias_shape is None else {**due, "dbias": summed(ds, p.dbias_shape)}


def summed(ds, shape):
    """The sum over each dimension in which one element of the bias stands for all."""
    return ds.sum(axis=tuple(i for i, n in enumerate(shape) if n != ds.shape[i]), keepdims=True)


BACKWARD = replace(ERRORS, ds="fp32", heads="fp32")


def packed_gradients(call, p, q, k, v, cu_seqlens_q, cu_seqlens_k, **more):
    """The gradients of each packed entry, by a call of its own."""
    dq, dk, dv = (np.zeros(t.shape, np.float32) for t in (q, k, v))
    ds = np.zeros((p.batch, p.heads_q, p.seq_q, p.seq_k) if p.dbias_shape else 0, np.float32)
    dsink = np.zeros(p.heads_q, np.float32)
    for b, (queries, of, arrays) in enumerate(attnfuzz.entries(p, q, k, v, cu_seqlens_q, cu_seqlens_k, **more)):
        of.dbias_shape = p.dbias_shape and (1, p.heads_q, of.seq_q, of.seq_k)
        one, keys = call(of, **arrays), slice(*cu_seqlens_k[b : b + 2]) if p.ragged & 2 else b
        place_rows(p, dq, queries, one["dq"])
        for to, due in ((dk, one["dk"]), (dv, one["dv"])):
            to[keys] = due[0].swapaxes(0, 1) if p.ragged & 2 else due[0]
        if p.dbias_shape:
            ds[b, :, : of.seq_q, : of.seq_k] = one["dbias"][0]
        dsink += one.get("dsink", 0)  # asked for by all entries or by none
    due = {"dq": dq, "dk": dk, "dv": dv}
    if p.dbias_shape:
        due["dbias"] = summed(ds, p.dbias_shape)
    return {**due, "dsink": dsink} if p.has_sink else due


@attnfuzz.target(operation="backward", errors=BACKWARD, bf16="bits",
                 domain=attnfuzz.Domain(dtypes=("f16", "bf16", "f32"),
                                        features=("dlse", "dbias", "has_sink", "dsink", "packed", "int32", "key_step")))
def backward(p, q, k, v, dout, o, lse, bias=None, mask=None, key_lengths=None, cu_seqlens_q=None, cu_seqlens_k=None, dlse=None,
             sink=None):
    """the backward pass in NumPy, fp32, from the O and LSE that it is given"""
    if p.ragged:
        return packed_gradients(backward.function, p, q, k, v, cu_seqlens_q, cu_seqlens_k, bias=bias, mask=mask,
                                key_lengths=key_lengths, dout=dout, o=o, lse=lse, dlse=dlse, sink=sink)
    q, dout, o, lse = in_order(q, dout, o, lse)
    with np.errstate(all="ignore"):
        x, slope, dp, k = _pairs(p, q, k, v, dout, bias, mask, key_lengths)
        hidden = np.isneginf(x)
        weight = np.where(hidden, 0, np.exp(x - lse[..., None]))
        delta = (dout * o).sum(axis=-1, keepdims=True)
        if dlse is not None:
            delta = delta - dlse[..., None]
        due = _gradients(p, q, dout, k, key_lengths, hidden, weight, dp - delta, slope)
        if sink is not None:
            sink = as_float32(sink)[:, None]
            due["dsink"] = -np.where(np.isneginf(sink), 0, np.exp(sink - lse) * delta[..., 0]).sum(axis=(0, 2))
        return due


@attnfuzz.target(operation="selected_backward", errors=BACKWARD, bf16="bits",
                 domain=attnfuzz.Domain(dtypes=("f16", "bf16", "f32"), features=("dlse", "packed", "int32")))
def selected_backward(p, q, k, v, indices, dout, o, lse, key_lengths=None, dlse=None, cu_seqlens_q=None, cu_seqlens_k=None):
    """the gradients of attention over listed blocks in NumPy, fp32"""
    if p.ragged:
        return packed_gradients(selected_backward.function, p, q, k, v, cu_seqlens_q, cu_seqlens_k, indices=indices,
                                key_lengths=key_lengths, dout=dout, o=o, lse=lse, dlse=dlse)
    seen = np.repeat(listed(p, indices), p.heads_q // p.heads_kv, axis=1)
    return backward.function(p, q, k, v, dout, o, lse, mask=seen, key_lengths=key_lengths, dlse=dlse)


@attnfuzz.target(operation="backward", errors=replace(BACKWARD, saved="recomputed"), bf16="bits",
                 domain=attnfuzz.Domain(dtypes=("f16", "bf16", "f32")))
def backward_recomputed(p, q, k, v, dout, o, lse, bias=None, mask=None, key_lengths=None):
    """the backward pass in NumPy, fp32, as the derivative of a softmax that it computes itself"""
    q, dout = in_order(q, dout)
    with np.errstate(all="ignore"):
        x, slope, dp, k = _pairs(p, q, k, v, dout, bias, mask, key_lengths)
        top = x.max(axis=-1, keepdims=True, initial=-np.inf)
        hidden = np.isneginf(x)
        weight = np.where(hidden, 0, np.exp(x - top))
        weight = np.where(hidden, 0, weight / weight.sum(axis=-1, keepdims=True))
        delta = np.where(hidden, 0, weight * dp).sum(axis=-1, keepdims=True)
        return _gradients(p, q, dout, k, key_lengths, hidden, weight, dp - delta, slope)
