"""A small kernel in Python, and its test.

    attnfuzz check ./mine.py:mine
    pytest mine.py
"""

import numpy as np

import attnfuzz
from attnfuzz.tensor import as_float32


@attnfuzz.target(
    errors=attnfuzz.Errors(accumulator="ffma", p="fp32", exp="fast_expf", log="logf", rcp="exact", scale="separate"),
    domain=attnfuzz.Domain(gqa=False, causal=False, window=False, softcap=False, key_lengths=False, bias=False,
                           mask=False, seq=attnfuzz.at_least(1), batch=attnfuzz.at_least(1), non_finite=False))
def mine(p, q, k, v):
    """softmax(Q K^T) V in NumPy, fp32"""
    q, k, v = (as_float32(t) for t in (q, k, v))
    x = np.matmul(q, k.swapaxes(2, 3)) * np.float32(p.scale)
    top = x.max(axis=-1, keepdims=True)
    e = np.exp(x - top)
    total = e.sum(axis=-1, keepdims=True)
    return np.matmul(e, v) / total, (top + np.log(total))[..., 0]


def test_mine(attnfuzz):
    attnfuzz.check(mine, cases=300)
