"""FlashInfer's attention for a single request, prefill and decode, on a GPU.

A batch has one entry. Heads lie between positions and dims. Causal is bottom-right, and a window has only a left side,
including its key. Every other rule of position (top-left causal, causal with more queries than keys, a window with a right
side) becomes its custom mask. The LSE has base 2. It compiles for each format and dims, and for having a window or a soft
cap.
"""

import contextlib
from dataclasses import replace

import torch

import attnfuzz
from attnfuzz.asleep import asleep
from attnfuzz.targets.torch_sdpa import ALIGNED, COMMON, FLASH, POSITIVE

with asleep():
    import flashinfer

# Partial results of splits over the keys are in O's format, one for each chunk of at least 256 keys.
FA2 = replace(FLASH, log="lg2.approx", tanh="approx", partials="input", merges=264)
ALL = dict(COMMON, batch={1}, bias=False, mask=False, align="bottom_right", window=True, softcap=True, seq_k=attnfuzz.at_least(1),
           dim={128}, equal_dims=True, scale=POSITIVE, lse_base=2)


@contextlib.contextmanager
def refusals():
    try:
        yield
    except (RuntimeError, ValueError) as e:
        if "Unsupported" in str(e) or "not supported" in str(e):
            raise attnfuzz.Unsupported(" ".join(str(e).split())) from None
        raise


# Known: offsets wrap at 32 bits (docs/found/flashinfer/flashinfer-row-stride-of-2-32.py), and a TMA descriptor is also
# made from the strides of single heads (docs/found/flashinfer/flashinfer-fa3-one-head-stride-of-1.py).
def plain(t):
    if attnfuzz.shows_known():
        return t
    if any(s * (n - 1) >= 2**31 for n, s in zip(t.shape, t.stride())):
        t = t.contiguous()
    return t.as_strided(t.shape, [s if n > 1 else t.shape[-1] for n, s in zip(t.shape, t.stride())])


def rows(*tensors):
    """(position, head, dim) of the only batch entry."""
    return [t[0].transpose(0, 1) for t in tensors]


def keys(k, v):
    """K and V, and the nearer of its two layouts: heads between positions and dims, or before both."""
    if min(k.stride(1) - k.stride(2), v.stride(1) - v.stride(2)) > 0:
        return k[0], v[0], "HND"
    return *rows(k, v), "NHD"


def result(out, lse):
    return out.transpose(0, 1)[None], lse.transpose(0, 1)[None]


def seen_by_position(p, device):
    """A mask (query, key) for what its arguments cannot express; None: they can."""
    if p.causal:
        words = p.seq_q == p.seq_k or (p.align == "bottom_right" and p.seq_q < p.seq_k)
    else:
        words = p.window_right < 0 and (p.align == "bottom_right" or p.seq_q == p.seq_k or p.window_left < 0)
    if words:
        return None
    far = p.seq_q + p.seq_k
    shift = p.seq_k - p.seq_q if p.align == "bottom_right" else 0
    offset = (torch.arange(p.seq_k, device=device)[None, :] - torch.arange(p.seq_q, device=device)[:, None]) - shift
    right = 0 if p.causal else far if p.window_right < 0 else min(p.window_right, far)
    seen = offset <= right
    return seen if p.window_left < 0 else seen & (offset >= -min(p.window_left, far))


_compiled = set()


def compiling(backend, p, has_mask=False):
    """Surrounds the first call of each compilation; the declaration below does not separate windows."""
    key = (backend, p.dtype, p.dim_qk, p.window_left >= 0 and not has_mask, p.softcap > 0)
    is_new = key not in _compiled
    _compiled.add(key)
    return attnfuzz.compiling() if is_new else contextlib.nullcontext()


def left(p):
    return -1 if p.window_left < 0 else min(p.window_left, p.seq_q + p.seq_k)


# Its LSE sums probabilities that are rounded first (docs/found/flashinfer/flashinfer-lse-of-rounded-sums.py), so only O
# is judged.
@attnfuzz.target(device="cuda", tiles=(128, 64), errors=FA2, compiles=("dtype", "dim"),
                 domain=attnfuzz.Domain(seq_q=attnfuzz.at_least(1), lse=attnfuzz.shows_known(), **dict(ALL, align=None, **ALIGNED)))
def prefill(p, q, k, v):
    """FlashInfer, single_prefill_with_kv_cache, fa2"""
    q, k, v = map(plain, (q, k, v))
    mask = seen_by_position(p, q.device)
    k, v, layout = keys(k, v)
    with refusals(), compiling("fa2", p, mask is not None):
        return result(*flashinfer.single_prefill_with_kv_cache(
            *rows(q), k, v, kv_layout=layout, custom_mask=mask, causal=p.causal and mask is None, sm_scale=p.scale,
            window_left=left(p) if mask is None else -1, logits_soft_cap=p.softcap or None, backend="fa2", return_lse=True))


@attnfuzz.target(device="cuda", tiles=(128, 96), errors=replace(FA2, partials=None, merges=0), compiles=("dtype", "dim"),
                 domain=attnfuzz.Domain(seq_q=attnfuzz.at_least(1), **dict(ALL, window=False, softcap=False, **ALIGNED)))
def prefill_fa3(p, q, k, v):
    """FlashInfer, single_prefill_with_kv_cache, fa3"""
    q, k, v = map(plain, (q, k, v))
    # It mistakes heads for keys if they lie before positions (docs/found/flashinfer/flashinfer-fa3-heads-first.py).
    k, v, layout = keys(k, v) if attnfuzz.shows_known() else (*rows(k, v), "NHD")
    with refusals(), compiling("fa3", p):
        return result(*flashinfer.single_prefill_with_kv_cache(
            *rows(q), k, v, kv_layout=layout, causal=p.causal, sm_scale=p.scale, backend="fa3", return_lse=True))


# It does not check alignment (docs/found/flashinfer/flashinfer-decode-keys-off-by-one.py). This is known, so it gets a
# copy.
def contiguous(t):
    t = t.contiguous()
    return t if t.data_ptr() % 16 == 0 or attnfuzz.shows_known() else t.clone()


# One query sees the keys of its left window. Heads share keys in groups of these sizes; for others K and V
# are repeated. Q, K and V lie without gaps.
GROUPS = (1, 2, 3, 4, 6, 8, 16)


@attnfuzz.target(device="cuda", tiles=(1, 64), compiles=("dtype", "dim"),
                 errors=replace(FA2, accumulator="ffma", p="fp32", scale="separate_fma"),
                 domain=attnfuzz.Domain(seq_q={1}, heads_q=attnfuzz.at_most(65535), **ALL))
def decode(p, q, k, v):
    """FlashInfer, single_decode_with_kv_cache"""
    if p.heads_q // p.heads_kv not in GROUPS:
        k, v = (t.repeat_interleave(p.heads_q // p.heads_kv, dim=1) for t in (k, v))
    with refusals(), compiling("decode", p):
        out, lse = flashinfer.single_decode_with_kv_cache(
            *map(contiguous, (q[0, :, 0], *rows(k, v))), sm_scale=p.scale, window_left=left(p),
            logits_soft_cap=p.softcap or None, return_lse=True)
    return result(out[None], lse[None])
