"""jax.nn.dot_product_attention by XLA and by cuDNN; and Pallas' kernels for GPUs, mha, decode_attention and
paged_attention, by Pallas' interpreter where there is no GPU. JAX_PLATFORMS=cuda asks for one; inputs are copied to it.

The causal mask is of the top left, and heads stand between positions and dims. A row that sees nothing is not 0 (masks
are finite numbers): converted in `xla_all` and `cudnn`, declared by refusing what can make one in the others.
"""

import functools
import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np

import attnfuzz
from attnfuzz.masks import finite_padding, sees_nothing


SHAPE = ("dtype", "batch", "heads", "seq", "dim", "causal")


@functools.partial(jax.jit, static_argnames=("causal",))
def _attend(q, k, v, scale, causal):
    q, k, v = (jnp.swapaxes(t, 1, 2) for t in (q, k, v))
    return jnp.swapaxes(jax.nn.dot_product_attention(q, k, v, scale=scale, is_causal=causal), 1, 2)


@attnfuzz.target(arrays="jax", errors=attnfuzz.Errors(accumulator="ffma", p="input"), compiles=SHAPE,
                 domain=attnfuzz.Domain(dtypes=("bf16",), lse=False, bias=False, mask=False, softcap=False, window=False,
                                        key_lengths=False, align="top_left", non_finite=False, seq=attnfuzz.at_least(1),
                                        batch=attnfuzz.at_least(1), equal_dims=True))
def xla(p, q, k, v):
    """jax.nn.dot_product_attention, XLA on the CPU"""
    if p.seq_q == 1 and 1 in (p.seq_k, p.dim_qk):
        attnfuzz.known("bf16, one query, and one key or one column")
    return _attend(q, k, v, jnp.float32(p.scale), p.causal).astype(jnp.float32)


@functools.partial(jax.jit, static_argnames=("causal", "window"))
def _attend_all(q, k, v, bias, mask, lengths, scale, causal, window):
    q, k, v = (jnp.swapaxes(t, 1, 2) for t in (q, k, v))
    o = jax.nn.dot_product_attention(q, k, v, bias, mask, scale=scale, is_causal=causal, key_value_seq_lengths=lengths,
                                     local_window_size=window)
    return jnp.swapaxes(o, 1, 2)


# Few shapes, for each is compiled.
@attnfuzz.target(arrays="jax", errors=attnfuzz.Errors(accumulator="ffma", p="input"),
                 compiles=(*SHAPE, "bias", "mask", "key_lengths", "window"),
                 domain=attnfuzz.Domain(dtypes=("f32", "bf16"), lse=False, softcap=False, align="top_left", non_finite=False,
                                        seq_q={1, 3, 8, 33}, seq_k={1, 2, 9, 65}, batch={1, 2}, heads_q={1, 2, 4},
                                        dim={1, 8, 33}, equal_dims=True))
def xla_all(p, q, k, v, bias=None, mask=None, key_lengths=None):
    """jax.nn.dot_product_attention, XLA on the CPU, with all that it takes"""
    if p.dtype == "bf16" and p.seq_q == 1 and 1 in (p.seq_k, p.dim_qk):
        attnfuzz.known("bf16, one query, and one key or one column")
    if key_lengths is not None:
        k, v = (jnp.array(finite_padding(np.asarray(t), key_lengths)) for t in (k, v))
    far = p.seq_q + p.seq_k
    window = None
    if p.window_left >= 0 or p.window_right >= 0:
        window = tuple(far if w < 0 else min(w, far) for w in (p.window_left, p.window_right))
    lengths = None if key_lengths is None else jnp.clip(key_lengths, 0, p.seq_k).astype(jnp.int32)
    o = _attend_all(q, k, v, bias, mask, lengths, jnp.float32(p.scale), p.causal, window)
    host = [None if a is None else np.asarray(a) for a in (bias, mask, key_lengths)]
    return np.where(sees_nothing(p, *host)[..., None], np.float32(0), np.asarray(o.astype(jnp.float32)))


# The smallest blocks that tensor cores take, so that second blocks are met in small cases; lengths are whole blocks.
# Causal with more queries than keys is known to be wrong.
BLOCK = 16


@attnfuzz.target(arrays="jax", tiles=(BLOCK, BLOCK), errors=attnfuzz.Errors(accumulator="ffma", p="input"),
                 compiles=(*SHAPE, "scale"),
                 domain=attnfuzz.Domain(lse=False, bias=False, mask=False, softcap=False, window=False,
                                        key_lengths=False, align="top_left", non_finite=False, gqa=False,
                                        scale="positive", seq=attnfuzz.multiple(BLOCK, least=BLOCK, most=128), dim=attnfuzz.at_most(128),
                                        batch=attnfuzz.at_least(1), heads_q=attnfuzz.at_most(4), equal_dims=True,
                                        equal_lengths=not attnfuzz.shows_known()))
def pallas_mha(p, q, k, v):
    """jax.experimental.pallas.ops.gpu.attention.mha"""
    from jax.experimental.pallas.ops.gpu import attention

    if p.dim_qk < 16 and jax.default_backend() != "cpu":
        attnfuzz.known("fewer than 16 columns")
    blocks = attention.BlockSizes(block_q=BLOCK, block_k=BLOCK, block_q_dkv=None, block_kv_dkv=None, block_q_dq=None,
                                  block_kv_dq=None)
    q, k, v = (jnp.swapaxes(t, 1, 2) for t in (q, k, v))
    o = attention.mha(q, k, v, None, sm_scale=p.scale, causal=p.causal, block_sizes=blocks,
                      interpret=jax.default_backend() == "cpu")
    return jnp.swapaxes(o, 1, 2).astype(jnp.float32)


