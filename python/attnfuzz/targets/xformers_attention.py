"""xformers.ops.memory_efficient_attention_forward_requires_grad, one target an operator, on a GPU.

Heads lie between positions and dims. With grouped heads there is one more dimension for groups, and K and V are expanded
within a group. LowerTriangularMask is top-left causal, LowerTriangularFromBottomRightMask bottom-right causal. Both sides of
LocalAttentionFromBottomRightMask are inclusive, and LowerTriangularFromBottomRightLocalAttentionMask counts the query's own
key. Rows of a bias must lie a multiple of 8 elements apart, so the adapter pads them. There is no boolean mask. The LSE is
natural, with heads before positions; `cutlass` pads it to 32 queries. For a row that sees no key it is +inf, with split-K
-inf. An operator refuses a problem by a ValueError before it launches anything, which counts as refused.
"""

import contextlib
import math
from dataclasses import replace

import torch
import torch.nn.functional as F

import attnfuzz
from attnfuzz.asleep import asleep
from attnfuzz.targets.torch_sdpa import ALIGNED, COMMON, GRID, POSITIVE, SPLIT, TENSOR, expanded, lies_as_a_result_can

with asleep():
    import xformers.ops as xops
    from xformers.ops import fmha

bias_of = fmha.attn_bias


@contextlib.contextmanager
def refusals():
    try:
        yield
    except (ValueError, RuntimeError) as e:
        if any(words in str(e) for words in ("does not support inputs", "no kernel found to launch", "overflows",
                                             "is not correctly aligned")):
            raise attnfuzz.Unsupported(" ".join(str(e).split())) from None
        raise


# The LSE of a row that sees no key is -inf on some paths and +inf on others.
def dead_rows(lse):
    return torch.where(torch.isposinf(lse), -math.inf, lse)


