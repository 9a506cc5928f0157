"""Attention over listed blocks with FlexAttention: lists become a BlockMask. Its LSE is natural, and a row that sees no
key has O = 0.

A BlockMask has one list for TILE queries, so a tile lists each block that one of its queries lists. A mask_mod then hides
the blocks that a query itself does not list.

`selected` is compiled, on a GPU, for blocks of 16, 32, 64 and 128 keys. `selected_eager` runs on the CPU without
compilation, for all blocks: it multiplies everything, and only the mask_mod counts there. It is not compiled, because
the C++ that torch 2.11 writes for dynamic sizes does not compile.
"""

import torch
from torch.nn.attention.flex_attention import BlockMask, flex_attention

import attnfuzz
from attnfuzz.targets import flex

torch.set_num_threads(1)  # workers are forked after this import, and a fork loses other threads

TILE = 128


def named_blocks(p, indices):
    """(batch, KV heads, position, block): True if the query's list names the block."""
    blocks = -(-p.seq_k // p.block)
    at = torch.where((indices >= 0) & (indices < blocks), indices, blocks).long()
    named = torch.zeros((*at.shape[:3], blocks + 1), dtype=torch.bool, device=at.device)
    return named.scatter_(-1, at, True)[..., :blocks]


def lists_of_tiles(p, named):
    """How many blocks each tile of queries lists, and which, for each query head. The named ones come first."""
    tiles = -(-p.seq_q // TILE)
    named = torch.nn.functional.pad(named, (0, 0, 0, tiles * TILE - p.seq_q))
    named = named.unflatten(2, (tiles, TILE)).any(3).repeat_interleave(p.heads_q // p.heads_kv, dim=1)
    return named.sum(-1, dtype=torch.int32), named.int().argsort(dim=-1, descending=True, stable=True).int()


def block_mask(p, indices):
    named, group, block = named_blocks(p, indices), p.heads_q // p.heads_kv, p.block
    diagonal = p.seq_k - p.seq_q if p.align == "bottom_right" else 0

    def seen(b, h, i, j):
        return named[b, h // group, i, j // block]

    def seen_causal(b, h, i, j):
        return seen(b, h, i, j) & (j <= i + diagonal)

    return BlockMask.from_kv_blocks(*lists_of_tiles(p, named), BLOCK_SIZE=(TILE, block), seq_lengths=(p.seq_q, p.seq_k),
                                    mask_mod=seen_causal if p.causal else seen)


def attend(call, p, q, k, v, indices, **more):
    return call(q, k, v, block_mask=block_mask(p, indices), scale=p.scale, enable_gqa=p.heads_q != p.heads_kv, **more)


def check_block(p, sizes):
    if p.block not in sizes:
        raise attnfuzz.Unsupported(f"blocks of other sizes than {', '.join(map(str, sizes))}")


# Keys beyond a length may hold NaN, and FlexAttention multiplies hidden values by 0.
LISTS = dict(softcap=False, key_lengths=False, non_finite=False, batch=attnfuzz.at_least(1), seq=attnfuzz.at_least(1))


@attnfuzz.target(operation="selected", device="cuda", tiles=(128, 128), errors=flex.ERRORS, compiles=("dtype", "dim", "causal"),
                 domain=attnfuzz.Domain(**dict(LISTS, dtypes=("bf16",), dim={64}, equal_dims=True, batch=range(2, 65536),
                                               heads_q=attnfuzz.at_least(2), seq=range(129, 1025), features=("int32",))))
def selected(p, q, k, v, indices):
    """FlexAttention over listed blocks, compiled"""
    check_block(p, (16, 32, 64, 128))
    q, k, v = map(flex.near, (q, k, v))
    with attnfuzz.compiling():
        return attend(flex.compiled(), p, q, k, v, indices, return_lse=True,
                      kernel_options={"BLOCK_M": 64, "BLOCK_N": min(p.block, 64)})


@attnfuzz.target(operation="selected", arrays="torch", errors=attnfuzz.Errors(accumulator="ffma", p="input", scale="separate"),
                 domain=attnfuzz.Domain(features=("int32",), dtypes=("f16", "bf16", "f32"), **LISTS))
def selected_eager(p, q, k, v, indices):
    """FlexAttention over listed blocks, not compiled"""
    with torch.no_grad():
        return attend(flex_attention, p, q, k, v, indices, return_lse=True)