# One query, keys in splits of blocks, and partial results that are not divided by their sums, in the input's format.
DECODE = attnfuzz.Errors(accumulator="ffma", p="input", partials="input", merges=2)
DECODES = dict(dtypes=("f16", "bf16"), lse=False, bias=False, mask=False, causal=False, non_finite=False, scale="positive",
               seq_q=1, seq_k={32, 64, 128}, heads_q={1, 2, 4}, dim={16, 64}, batch={1, 2}, equal_dims=True)


def of_lengths(p, k, v, key_lengths):
    """K and V, lengths, and which batch entries see no key. NaN beyond the lengths would reach O."""
    if p.dtype == "f16" and np.nansum(abs(np.asarray(v, np.float32)), axis=2).max(initial=0) > 60000:
        attnfuzz.known("sums of V that f16 does not hold")
    if key_lengths is None:
        return k, v, None, False
    k, v = (jnp.array(finite_padding(np.asarray(t), key_lengths)) for t in (k, v))
    lengths = jnp.clip(key_lengths, 0, p.seq_k).astype(jnp.int32)
    return k, v, lengths, (np.asarray(lengths) == 0)[:, None, None, None]


@attnfuzz.target(arrays="jax", tiles=(1, BLOCK), errors=DECODE, compiles=(*SHAPE, "scale", "key_lengths"),
                 domain=attnfuzz.Domain(softcap=False, window=False, **DECODES))
def pallas_decode(p, q, k, v, key_lengths=None):
    """jax.experimental.pallas.ops.gpu.decode_attention.gqa"""
    from jax.experimental.pallas.ops.gpu import decode_attention

    k, v, lengths, nothing = of_lengths(p, k, v, key_lengths)
    k, v = (jnp.swapaxes(t, 1, 2) for t in (k, v))
    o = decode_attention.gqa(q[:, :, 0], k, v, None, lengths, sm_scale=p.scale, block_k=BLOCK, k_splits=2,
                             interpret=jax.default_backend() == "cpu")
    return np.where(nothing, np.float32(0), np.asarray(o.astype(jnp.float32))[:, :, None])


PAGE = 8


@attnfuzz.target(arrays="jax", tiles=(1, 2 * PAGE), errors=DECODE, compiles=(*SHAPE, "softcap", "key_lengths"),
                 domain=attnfuzz.Domain(window=False, **dict(DECODES, scale=True)))
def pallas_paged(p, q, k, v, key_lengths=None):
    """jax.experimental.pallas.ops.gpu.paged_attention, pages in reverse order"""
    from jax.experimental.pallas.ops.gpu import paged_attention

    # It has no scale of its own: where Q can hold that, Q is scaled.
    scaled = (q.astype(jnp.float32) * p.scale).astype(q.dtype)
    if not bool((scaled.astype(jnp.float32) == q.astype(jnp.float32) * p.scale).all()):
        raise attnfuzz.Unsupported("Q times the scale is no number of the input's format")
    k, v, lengths, nothing = of_lengths(p, k, v, key_lengths)
    count = p.seq_k // PAGE
    pages = [jnp.concatenate([t.reshape(p.batch, p.heads_kv, count, PAGE, -1)[b, :, ::-1] for b in range(p.batch)], axis=1)
             for t in (k, v)]
    tables = jnp.array([[b * count + count - 1 - n for n in range(count)] for b in range(p.batch)], jnp.int32)
    o = paged_attention.paged_attention(scaled[:, :, 0], *pages, tables, lengths, pages_per_compute_block=2, k_splits=2,
                                        attn_logits_soft_cap=p.softcap or None,
                                        interpret=jax.default_backend() == "cpu")
    return np.where(nothing, np.float32(0), np.asarray(o.astype(jnp.float32))[:, :, None])


@attnfuzz.target(arrays="jax", tiles=(128, 128), errors=attnfuzz.Errors(accumulator="tensor", p="input"),
                 compiles=(*SHAPE, "scale", "bias", "mask", "key_lengths"),
                 domain=attnfuzz.Domain(dtypes=("f16", "bf16"), bias="own", lse=False, softcap=False, window=False, align="top_left",
                                        non_finite=False, seq_q={1, 2, 64, 65, 129}, seq_k={1, 2, 64, 65, 129}, batch={1, 2},
                                        heads_q={1, 2, 4}, dim={8, 64, 128}, equal_dims=True))
def cudnn(p, q, k, v, bias=None, mask=None, key_lengths=None):
    """jax.nn.dot_product_attention by cuDNN"""
    lengths = None if key_lengths is None else jnp.clip(key_lengths, 0, p.seq_k).astype(jnp.int32)
    q, k, v = (jnp.swapaxes(t, 1, 2) for t in (q, k, v))
    try:
        o = jax.nn.dot_product_attention(q, k, v, bias, mask, scale=p.scale, is_causal=p.causal,
                                         key_value_seq_lengths=lengths, implementation="cudnn",
                                         query_seq_lengths=None if lengths is None else jnp.full(p.batch, p.seq_q, jnp.int32))
    except (NotImplementedError, ValueError) as e:
        raise attnfuzz.Unsupported(str(e)) from None
    host = [None if a is None else np.asarray(a) for a in (bias, mask, key_lengths)]
    o = np.asarray(jnp.swapaxes(o, 1, 2).astype(jnp.float32))
    return np.where(sees_nothing(p, *host)[..., None], np.float32(0), o)
