"""Attention over listed blocks in Triton: a small kernel that gathers the listed keys.

One program computes one query of one KV head, for all query heads of its group. It numbers the keys of a list: number n is
key n % block of the list's block n // block. So blocks may have any size, and -1 and names may stand in any order.

It runs on a GPU; with TRITON_INTERPRET=1 on the CPU, in f16 only, as triton_attention.py does.
"""

import torch
import triton
import triton.language as tl

import attnfuzz
from attnfuzz.targets.triton_attention import INTERPRETED

BLOCK_K = 64 if INTERPRETED else 32
NUMBERS = ("heads_kv", "group", "seq_q", "seq_k", "dim_qk", "dim_v", "causal", "bottom_right", "block", "select", "scale_log2")
MOST_LISTED = 512  # a program holds its list, and compares each name with all of it
POINTERS = ("q", "k", "v", "o", "lse", "indices", "lengths", "strides")


@triton.jit
def head_of(pointer, strides, tensor: tl.constexpr, b, h):
    """The first row of a head, and the strides of rows and columns."""
    at = strides + 4 * tensor
    return pointer + b * tl.load(at) + h * tl.load(at + 1), tl.load(at + 2), tl.load(at + 3)


@triton.jit(do_not_specialize=NUMBERS + POINTERS, do_not_specialize_on_alignment=POINTERS)
def forward(q, k, v, o, lse, indices, lengths, strides,
            heads_kv: tl.int64, group: tl.int64, seq_q: tl.int64, seq_k: tl.int64, dim_qk: tl.int64, dim_v: tl.int64,
            causal: tl.int64, bottom_right: tl.int64, block: tl.int64, select: tl.int64, scale_log2: tl.float32,
            SELECT: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_K: tl.constexpr):
    """strides: of q, k, v, o, lse and indices, four each, in elements."""
    i = tl.program_id(0) % seq_q
    g = (tl.program_id(0) // seq_q) % heads_kv
    b = tl.program_id(0) // seq_q // heads_kv
    heads = tl.arange(0, BLOCK_H).to(tl.int64)
    dims = tl.arange(0, BLOCK_D).to(tl.int64)[None, :]
    in_group = heads < group
    in_k, in_v = dims < dim_qk, dims < dim_v
    q_at, q_row, q_column = head_of(q, strides, 0, b, g * group + heads)
    k_at, k_row, k_column = head_of(k, strides, 1, b, g)
    v_at, v_row, v_column = head_of(v, strides, 2, b, g)
    o_at, o_row, o_column = head_of(o, strides, 3, b, g * group + heads)
    lse_at, lse_row, _ = head_of(lse, strides, 4, b, g * group + heads)
    list_at, list_row, list_column = head_of(indices, strides, 5, b, g)
    list_at += i * list_row
    queries = tl.load((q_at + i * q_row)[:, None] + dims * q_column, mask=in_group[:, None] & in_k, other=0.0)
    end = tl.minimum(tl.maximum(tl.load(lengths + b), 0), seq_k)
    if causal != 0:
        end = tl.minimum(end, i + bottom_right * (end - seq_q) + 1)
    all_places = tl.arange(0, SELECT)
    all_names = tl.load(list_at + all_places * list_column, mask=all_places < select, other=-1)

    row_max = tl.full([BLOCK_H], float("-inf"), tl.float32)
    row_sum = tl.zeros([BLOCK_H], tl.float32)
    acc = tl.zeros([BLOCK_H, BLOCK_D], tl.float32)
    for begin in range(0, select * block, BLOCK_K):
        numbers = begin + tl.arange(0, BLOCK_K)
        places = numbers // block
        names = tl.load(list_at + places * list_column, mask=places < select, other=-1).to(tl.int64)
        earlier = (all_names[None, :] == names[:, None]) & (all_places[None, :] < places[:, None])
        keys = names * block + numbers % block
        seen = (names >= 0) & (keys < end) & (tl.sum(earlier.to(tl.int32), 1) == 0)
        k_tile = tl.load(k_at + keys[:, None] * k_row + dims * k_column, mask=seen[:, None] & in_k, other=0.0)
        scores = tl.where(seen[None, :], tl.dot(queries, k_tile.trans()) * scale_log2, float("-inf"))
        new_max = tl.maximum(row_max, tl.max(scores, 1))
        shown_max = tl.where(new_max == float("-inf"), 0.0, new_max)
        probs = tl.exp2(scores - shown_max[:, None])
        rescale = tl.exp2(row_max - shown_max)
        row_sum = row_sum * rescale + tl.sum(probs, 1)
        v_tile = tl.load(v_at + keys[:, None] * v_row + dims * v_column, mask=seen[:, None] & in_v, other=0.0)
        acc = acc * rescale[:, None] + tl.dot(probs.to(v_tile.dtype), v_tile)
        row_max = new_max

    # A maximum ignores NaN; the sum does not.
    dead = (row_max == float("-inf")) & (row_sum == 0)
    acc = tl.where(dead[:, None], 0.0, acc / row_sum[:, None])
    tl.store((o_at + i * o_row)[:, None] + dims * o_column, acc.to(o.dtype.element_ty), mask=in_group[:, None] & in_v)
    tl.store(lse_at + i * lse_row, tl.where(dead, float("-inf"), (row_max + tl.log2(row_sum)) * 0.6931471805599453),
             mask=in_group)


def launch(p, q, k, v, indices, key_lengths=None):
    if p.select > MOST_LISTED:
        raise attnfuzz.Unsupported(f"a list of more than {MOST_LISTED} entries")
    out = torch.empty((p.batch, p.heads_q, p.seq_q, p.dim_v), dtype=q.dtype, device=q.device)
    lse = torch.empty((p.batch, p.heads_q, p.seq_q, 1), dtype=torch.float32, device=q.device)
    if lse.numel() == 0:
        return out, lse[..., 0]
    lengths = torch.full((p.batch,), p.seq_k, device=q.device) if key_lengths is None else key_lengths
    strides = torch.tensor([s for t in (q, k, v, out, lse, indices) for s in t.stride()], dtype=torch.int64).to(q.device)
    group = p.heads_q // p.heads_kv
    with attnfuzz.compiling():
        forward[(p.batch * p.heads_kv * p.seq_q,)](
            q, k, v, out, lse, indices, lengths, strides, p.heads_kv, group, p.seq_q, p.seq_k, p.dim_qk, p.dim_v,
            int(p.causal), int(p.align == "bottom_right"), p.block, p.select, p.scale * 1.4426950408889634,
            SELECT=triton.next_power_of_2(p.select), BLOCK_H=max(16, triton.next_power_of_2(group)),
            BLOCK_D=max(16, triton.next_power_of_2(max(p.dim_qk, p.dim_v))), BLOCK_K=BLOCK_K)
    return out, lse[..., 0]


@attnfuzz.target(operation="selected", device="cpu" if INTERPRETED else "cuda", arrays="torch", tiles=(1, BLOCK_K),
                 errors=attnfuzz.Errors(accumulator="tensor", p="input", exp="ex2.approx", log="lg2.approx", rcp="approx",
                                        scale="fused"),
                 compiles=() if INTERPRETED else ("dtype", "heads", "dim"),
                 domain=attnfuzz.Domain(dtypes=("f16",) if INTERPRETED else ("f16", "bf16"), softcap=False, features=("int32",)))
def selected(p, q, k, v, indices, key_lengths=None):
    """attention over listed blocks in Triton"""
    return launch(p, q, k, v, indices, key_lengths)
