"""Attention in NumPy: right, slow and plain. It has everything that the contract has, in fp32 arithmetic."""

import numpy as np

import attnfuzz
from attnfuzz.masks import visible
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


@attnfuzz.target(errors=ERRORS, bf16="bits")
def attention(p, q, k, v, bias=None, mask=None, key_lengths=None):
    """attention in NumPy, fp32"""
    with np.errstate(all="ignore"):
        x = scores(p, q, k)
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
        e = np.exp(x - np.where(np.isneginf(top), 0, top))
        total = e.sum(axis=-1, keepdims=True)
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
