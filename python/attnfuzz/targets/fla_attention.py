"""Attention over listed blocks of flash-linear-attention (fla), in Triton: native sparse attention's selected branch.

Tensors are (batch, position, head, dim), and a group of heads is a power of two from 16 on. It is always causal, of the bottom
right. A list names no block twice, and each query sees a key: its own block is always listed. Importing fla creates a CUDA
context, which needs ATTNFUZZ_IMPORT_LATE=1.
"""

import torch

import attnfuzz
from attnfuzz.asleep import asleep
from attnfuzz.targets.triton_attention import INTERPRETED

with asleep():
    from fla.ops.nsa.parallel import parallel_nsa_fwd

ERRORS = attnfuzz.Errors(accumulator="tensor", p="input", exp="fast_expf", log="fast_logf", rcp="approx", scale="folded_q")


def usual_lists(indices):
    """The lists with -1 in place of a block that is named again."""
    ordered, places = indices.sort(-1)
    again = torch.nn.functional.pad(ordered[..., 1:] == ordered[..., :-1], (1, 0))
    return torch.where(again.gather(-1, places.argsort(-1)), -1, indices)


@attnfuzz.target(operation="selected", device="cpu" if INTERPRETED else "cuda", arrays="torch", tiles=(1, 64), errors=ERRORS,
                 compiles=("dtype", "heads", "dim"),
                 domain=attnfuzz.Domain(dtypes="f16" if INTERPRETED else ("f16", "bf16"), causal="only", align="bottom_right",
                                        group={16, 32, 64}, dim={32, 64, 128}, window=False, equal_lengths=True,
                                        softcap=False, key_lengths=False, seq=attnfuzz.at_least(1), features=("int32",)))
def selected(p, q, k, v, indices):
    """fla, parallel_nsa_fwd"""
    if p.block not in (16, 32, 64, 128):
        raise attnfuzz.Unsupported("blocks of other sizes than 16, 32, 64 and 128")
    q, k, v, lists = (t.transpose(1, 2).contiguous() for t in (q, k, v, usual_lists(indices)))
    with attnfuzz.compiling():
        o, lse = parallel_nsa_fwd(q, k, v, lists, p.select, p.block, p.scale)
    o, lse = o.transpose(1, 2), lse.transpose(1, 2)
    # A query that sees no key gets 0 / 0: the library lists its own block.
    dead = lse == -torch.inf
    return o.masked_fill(dead[..., None], 0), lse