def padded(bias):
    if bias.stride(-1) == 1 and bias.data_ptr() % 16 == 0 and not any(s % 8 for s in bias.stride()[:-1]):
        return bias
    room = bias.new_empty((*bias.shape[:-1], -(-bias.shape[-1] // 8) * 8))
    return room[..., : bias.shape[-1]].copy_(bias)


def heads_last(p, q, k, v, bias=None):
    """In xFormers' layout: (batch, position, head, dim), or (batch, position, group, head of a group, dim)."""
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    group = p.heads_q // p.heads_kv
    if group > 1:
        q = q.unflatten(2, (p.heads_kv, group))
        k, v = (t.unsqueeze(3).expand(-1, -1, -1, group, -1) for t in (k, v))
        bias = bias if bias is None else bias.unflatten(1, (p.heads_kv, group))
    return q, k, v, bias if bias is None else padded(bias)


def call(p, op, q, k, v, bias):
    with refusals():
        out, lse = xops.memory_efficient_attention_forward_requires_grad(q, k, v, attn_bias=bias, scale=p.scale, op=op)
    if out.ndim == 5:
        out, lse = out.flatten(2, 3), lse.flatten(1, 2)
    return out.transpose(1, 2), dead_rows(lse[:, :, : q.shape[1]])


@attnfuzz.target(device="cuda", tiles=(64, 64), errors=TENSOR,
                 domain=attnfuzz.Domain(mask=False, bias="own", causal_with_mask=False, dim=attnfuzz.multiple(8),
                                        seq=attnfuzz.at_least(1), **dict(COMMON, align=None, **ALIGNED, **GRID)))
def cutlass(p, q, k, v, bias=None):
    """xFormers, cutlassF"""
    given = bias
    # queries that see no key; they are known to affect those beside them (pytorch#193632), so only the others
    # are passed
    above = 0
    if p.causal and p.align == "bottom_right" and not attnfuzz.shows_known():
        above = max(p.seq_q - p.seq_k, 0)
        q = q[:, :, above:]
    if p.heads_q == p.heads_kv or attnfuzz.shows_known():
        q, k, v, bias = heads_last(p, q, k, v, bias)
    # It is known to free expanded groups while they are read
    # (docs/found/xformers/xformers-groups-on-streams.py), so each query head gets its own K and V
    else:
        q, k, v, bias = (t if t is None else t.transpose(1, 2) for t in (q, *expanded(p, k, v), bias))
        bias = bias if bias is None else padded(bias.transpose(1, 2))
    if p.causal:
        bias = bias_of.LowerTriangularMask() if p.align == "top_left" else bias_of.LowerTriangularFromBottomRightMask()
    out, lse = call(p, fmha.cutlass.FwOp, q, k, v, bias)
    if above > 0:
        out, lse = F.pad(out, (0, 0, above, 0)), F.pad(lse, (above, 0), value=-math.inf)
    if given is not None and not attnfuzz.shows_known():  # known: the LSE of a row that a bias hides is 0
        lse = lse.masked_fill((given == -math.inf).all(-1), -math.inf)
    return out, lse


def window(p):
    far = p.seq_q + p.seq_k
    left = far if p.window_left < 0 else min(p.window_left, far)
    right = far if p.window_right < 0 else min(p.window_right, far)
    if p.causal:
        return (bias_of.LowerTriangularFromBottomRightMask() if p.window_left < 0 else
                bias_of.LowerTriangularFromBottomRightLocalAttentionMask(left + 1))
    if p.window_left < 0 and p.window_right < 0:
        return None
    return bias_of.LocalAttentionFromBottomRightMask(left, right)


# Known: the right side of a window is cut to the number of keys
# (docs/found/xformers/xformers-window-more-queries-than-keys.py). So the last seq_k queries are called with an open
# right side, and the queries before them with an open left side.
def in_parts(p, q, left, right):
    far, above = p.seq_q + p.seq_k, q.shape[2] - p.seq_k
    if left < 0 and right < 0:
        return [(q, None)]
    if above <= 0 or 0 <= right < p.seq_k:
        return [(q, bias_of.LocalAttentionFromBottomRightMask(*(min(side, far) if side >= 0 else far for side in (left, right))))]
    if right >= 0 and above > 16 * p.seq_k:
        attnfuzz.known("a window of more keys to the right than there are, and many more queries")
    first = in_parts(p, q[:, :, :above], -1, right - p.seq_k if right >= 0 else -1)
    return first + in_parts(p, q[:, :, above:], left, -1)


@attnfuzz.target(device="cuda", tiles=(64, 64), errors=SPLIT,
                 domain=attnfuzz.Domain(bias=False, mask=False, dim=attnfuzz.multiple(8, most=256), equal_dims=True,
                                        seq=attnfuzz.at_least(1), scale=POSITIVE,
                                        **dict(COMMON, align="bottom_right", window=True, **ALIGNED, **GRID)))
def flash(p, q, k, v):
    """xFormers, fa2F: PyTorch's flash, also with windows"""
    lies_as_a_result_can(q)
    if p.heads_q != p.heads_kv and q.stride(1) == 0 and not attnfuzz.shows_known():
        q = q.contiguous()  # known: docs/found/xformers/xformers-grouped-query-stored-once.py
    if p.seq_q > p.seq_k and not p.causal and max(p.window_left, p.window_right) >= 0 and not attnfuzz.shows_known():
        parts = [call(p, fmha.flash.FwOp, *heads_last(p, part, k, v)[:3], mask)
                 for part, mask in in_parts(p, q, p.window_left, p.window_right)]
        return tuple(torch.cat(of, dim=2) for of in zip(*parts))
    q, k, v, _ = heads_last(p, q, k, v)
    return call(p, fmha.flash.FwOp, q, k, v, window(p))


# Partial results are fp32, and at most 64; a score is scaled, then the maximum of scaled scores is taken off.
# A bias is never split.
BIASED = replace(TENSOR, exp="ex2.approx", log="lg2.approx", rcp="approx")
SPLITK = replace(BIASED, partials="fp32", merges=64)
SPLITK_DOMAIN = dict(COMMON, align="bottom_right", mask=False, dim={16, 32, 64, 128, 256}, equal_dims=True,
                     **ALIGNED, **GRID)


# A batch of different lengths is one sequence; what lies beyond a length is padding. If causal, at most 16 queries.
@attnfuzz.target(device="cuda", tiles=(16, 64), errors=SPLITK,
                 compiles=("dtype", "batch", "heads", "seq", "dim", "causal", "key_lengths"),
                 domain=attnfuzz.Domain(bias=False, seq_q=range(1, 17), seq_k=attnfuzz.at_least(1),
                                        **dict(SPLITK_DOMAIN, key_lengths=True)))
def splitk(p, q, k, v, key_lengths=None):
    """xFormers, triton_splitKF, with lengths"""
    q, k, v, _ = heads_last(p, q, k, v)
    if not p.causal and key_lengths is None:
        return call(p, fmha.triton_splitk.FwOp, q, k, v, None)
    lengths = [p.seq_k] * p.batch if key_lengths is None else key_lengths.clamp(0, p.seq_k).tolist()
    kind = bias_of.BlockDiagonalCausalWithOffsetPaddedKeysMask if p.causal else bias_of.BlockDiagonalPaddedKeysMask
    bias = kind.from_seqlens([p.seq_q] * p.batch, p.seq_k, lengths, device=q.device)
    with refusals():
        out, lse = xops.memory_efficient_attention_forward_requires_grad(
            *(t.reshape(1, -1, *t.shape[2:]) for t in (q, k, v)), attn_bias=bias, scale=p.scale, op=fmha.triton_splitk.FwOp)
    out = out.reshape(p.batch, p.seq_q, p.heads_q, p.dim_v).transpose(1, 2)
    if lse.shape[0] != p.batch or p.batch == 1:  # one sequence here too: (1, heads, batch x queries)
        lse = lse.reshape(p.heads_q, p.batch, p.seq_q).transpose(0, 1)
    return out, dead_rows(lse.reshape(p.batch, p.heads_q, -1)[:, :, : p.seq_q])


@attnfuzz.target(device="cuda", tiles=(16, 64), errors=BIASED,
                 compiles=("dtype", "batch", "heads", "seq", "dim", "bias"),
                 domain=attnfuzz.Domain(causal=False, bias="own", seq=attnfuzz.at_least(1), **SPLITK_DOMAIN))
def splitk_bias(p, q, k, v, bias=None):
    """xFormers, triton_splitKF, with a bias"""
    return call(p, fmha.triton_splitk.FwOp, *heads_last(p, q, k, v, bias))


# Blocks have the lengths of packed entries; rows behind the last entry are not passed. It promises no form of its LSE here.
@attnfuzz.target(device="cuda", tiles=(64, 64), errors=TENSOR,
                 domain=attnfuzz.Domain(bias=False, mask=False, gqa=False, lse=False, features=("packed", "int32"),
                                        dim=attnfuzz.multiple(8), seq=attnfuzz.at_least(1),
                                        **dict(COMMON, align="top_left", **ALIGNED, **GRID)))
def block_diagonal(p, q, k, v, cu_seqlens_q=None, cu_seqlens_k=None):
    """xFormers, cutlassF, BlockDiagonalMask and BlockDiagonalCausalMask. Not run yet"""
    q, k, v, cu_q, cu_k = attnfuzz.pack(p, q, k, v, cu_seqlens_q, cu_seqlens_k)
    kind = bias_of.BlockDiagonalCausalMask if p.causal else bias_of.BlockDiagonalMask
    of = kind.from_seqlens(cu_q.diff().tolist(), cu_k.diff().tolist(), device=q.device)
    out = q.new_zeros(len(q), p.heads_q, p.dim_v)
    queries, keys = int(cu_q[-1]), int(cu_k[-1])
    if queries and keys:
        with refusals():
            out[:queries] = xops.memory_efficient_attention_forward(q[None, :queries], k[None, :keys], v[None, :keys], attn_bias=of,
                                                                    scale=p.scale, op=fmha.cutlass.FwOp)[0]
    return attnfuzz.unpack(p, out)
