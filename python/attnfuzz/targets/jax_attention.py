"""jax.nn.dot_product_attention by XLA and by cuDNN, and three kernels of Pallas: mha, decode_attention and
paged_attention. JAX runs on the CPU, and Pallas' kernels in its interpreter, unless JAX_PLATFORMS=cuda is set. Inputs
are then copied to the GPU.

The causal mask is top-left, and heads lie between positions and dims. JAX does not return 0
for a row that sees no key, because its masks are finite numbers. Targets whose cases can have such rows set them to 0
(`xla_backward` sets their dO to 0).
"""

import functools
import os
from dataclasses import replace

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np

import attnfuzz
from attnfuzz.masks import finite_padding, sees_nothing


# Q.K is summed and scaled in fp32 (see JAX's sources). A compiler may fuse the scaling with the subtraction of the
# maximum.
ERRORS = attnfuzz.Errors(accumulator="ffma", p="input", scale="separate_fma")
SHAPE = ("dtype", "batch", "heads", "seq", "dim", "causal")


@functools.partial(jax.jit, static_argnames=("causal",))
def _attend(q, k, v, scale, causal):
    q, k, v = (jnp.swapaxes(t, 1, 2) for t in (q, k, v))
    return jnp.swapaxes(jax.nn.dot_product_attention(q, k, v, scale=scale, is_causal=causal), 1, 2)


# Known: in bf16, one query with one key or one column does not compile
# (docs/found/jax/jax-xla-cpu-bf16-of-one.py), and with one column the process may abort
# (jax-xla-cpu-bf16-of-64.py).
TWO = {1, 2} if attnfuzz.shows_known() else {2}


# Known: subnormal bf16 numbers in V count as 0, as with AMX. If V has no others, V is scaled up and O is
# scaled down.
def raised(p, v):
    largest = abs(np.asarray(v, np.float32)).max(initial=0)
    if p.dtype != "bf16" or not 0 < largest < 2.0**-100 or attnfuzz.shows_known():
        return v, np.float32(1)
    return jnp.array((np.asarray(v, np.float32) * np.float32(2.0**64)).astype(v.dtype)), np.float32(2.0**-64)


@attnfuzz.target(arrays="jax", errors=ERRORS, compiles=SHAPE,
                 domain=attnfuzz.Domain(dtypes=("bf16",), lse=False, bias=False, mask=False, softcap=False, window=False,
                                        key_lengths=False, align="top_left", non_finite=False, seq_q=attnfuzz.at_least(1),
                                        seq_k=attnfuzz.at_least(min(TWO)), dim=attnfuzz.at_least(min(TWO)),
                                        batch=attnfuzz.at_least(1), equal_dims=True))
def xla(p, q, k, v):
    """jax.nn.dot_product_attention, XLA on the CPU"""
    v, factor = raised(p, v)
    return np.asarray(_attend(q, k, v, jnp.float32(p.scale), p.causal).astype(jnp.float32)) * factor


@functools.partial(jax.jit, static_argnames=("causal", "window"))
def _attend_all(q, k, v, bias, mask, lengths, scale, causal, window):
    q, k, v = (jnp.swapaxes(t, 1, 2) for t in (q, k, v))
    o = jax.nn.dot_product_attention(q, k, v, bias, mask, scale=scale, is_causal=causal, key_value_seq_lengths=lengths,
                                     local_window_size=window)
    return jnp.swapaxes(o, 1, 2)


# Few shapes, because each is compiled.
@attnfuzz.target(arrays="jax", errors=ERRORS,
                 compiles=(*SHAPE, "bias", "mask", "key_lengths", "window"),
                 domain=attnfuzz.Domain(dtypes=("f32", "bf16"), lse=False, softcap=False, align="top_left", non_finite=False,
                                        seq_q={1, 3, 8, 33}, seq_k={*TWO, 9, 65}, batch={1, 2}, heads_q={1, 2, 4},
                                        dim={*TWO, 8, 33}, equal_dims=True))
