"""PyTorch's attention over packed sequences, on a GPU: torch.nn.attention.varlen.varlen_attn, and aten's own operators.

Q, K, V and O are (row, head, dim), offsets are int32. Flash has an LSE of (head, row), and its causal order is of the bottom
right. The efficient operator takes (1, row, head, dim); its LSE is (entry, head, position), padded to 32 positions. A dense
side of a problem is packed by attnfuzz.pack().
"""

import inspect
import math

import torch

import attnfuzz
from attnfuzz.targets.torch_sdpa import ALIGNED, COMMON, FLASH, GRID, POSITIVE, TENSOR, refusals

PACKED = dict(bias=False, mask=False, features=("packed", "int32"), dim=attnfuzz.multiple(8), equal_dims=True,
              seq=attnfuzz.at_least(1))


def packed(p, q, k, v, cu_seqlens_q, cu_seqlens_k):
    q, k, v, cu_q, cu_k = attnfuzz.pack(p, q, k, v, cu_seqlens_q, cu_seqlens_k)
    return q, k, v, cu_q.int(), cu_k.int()


def expanded(p, *tensors):
    group = p.heads_q // p.heads_kv
    return tensors if group == 1 else tuple(t.repeat_interleave(group, dim=1) for t in tensors)


@attnfuzz.target(device="cuda", tiles=(64, 64), errors=FLASH,
                 domain=attnfuzz.Domain(scale=POSITIVE, lse_dead="+inf",
                                        **dict(COMMON, align="bottom_right", window=True, **PACKED, **ALIGNED, **GRID)))
def flash(p, q, k, v, cu_seqlens_q=None, cu_seqlens_k=None):
    """aten._flash_attention_forward with cum_seq_q and cum_seq_k"""
    q, k, v, cu_q, cu_k = packed(p, q, k, v, cu_seqlens_q, cu_seqlens_k)
    if p.seq_q == 1 and p.heads_q != p.heads_kv and not (len(q) == p.batch and (cu_q.diff() == 1).all()):
        attnfuzz.known("grouped heads and one query at most, where not each row is an entry (docs/found/pytorch/flash/flash-entry-without-query.py)")
    far = p.seq_q + p.seq_k
    left, right = (min(side, far) if side >= 0 else None for side in (p.window_left, p.window_right))
    # Known: if the right side is the number of keys, the operator takes it for open. If the right side is
    # open and the left side is not, the operator takes the number of keys for it
    # (docs/found/xformers/xformers-window-more-queries-than-keys.py).
    window = left is not None or right is not None
    if window and not p.causal and (right is None or right >= p.seq_k) and p.seq_q > p.seq_k:
        attnfuzz.known("a window whose right side is open or as long as the keys, and more queries than keys")
    with refusals():
        out, lse, *_ = torch.ops.aten._flash_attention_forward(
            q, k, v, cu_q, cu_k, p.seq_q, p.seq_k, 0.0, p.causal, False, scale=p.scale, window_size_left=left,
            window_size_right=None if p.causal else right)
    return attnfuzz.unpack(p, out, lse)


@attnfuzz.target(device="cuda", tiles=(64, 64), errors=FLASH,
                 domain=attnfuzz.Domain(scale=False, lse_dead="+inf",
                                        **dict(COMMON, align="bottom_right", **PACKED, **ALIGNED, **GRID)))
def varlen(p, q, k, v, cu_seqlens_q=None, cu_seqlens_k=None):
    """torch.nn.attention.varlen.varlen_attn"""
    from torch.nn.attention.varlen import AuxRequest, varlen_attn

    q, k, v, cu_q, cu_k = packed(p, q, k, v, cu_seqlens_q, cu_seqlens_k)
    takes = inspect.signature(varlen_attn).parameters
    # torch 2.10 has is_causal; later versions have a window instead.
    how = {"is_causal": p.causal} if "is_causal" in takes else {"window_size": (-1, 0 if p.causal else -1)}
    if "enable_gqa" in takes:
        how["enable_gqa"] = p.heads_q != p.heads_kv
    else:
        k, v = expanded(p, k, v)
    with refusals():
        out, lse = varlen_attn(q, k, v, cu_q, cu_k, p.seq_q, p.seq_k, return_aux=AuxRequest(lse=True), **how)
    return attnfuzz.unpack(p, out, lse)


@attnfuzz.target(device="cuda", tiles=(64, 64), errors=TENSOR,
                 domain=attnfuzz.Domain(lse_dead="any", **dict(COMMON, align=None, **dict(PACKED, equal_dims=False), **ALIGNED, **GRID)))
def efficient(p, q, k, v, cu_seqlens_q=None, cu_seqlens_k=None):
    """aten._efficient_attention_forward with cu_seqlens_q and cu_seqlens_k"""
    q, k, v, cu_q, cu_k = packed(p, q, k, v, cu_seqlens_q, cu_seqlens_k)
    k, v = expanded(p, k, v)
    lengths = list(zip(*(cu.diff().tolist() for cu in (cu_q, cu_k))))
    if max(p.dim_qk, p.dim_v) > 128 and any(queries and not keys for queries, keys in lengths):
        attnfuzz.known("an entry without keys and more than 128 columns (docs/found/pytorch/efficient/efficient-entry-without-keys.py)")
    if p.causal and p.align == "bottom_right" and any(queries > keys for queries, keys in lengths):
        attnfuzz.known("a diagonal of the bottom right and more queries than keys: the first queries see no key, and see some here")
    kind = 0 if not p.causal else 1 if p.align == "top_left" else 2
    with refusals():
        out, lse, *_ = torch.ops.aten._efficient_attention_forward(
            *(t[None] for t in (q, k, v)), None, cu_q, cu_k, p.seq_q, p.seq_k, 0.0, kind, True, scale=p.scale)
    rows = lse.new_full((p.heads_q, q.shape[0]), math.nan)
    for b, (first, end) in enumerate(zip(cu_q.tolist(), cu_q.tolist()[1:])):
        rows[:, first:end] = lse[b, :, : end - first]
    # The LSE of a row that sees no key is +inf, or 0 if its entry has no keys at all.
    return attnfuzz.unpack(p, out[0], rows)
