"""jax.nn.dot_product_attention on the CPU, plain XLA; and Pallas' kernel for GPUs, mha, by Pallas' interpreter.

Of both the causal mask is of the top left, and heads stand between positions and dims. A row that sees nothing is not 0
(their masks are finite): declared by refusing what can make one.
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


# The smallest blocks that tensor cores take, so that second blocks are met in small cases; lengths are whole blocks.
BLOCK = 16


@attnfuzz.target(arrays="jax", tiles=(BLOCK, BLOCK), errors=attnfuzz.Errors(accumulator="ffma", p="input"),
                 domain=attnfuzz.Domain(lse=False, bias=False, mask=False, softcap=False, window=False,
                                        key_lengths=False, align="top_left", non_finite=False, gqa=False,
                                        scale="positive", seq=attnfuzz.multiple(BLOCK, least=BLOCK, most=128), dim=attnfuzz.at_most(128),
                                        batch=attnfuzz.at_least(1), heads_q=attnfuzz.at_most(4), equal_dims=True,
                                        equal_lengths=True))
def pallas_mha(p, q, k, v):
    """jax.experimental.pallas.ops.gpu.attention.mha, interpreted"""
    from jax.experimental.pallas.ops.gpu import attention

    blocks = attention.BlockSizes(block_q=BLOCK, block_k=BLOCK, block_q_dkv=None, block_kv_dkv=None, block_q_dq=None,
                                  block_kv_dq=None)
    q, k, v = (jnp.swapaxes(t, 1, 2) for t in (q, k, v))
    o = attention.mha(q, k, v, None, sm_scale=p.scale, causal=p.causal, block_sizes=blocks, interpret=True)
    return jnp.swapaxes(o, 1, 2).astype(jnp.float32)