def xla_all(p, q, k, v, bias=None, mask=None, key_lengths=None):
    """jax.nn.dot_product_attention, XLA on the CPU, with all that it takes"""
    v, factor = raised(p, v)
    if key_lengths is not None:
        k, v = (jnp.array(finite_padding(np.asarray(t), key_lengths)) for t in (k, v))
    far = p.seq_q + p.seq_k
    window = None
    if p.window_left >= 0 or p.window_right >= 0:
        window = tuple(far if w < 0 else min(w, far) for w in (p.window_left, p.window_right))
    lengths = None if key_lengths is None else jnp.clip(key_lengths, 0, p.seq_k).astype(jnp.int32)
    o = _attend_all(q, k, v, bias, mask, lengths, jnp.float32(p.scale), p.causal, window)
    host = [None if a is None else np.asarray(a) for a in (bias, mask, key_lengths)]
    return np.where(sees_nothing(p, *host)[..., None], np.float32(0), np.asarray(o.astype(jnp.float32)) * factor)


# Only fp32: in 16 bits JAX rounds dP, and attnfuzz has no error class for that.
@attnfuzz.target(operation="backward", arrays="jax", compiles=(*SHAPE, "bias", "mask", "key_lengths", "window"),
                 errors=replace(ERRORS, p="fp32", ds="fp32", heads="fp32", saved="recomputed"),
                 domain=attnfuzz.Domain(dtypes=("f32",), softcap=False, align="top_left", non_finite=False, seq_q={1, 3, 8, 33},
                                        seq_k={*TWO, 9, 65}, batch={1, 2}, heads_q={1, 2, 4}, dim={*TWO, 8, 33},
                                        equal_dims=True))
def xla_backward(p, q, k, v, dout, o, lse, bias=None, mask=None, key_lengths=None):
    """jax.nn.dot_product_attention, XLA: its vector-Jacobian product, in fp32 products"""
    lengths = None
    if key_lengths is not None:
        k, v = (jnp.array(finite_padding(np.asarray(t), key_lengths)) for t in (k, v))
        lengths = jnp.clip(key_lengths, 0, p.seq_k).astype(jnp.int32)
    far = p.seq_q + p.seq_k
    window = None
    if p.window_left >= 0 or p.window_right >= 0:
        window = tuple(far if w < 0 else min(w, far) for w in (p.window_left, p.window_right))
    host = [None if a is None else np.asarray(a) for a in (bias, mask, key_lengths)]
    # A row that sees no key is the mean of V here, so its dO counts as 0.
    dout = jnp.where(sees_nothing(p, *host)[..., None], 0, dout)
    with jax.default_matmul_precision("highest"):
        _, pull = jax.vjp(lambda q, k, v: _attend_all(q, k, v, bias, mask, lengths, jnp.float32(p.scale), p.causal, window),
                          q, k, v)
        dq, dk, dv = (np.asarray(t) for t in pull(dout))
    if key_lengths is None:
        return dq, dk, dv
    # A row whose scores overflow is NaN, and so are the gradients of padding.
    return dq, *(finite_padding(t, key_lengths) for t in (dk, dv))


# The smallest blocks that tensor cores take, so that small cases have a second block. Lengths are whole
# blocks. Causal with more queries than keys is known to be wrong.
BLOCK = 16


@attnfuzz.target(arrays="jax", tiles=(BLOCK, BLOCK), errors=ERRORS,
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


# One query. Keys are split into blocks, and partial results are not divided by their sums. Partial results,
# their weights and the merged sums are in the input's format (paged_attention.py, decode_attention.py of
# jax 0.10 and 0.11).
DECODE = replace(ERRORS, partials="input", merging="input", merges=2)
DECODES = dict(dtypes=("f16", "bf16"), lse=False, bias=False, mask=False, causal=False, non_finite=False, scale="positive",
               seq_q=1, seq_k={32, 64, 128}, heads_q={1, 2, 4}, dim={16, 64}, batch={1, 2}, equal_dims=True)


def of_lengths(p, k, v, key_lengths):
    """K and V, lengths, and the batch entries that see no key. NaN beyond the lengths would reach O."""
    lengths, seen = None, True
    if key_lengths is not None:
        k, v = (jnp.array(finite_padding(np.asarray(t), key_lengths)) for t in (k, v))
        lengths = jnp.clip(key_lengths, 0, p.seq_k).astype(jnp.int32)
        seen = np.arange(p.seq_k)[:, None] < np.asarray(lengths)[:, None, None, None]
    if p.dtype == "f16" and abs(np.where(seen, np.asarray(v, np.float32), 0)).sum(axis=2).max(initial=0) > 60000:
        attnfuzz.known("sums of V that f16 does not hold")
    return k, v, lengths, False if lengths is None else (np.asarray(lengths) == 0)[:, None, None, None]


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
                 domain=attnfuzz.Domain(window=False, **dict(DECODES, scale=False)))
