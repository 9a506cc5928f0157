"""MLX's fast.scaled_dot_product_attention on the CPU, fp32: its fallback of plain operators.

Its causal mask is bottom-right. A boolean mask is True where a key is visible; any other mask is added. MLX promises
nothing for a row that sees no key, so the adapter writes zero.
"""

import numpy as np

import attnfuzz
from attnfuzz.masks import one_mask, sees_nothing
from attnfuzz.tensor import as_float32


@attnfuzz.target(errors=attnfuzz.Errors(accumulator="ffma", p="input"),
                 domain=attnfuzz.Domain(dtypes=("f32",), lse=False, softcap=False, window=False, key_lengths=False,
                                        align="bottom_right", causal_with_mask=False, non_finite=False,
                                        seq=attnfuzz.at_least(1), batch=attnfuzz.at_least(1)))
def mlx(p, q, k, v, bias=None, mask=None):
    """MLX on the CPU"""
    import mlx.core as mx  # imported here: it starts a thread, which a fork would lose

    mx.set_default_device(mx.cpu)
    m = one_mask(None if bias is None else as_float32(bias), mask)
    m = "causal" if p.causal else None if m is None else mx.array(np.ascontiguousarray(m))
    q, k, v = (mx.array(np.ascontiguousarray(t)) for t in (q, k, v))
    o = np.array(mx.fast.scaled_dot_product_attention(q, k, v, scale=p.scale, mask=m))
    return np.where(sees_nothing(p, bias, mask)[..., None], np.float32(0), o)
