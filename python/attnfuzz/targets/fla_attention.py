"""Attention over listed blocks of flash-linear-attention (fla), in Triton: native sparse attention's selected branch,
and its backward pass.

Tensors are (batch, position, head, dim), and a group of heads is a power of two from 16 on. It is always causal, of the bottom
right. fla expects that a list names no block twice and names the query's own block, so this target removes repeats and masks
queries that see no key. Packed sequences are a batch of one. Their numbers of queries and keys may differ in the forward pass
but not in fla's backward pass, so selected_backward takes no packed sequences.
"""

from dataclasses import replace

import torch

import attnfuzz
from attnfuzz.asleep import asleep
from attnfuzz.targets.triton_attention import INTERPRETED

with asleep():
    from fla.ops.nsa.parallel import parallel_nsa_bwd, parallel_nsa_fwd, prepare_token_indices

ERRORS = attnfuzz.Errors(accumulator="tensor", p="input", exp="fast_expf", log="fast_logf", rcp="approx", scale="folded_q")
HERE = dict(device="cpu" if INTERPRETED else "cuda", arrays="torch", tiles=(1, 64))
DOMAIN = dict(dtypes="f16" if INTERPRETED else ("f16", "bf16"), causal="only", align="bottom_right", group={16, 32, 64},
              dim={32, 64, 128}, window=False, equal_lengths=True, softcap=False, key_lengths=False, seq=attnfuzz.at_least(1),
              features=("int32",))


def usual_lists(indices):
    """The lists with -1 in place of a block that is named again."""
    ordered, places = indices.sort(-1)
    again = torch.nn.functional.pad(ordered[..., 1:] == ordered[..., :-1], (1, 0))
    return torch.where(again.gather(-1, places.argsort(-1)), -1, indices)


def refuse_blocks(p):
    if p.block not in (16, 32, 64, 128):
        raise attnfuzz.Unsupported("blocks of other sizes than 16, 32, 64 and 128")


def usual(p, indices, *tensors):
    """Lists and tensors in the library's order of dimensions."""
    refuse_blocks(p)
    return [t.transpose(1, 2).contiguous() for t in (usual_lists(indices), *tensors)]


@attnfuzz.target(operation="selected", **HERE, errors=ERRORS, compiles=("dtype", "heads", "dim"), domain=attnfuzz.Domain(**DOMAIN))
def selected(p, q, k, v, indices):
    """fla, parallel_nsa_fwd"""
    lists, q, k, v = usual(p, indices, q, k, v)
    with attnfuzz.compiling():
        o, lse = parallel_nsa_fwd(q, k, v, lists, p.select, p.block, p.scale)
    o, lse = o.transpose(1, 2), lse.transpose(1, 2)
    # fla expects that the own block is listed, so for a query that sees no key it computes 0 / 0.
    dead = lse == -torch.inf
    return o.masked_fill(dead[..., None], 0), lse


PACKED = {**DOMAIN, "equal_lengths": False, "features": ("packed", "int32")}


@attnfuzz.target(operation="selected", **HERE, errors=ERRORS, compiles=("dtype", "heads", "dim"), domain=attnfuzz.Domain(**PACKED))
def selected_packed(p, q, k, v, indices, cu_seqlens_q=None, cu_seqlens_k=None):
    """fla, parallel_nsa_fwd with cu_seqlens"""
    refuse_blocks(p)
    lists = usual_lists(indices if cu_seqlens_q is not None else indices.transpose(1, 2).flatten(0, 1))
    q, k, v, cu_q, cu_k = attnfuzz.pack(p, q, k, v, cu_seqlens_q, cu_seqlens_k)
    o, lse = q.new_zeros(*q.shape[:2], p.dim_v), q.new_zeros(p.heads_q, len(q), dtype=torch.float32)
    rows = int(cu_q[-1])  # fla takes each row of Q for one of a sequence, so the rows after the last sequence are left out
    if rows:
        with attnfuzz.compiling():
            of_rows, its_lse = parallel_nsa_fwd(q[None, :rows], k[None], v[None], lists[None, :rows], p.select, p.block, p.scale,
                                                cu_seqlens_q=cu_q, cu_seqlens_k=cu_k, token_indices_q=prepare_token_indices(cu_q))
        lse[:, :rows] = its_lse[0].T
        o[:rows] = of_rows[0].masked_fill(its_lse[0, ..., None] == -torch.inf, 0)
    return attnfuzz.unpack(p, o, lse)


# dK sums products of two rounded numbers, dS and the scaled Q. These two roundings are as large as one faithful
# conversion. No class covers a scaled Q that is subnormal in fp16, so a GPU gets bf16.
@attnfuzz.target(operation="selected_backward", **HERE, compiles=("dtype", "batch", "heads", "seq", "dim"),
                 errors=replace(ERRORS, ds="input", heads="fp32", conversion="faithful"),
                 domain=attnfuzz.Domain(**dict(DOMAIN, dtypes="f16" if INTERPRETED else "bf16")))
def selected_backward(p, q, k, v, indices, dout, o, lse):
    """fla, parallel_nsa_bwd"""
    lists, q, k, v, dout, o, lse = usual(p, indices, q, k, v, dout, o, lse)
    size = 1 << (p.select - 1).bit_length()  # of a list: the next power of two
    lists = torch.nn.functional.pad(lists, (0, size - p.select), value=-1)
    with attnfuzz.compiling():
        return tuple(t.transpose(1, 2) for t in parallel_nsa_bwd(q, k, v, o, lse, dout, lists, size, p.block, p.scale))
