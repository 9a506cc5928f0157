"""jax.nn.dot_product_attention on the CPU, plain XLA. Its causal mask is of the top left, a mask is True where a key
may be seen, heads stand between positions and dims. A row that sees nothing is not 0 (its mask is finite): declared by
refusing what can make one.
"""

import functools
import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp

import attnfuzz


@functools.partial(jax.jit, static_argnames=("causal",))
def _attend(q, k, v, scale, causal):
    q, k, v = (jnp.swapaxes(t, 1, 2) for t in (q, k, v))
    return jnp.swapaxes(jax.nn.dot_product_attention(q, k, v, scale=scale, is_causal=causal), 1, 2)


@attnfuzz.target(arrays="jax", errors=attnfuzz.Errors(accumulator="ffma", p="input"),
                 domain=attnfuzz.Domain(dtypes=("bf16",), lse=False, bias=False, mask=False, softcap=False, window=False,
                                        key_lengths=False, align="top_left", non_finite=False, seq=attnfuzz.at_least(1),
                                        batch=attnfuzz.at_least(1), equal_dims=True))
def xla(p, q, k, v):
    """jax.nn.dot_product_attention, XLA on the CPU"""
    return _attend(q, k, v, jnp.float32(p.scale), p.causal).astype(jnp.float32)
