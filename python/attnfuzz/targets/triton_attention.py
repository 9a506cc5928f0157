"""A forward pass in Triton with everything that a case may have, and a template for a file of your own kernels.

It runs on a GPU; with TRITON_INTERPRET=1 on the CPU, in Triton's interpreter. The interpreter's products of bf16 differ from
a GPU's, so it takes only f16. Numbers are passed as 64 bits without specialising on their values, so that what is
compiled depends only on the formats, the block of dims, bias and mask.

No convention differs: the LSE is converted from base 2 in the kernel.
"""

import os

import torch
import triton
import triton.language as tl

import attnfuzz

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
BLOCK_Q, BLOCK_K = (16, 16) if INTERPRETED else (64, 32)
NUMBERS = ("heads_q", "group", "seq_q", "seq_k", "dim_qk", "dim_v", "left", "right", "bottom_right", "scale_log2",
           "softcap")
POINTERS = ("q", "k", "v", "o", "lse", "bias", "mask", "lengths", "strides")


@triton.jit
def rows_of(strides, tensor: tl.constexpr, b, h, i):
    at = strides + 4 * tensor
    return b * tl.load(at) + h * tl.load(at + 1) + i.to(tl.int64) * tl.load(at + 2)


@triton.jit(do_not_specialize=NUMBERS + POINTERS, do_not_specialize_on_alignment=POINTERS)
def forward(q, k, v, o, lse, bias, mask, lengths, strides,
            heads_q: tl.int64, group: tl.int64, seq_q: tl.int64, seq_k: tl.int64, dim_qk: tl.int64, dim_v: tl.int64,
            left: tl.int64, right: tl.int64, bottom_right: tl.int64, scale_log2: tl.float32, softcap: tl.float32,
            HAS_BIAS: tl.constexpr, HAS_MASK: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_Q: tl.constexpr,
            BLOCK_K: tl.constexpr):
    """One block of queries of one head. strides: of q, k, v, o, lse, bias and mask, four each, in elements."""
    tiles = (seq_q + BLOCK_Q - 1) // BLOCK_Q
    tile = tl.program_id(0) % tiles
    head = (tl.program_id(0) // tiles) % heads_q
    b = tl.program_id(0) // tiles // heads_q
    rows = tile * BLOCK_Q + tl.arange(0, BLOCK_Q)
    dims = tl.arange(0, BLOCK_D).to(tl.int64)
    in_rows = rows < seq_q
    queries = tl.load(q + rows_of(strides, 0, b, head, rows)[:, None] + dims[None, :] * tl.load(strides + 3),
                      mask=in_rows[:, None] & (dims[None, :] < dim_qk), other=0.0)

    length = tl.minimum(tl.maximum(tl.load(lengths + b), 0), seq_k)
    shift = bottom_right * (length - seq_q)
    first = tl.maximum(tile * BLOCK_Q + shift - left, 0) // BLOCK_K * BLOCK_K
    last = tl.minimum(tl.minimum(tile * BLOCK_Q + BLOCK_Q, seq_q) + shift + right, length)

    row_max = tl.full([BLOCK_Q], float("-inf"), tl.float32)
    row_sum = tl.zeros([BLOCK_Q], tl.float32)
    acc = tl.zeros([BLOCK_Q, BLOCK_D], tl.float32)
    for begin in range(first, last, BLOCK_K):
        keys = begin + tl.arange(0, BLOCK_K)
        in_keys = keys < length
        k_tile = tl.load(k + rows_of(strides, 1, b, head // group, keys)[None, :] + dims[:, None] * tl.load(strides + 7),
                         mask=in_keys[None, :] & (dims[:, None] < dim_qk), other=0.0)
        scores = tl.dot(queries, k_tile) * scale_log2
        if softcap != 0:
            x = scores * (0.6931471805599453 / softcap)
            # For small numbers, 1 - 1 leaves no accurate tanh, so a series is used.
            tanh = tl.where(tl.abs(x) < 0.05, x - x * x * x / 3, 2 / (1 + tl.exp(-2 * x)) - 1)
            scores = tanh * (softcap * 1.4426950408889634)
        offset = keys[None, :] - rows[:, None] - shift
        seen = in_keys[None, :] & in_rows[:, None] & (offset <= right) & (offset >= -left)
        if HAS_BIAS:
            at = rows_of(strides, 5, b, head, rows)[:, None] + keys[None, :].to(tl.int64) * tl.load(strides + 23)
            added = tl.load(bias + at, mask=seen, other=0.0).to(tl.float32)
            seen = seen & (added != float("-inf"))  # even beside a score of +inf
            scores += added * 1.4426950408889634
        if HAS_MASK:
            at = rows_of(strides, 6, b, head, rows)[:, None] + keys[None, :].to(tl.int64) * tl.load(strides + 27)
            seen = seen & (tl.load(mask + at, mask=seen, other=0) != 0)
        scores = tl.where(seen, scores, float("-inf"))
        new_max = tl.maximum(row_max, tl.max(scores, 1))
        shown_max = tl.where(new_max == float("-inf"), 0.0, new_max)
        probs = tl.exp2(scores - shown_max[:, None])
        rescale = tl.exp2(row_max - shown_max)
        row_sum = row_sum * rescale + tl.sum(probs, 1)
        acc = acc * rescale[:, None]
        v_tile = tl.load(v + rows_of(strides, 2, b, head // group, keys)[:, None] + dims[None, :] * tl.load(strides + 11),
                         mask=in_keys[:, None] & (dims[None, :] < dim_v), other=0.0)
        acc += tl.dot(probs.to(v_tile.dtype), v_tile)
        row_max = new_max

    # A maximum ignores NaN; the sum does not.
    dead = (row_max == float("-inf")) & (row_sum == 0)
    acc = tl.where(dead[:, None], 0.0, acc / row_sum[:, None])
    tl.store(o + rows_of(strides, 3, b, head, rows)[:, None] + dims[None, :] * tl.load(strides + 15),
             acc.to(o.dtype.element_ty), mask=in_rows[:, None] & (dims[None, :] < dim_v))
    tl.store(lse + rows_of(strides, 4, b, head, rows),
             tl.where(dead, float("-inf"), (row_max + tl.log2(row_sum)) * 0.6931471805599453), mask=in_rows)


def launch(p, q, k, v, bias=None, mask=None, key_lengths=None):
    out = torch.empty((p.batch, p.heads_q, p.seq_q, p.dim_v), dtype=q.dtype, device=q.device)
    lse = torch.empty((p.batch, p.heads_q, p.seq_q, 1), dtype=torch.float32, device=q.device)
    if out.numel() == 0:
        return out, lse[..., 0]
    lengths = torch.full((p.batch,), p.seq_k, device=q.device) if key_lengths is None else key_lengths
    mask = mask if mask is None else mask.view(torch.uint8)
    given = [q, k, v, out, lse, q if bias is None else bias, q if mask is None else mask]
    strides = torch.tensor([s for t in given for s in t.stride()], dtype=torch.int64).to(q.device)
    far = p.seq_q + p.seq_k + 1
    right = 0 if p.causal else far
    if p.window_right >= 0:
        right = min(right, p.window_right)
    left = far if p.window_left < 0 else min(p.window_left, far)
    grid = (triton.cdiv(p.seq_q, BLOCK_Q) * p.heads_q * p.batch,)
    forward[grid](q, k, v, out, lse, bias, mask, lengths, strides, p.heads_q, p.heads_q // p.heads_kv, p.seq_q, p.seq_k,
                  p.dim_qk, p.dim_v, left, right, int(p.align == "bottom_right"), p.scale * 1.4426950408889634,
                  p.softcap, HAS_BIAS=bias is not None, HAS_MASK=mask is not None,
                  BLOCK_D=max(16, triton.next_power_of_2(max(p.dim_qk, p.dim_v))), BLOCK_Q=BLOCK_Q, BLOCK_K=BLOCK_K)
    return out, lse[..., 0]


@attnfuzz.target(device="cpu" if INTERPRETED else "cuda", arrays="torch", tiles=(BLOCK_Q, BLOCK_K),
                 errors=attnfuzz.Errors(accumulator="tensor", p="input", exp="ex2.approx", log="lg2.approx",
                                        rcp="approx", tanh="approx", scale="fused",
                                        p_order="unnormalised"),
                 compiles=() if INTERPRETED else ("dtype", "dim", "bias", "mask"),
                 domain=attnfuzz.Domain(dtypes=("f16",) if INTERPRETED else ("f16", "bf16")))
def attention(p, q, k, v, bias=None, mask=None, key_lengths=None):
    """a forward pass in Triton"""
    return launch(p, q, k, v, bias, mask, key_lengths)