def pallas_paged(p, q, k, v, key_lengths=None):
    """jax.experimental.pallas.ops.gpu.paged_attention, pages in reverse order"""
    from jax.experimental.pallas.ops.gpu import paged_attention

    k, v, lengths, nothing = of_lengths(p, k, v, key_lengths)
    # The kernel takes no scale, so Q is multiplied by it. Where that loses digits, the KV head is multiplied instead.
    exact = [t.astype(jnp.float32) * p.scale for t in (q, k)]
    of_q, of_k = ((t.astype(q.dtype).astype(jnp.float32) == t).reshape(p.batch, p.heads_kv, -1).all(-1) for t in exact)
    if not (of_q | of_k).all():
        raise attnfuzz.Unsupported("neither Q nor K times the scale is exact in the input's format")
    group = p.heads_q // p.heads_kv
    q = jnp.where(jnp.repeat(of_q, group, axis=1)[:, :, None, None], exact[0].astype(q.dtype), q)
    k = jnp.where(of_q[:, :, None, None], k, exact[1].astype(q.dtype))
    count = p.seq_k // PAGE
    pages = [jnp.concatenate([t.reshape(p.batch, p.heads_kv, count, PAGE, -1)[b, :, ::-1] for b in range(p.batch)], axis=1)
             for t in (k, v)]
    tables = jnp.array([[b * count + count - 1 - n for n in range(count)] for b in range(p.batch)], jnp.int32)
    o = paged_attention.paged_attention(q[:, :, 0], *pages, tables, lengths, pages_per_compute_block=2, k_splits=2,
                                        attn_logits_soft_cap=p.softcap or None,
                                        interpret=jax.default_backend() == "cpu")
    return np.where(nothing, np.float32(0), np.asarray(o.astype(jnp.float32))[:, :, None])


# A mask is a number that is added, -2^15 in f16 and -2^41 in bf16
# (docs/found/jax/jax-cudnn-mask-of-a-number.py).
def outweighed(p, q, k, bias, mask, key_lengths):
    q, k = (np.asarray(t, np.float32) for t in (q, k))
    with np.errstate(all="ignore"):
        scores = np.matmul(q, np.repeat(k, p.heads_q // p.heads_kv, 1).swapaxes(-1, -2)) * np.float32(p.scale)
        if bias is not None:
            scores = scores + np.asarray(bias, np.float32)
        keys = np.arange(p.seq_k)
        if p.causal:
            scores = np.where(keys <= np.arange(p.seq_q)[:, None], scores, -np.inf)
        if key_lengths is not None:
            scores = np.where(keys < np.asarray(key_lengths).reshape(-1, 1, 1, 1), scores, -np.inf)
        seen = np.asarray(mask)
        most = np.where(seen, scores, -np.inf).max(-1)
        hidden = np.where(seen, -np.inf, scores).max(-1) - (2.0**15 if p.dtype == "f16" else 2.0**41)
        if ((most > -np.inf) & (hidden > most - 100)).any():
            attnfuzz.known("a hidden score that the mask's finite number does not outweigh")


@attnfuzz.target(arrays="jax", tiles=(128, 128), errors=replace(ERRORS, accumulator="tensor"),
                 compiles=(*SHAPE, "scale", "bias", "mask", "key_lengths"),
                 domain=attnfuzz.Domain(dtypes=("f16", "bf16"), bias="own", lse=False, softcap=False, window=False, align="top_left",
                                        non_finite=False, seq_q={1, 2, 64, 65, 129}, seq_k={1, 2, 64, 65, 129}, batch={1, 2},
                                        heads_q={1, 2, 4}, dim={8, 64, 128}, equal_dims=True,
                                        scale=attnfuzz.shows_known() or "positive"))
def cudnn(p, q, k, v, bias=None, mask=None, key_lengths=None):
    """jax.nn.dot_product_attention by cuDNN"""
    if key_lengths is not None and not attnfuzz.shows_known():  # NaN beyond the lengths would reach O
        k, v = (jnp.array(finite_padding(np.asarray(t), key_lengths)) for t in (k, v))
    if mask is not None and not attnfuzz.shows_known():
        outweighed(p, q, k, bias, mask, key_lengths)
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
