"""Attention and its gradients in double precision, from their definitions, and random inputs."""

import numpy as np

RANDOM = np.random.default_rng(7)


def inputs(batch=2, heads=2, heads_kv=1, seq_q=5, seq_k=70, dim=16):
    return (RANDOM.standard_normal((batch, heads, seq_q, dim)).astype(np.float16),
            RANDOM.standard_normal((batch, heads_kv, seq_k, dim)).astype(np.float16),
            RANDOM.standard_normal((batch, heads_kv, seq_k, dim)).astype(np.float16))


def plain(q, k, v, seen=None):
    """In double precision, from the definition."""
    q, k, v = (a.astype(np.float64) for a in (q, k, v))
    k, v = (np.repeat(a, q.shape[1] // k.shape[1], axis=1) for a in (k, v))
    x = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[3])
    if seen is not None:
        x = np.where(seen, x, -np.inf)
    e = np.exp(x - x.max(-1, keepdims=True))
    return e @ v / e.sum(-1, keepdims=True), np.log(e.sum(-1)) + x.max(-1)


def plain_gradients(q, k, v, dout, o=None, lse=None):
    """dQ, dK and dV in double precision, of this O and LSE, or of exact ones."""
    exact, exact_lse = plain(q, k, v)
    o, lse = exact if o is None else o.astype(np.float64), exact_lse if lse is None else lse.astype(np.float64)
    q, k, v, dout = (a.astype(np.float64) for a in (q, k, v, dout))
    group, scale = q.shape[1] // k.shape[1], 1 / np.sqrt(q.shape[3])
    k, v = (np.repeat(a, group, axis=1) for a in (k, v))
    p = np.exp(q @ k.swapaxes(2, 3) * scale - lse[..., None])
    ds = p * (dout @ v.swapaxes(2, 3) - (dout * o).sum(-1, keepdims=True))
    dk, dv = (a.reshape(a.shape[0], -1, group, *a.shape[2:]).sum(2) for a in (ds.swapaxes(2, 3) @ q * scale, p.swapaxes(2, 3) @ dout))
    return ds @ k * scale, dk, dv
