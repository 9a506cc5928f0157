"""torch.nn.attention.flex_attention, compiled, on a GPU: full, or causal as a mask_mod. Its LSE is natural; a row that
sees no key has O = 0. `flex_backward` is its automatic differentiation. `flex_sink` rescales O by the sink, as models do
that have one; `flex_alibi` is a score_mod; `flex_packed` has a document mask.

Sizes are dynamic. torch.compile() compiles anew for each format, head dimension and causal, and for a size that is 1 or
short. The domain has few of these, so that most cases run code that is compiled already.
"""

from dataclasses import replace

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import attnfuzz
from attnfuzz.targets.torch_backward import by_autograd

_compiled = None


def compiled():
    global _compiled
    if _compiled is None:
        torch._dynamo.config.cache_size_limit = 1000
        _compiled = torch.compile(flex_attention, dynamic=True)
    return _compiled


# Known: offsets wrap at 32 bits if rows lie far apart (docs/found/pytorch/flex-row-stride-of-2-31.py). Such a tensor
# is copied.
def near(t):
    far = any(s * (n - 1) >= 2**31 for n, s in zip(t.shape, t.stride()))
    return t.contiguous() if far and not attnfuzz.shows_known() else t


ERRORS = attnfuzz.Errors(accumulator="tensor", p="input", exp="ex2.approx", log="lg2.approx", rcp="approx", scale="separate_fma")
SIZES = dict(dtypes=("bf16",), dim={64}, equal_dims=True, bias=False, mask=False, window=False, key_lengths=False, softcap=False,
             seq=range(129, 4097), batch=range(2, 65536), heads_q=attnfuzz.at_least(2), align="top_left", non_finite=False)
COMPILES = ("dtype", "dim", "causal")


def attend(p, q, k, v, score_mod=None, return_lse=True):
    block = None
    if p.causal:
        block = create_block_mask(lambda b, h, i, j: i >= j, None, None, p.seq_q, p.seq_k, device=q.device)
    q, k, v = map(near, (q, k, v))
    return compiled()(q, k, v, score_mod=score_mod, block_mask=block, scale=p.scale, enable_gqa=p.heads_q != p.heads_kv,
                      return_lse=return_lse)


@attnfuzz.target(device="cuda", tiles=(128, 128), errors=ERRORS, compiles=COMPILES, domain=attnfuzz.Domain(**SIZES))
def flex(p, q, k, v):
    """FlexAttention, compiled"""
    return attend(p, q, k, v)


@attnfuzz.target(operation="backward", device="cuda", tiles=(128, 128), compiles=COMPILES,
                 errors=replace(ERRORS, ds="input", saved="recomputed"), domain=attnfuzz.Domain(**SIZES))
def flex_backward(p, q, k, v, dout, o, lse):
    """FlexAttention, compiled: automatic differentiation"""
    return by_autograd(lambda q, k, v: attend(p, q, k, v, return_lse=False), dout, q, k, v)


# O is rounded before the sink takes its share.
@attnfuzz.target(device="cuda", tiles=(128, 128), errors=replace(ERRORS, partials="input", merges=1), compiles=COMPILES,
                 domain=attnfuzz.Domain(features=("has_sink",), **SIZES))
def flex_sink(p, q, k, v, sink=None):
    """FlexAttention, compiled, O rescaled by the sink"""
    o, lse = attend(p, q, k, v)
    if sink is None:
        return o, lse
    sink = sink.float()[None, :, None]
    return o.float() * torch.sigmoid(lse - sink)[..., None], torch.logaddexp(lse, sink)


@attnfuzz.target(device="cuda", tiles=(128, 128), errors=ERRORS, compiles=COMPILES,
                 domain=attnfuzz.Domain(features=("has_alibi",), **SIZES))
def flex_alibi(p, q, k, v, slopes=None):
    """FlexAttention, compiled, with ALiBi as a score_mod"""
    if slopes is None:
        return attend(p, q, k, v)
    slopes = slopes.contiguous()
    return attend(p, q, k, v, lambda score, b, h, i, j: score - slopes[b, h] * (i - j).abs())


def documents(p, cu_q, cu_k, device):
    """A mask_mod under which a query sees the keys of its own packed entry, causal of the bottom right."""
    def places(cu):
        rows = torch.arange(int(cu[-1]), device=device)
        entry = torch.searchsorted(cu[1:].long(), rows, right=True)
        return entry, rows - cu[entry]

    (entry_q, place_q), (entry_k, place_k) = places(cu_q), places(cu_k)
    diagonal = place_q + (cu_k.diff() - cu_q.diff())[entry_q]
    if p.causal:
        return lambda b, h, i, j: (entry_q[i] == entry_k[j]) & (place_k[j] <= diagonal[i])
    return lambda b, h, i, j: entry_q[i] == entry_k[j]


# Rows behind the last entry are left out: under a mask a NaN in V still counts, as 0 * NaN.
@attnfuzz.target(device="cuda", tiles=(128, 128), errors=ERRORS, compiles=COMPILES,
                 domain=attnfuzz.Domain(features=("packed", "int32"), **dict(SIZES, align="bottom_right", seq=range(129, 1025))))
def flex_packed(p, q, k, v, cu_seqlens_q=None, cu_seqlens_k=None):
    """FlexAttention, compiled, over packed sequences: a document mask. Not run yet"""
    q, k, v, cu_q, cu_k = attnfuzz.pack(p, q, k, v, cu_seqlens_q, cu_seqlens_k)
    queries, keys = int(cu_q[-1]), int(cu_k[-1])
    o, lse = q.new_zeros(len(q), p.heads_q, p.dim_v), q.new_full((p.heads_q, len(q)), -float("inf"), dtype=torch.float32)
    if queries and keys:
        block = create_block_mask(documents(p, cu_q, cu_k, q.device), None, None, queries, keys, device=q.device)
        one = [near(t[:rows].transpose(0, 1)[None]) for t, rows in ((q, queries), (k, keys), (v, keys))]
        of, its_lse = compiled()(*one, block_mask=block, scale=p.scale, enable_gqa=p.heads_q != p.heads_kv, return_lse=True)
        o[:queries], lse[:, :queries] = of[0].transpose(0, 1), its_lse[0]
    return attnfuzz.unpack(p, o, lse)
