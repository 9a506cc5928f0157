"""FlashInfer's attention with a block-sparse mask, on a GPU. A query is a block of one row, and lists blocks of keys.

`block_sparse` makes one plan for each batch entry and KV head, because all heads of a plan have the same blocks. Q, K,
V and O are (position, head, dim); the LSE is (position, head), of base 2. FlashInfer's lists name each block once and have no
-1; rows_of_lists() makes them so. The number of keys is a multiple of the block. Nothing is causal, because FlashInfer
would apply causal order to positions among the listed keys.
"""

from dataclasses import replace

import torch

import attnfuzz
from attnfuzz.asleep import asleep
from attnfuzz.targets.flashinfer_attention import FA2, contiguous, refusals
from attnfuzz.targets.flashinfer_batch import DIM, wrapper
from attnfuzz.targets.torch_sdpa import ALIGNED, POSITIVE

with asleep():
    import flashinfer


def rows_of_lists(p, lists):
    """The lists (position, select) as the rows of a sparse matrix: where each begins, and the numbers of its blocks."""
    blocks = p.seq_k // p.block
    at = torch.where((lists >= 0) & (lists < blocks), lists, blocks).long()
    named = torch.zeros((p.seq_q, blocks + 1), dtype=torch.bool, device=lists.device).scatter_(1, at, True)[:, :blocks]
    return torch.nn.functional.pad(named.sum(1).cumsum(0), (1, 0)).int(), named.nonzero()[:, 1].int()


def one_head(p, call, q, k, v, lists):
    """O (position, head, dim) and the LSE (position, head) of one KV head of one batch entry."""
    call.plan(*rows_of_lists(p, lists), p.seq_q, p.seq_k, 1, p.block, p.heads_q // p.heads_kv, 1, p.dim_qk, sm_scale=p.scale,
              logits_soft_cap=p.softcap or None, q_data_type=q.dtype, o_data_type=q.dtype)
    return call.run(*(contiguous(t.transpose(0, 1)) for t in (q, k, v)), return_lse=True)


# FlashInfer uses its decode kernels for groups of fewer than four query heads, and else its prefill kernels. The target
# declares the looser error classes of the two. The prefill's LSE sums rounded probabilities, which is a known failure
# (docs/found/flashinfer/flashinfer-lse-of-rounded-sums.py), so the LSE is asked for only with known failures.
@attnfuzz.target(operation="selected", device="cuda", tiles=(1, 64), errors=replace(FA2, scale="separate_fma"),
                 compiles=("dtype", "heads", "dim"),
                 domain=attnfuzz.Domain(features=("int32",), dtypes=("f16",), dim={DIM}, equal_dims=True,
                                        causal=False, key_lengths=False, batch=attnfuzz.at_least(1), seq=attnfuzz.at_least(1),
                                        scale=POSITIVE, lse_base=2, lse=attnfuzz.shows_known(), non_finite=False, **ALIGNED))
def block_sparse(p, q, k, v, indices):
    """FlashInfer, BlockSparseAttentionWrapper, fa2. Not run yet"""
    if p.seq_k % p.block:
        raise attnfuzz.Unsupported("an incomplete last block")
    call, group = wrapper(flashinfer.BlockSparseAttentionWrapper, backend="fa2"), p.heads_q // p.heads_kv
    o, lse = torch.empty_like(q, memory_format=torch.contiguous_format), q.new_empty(q.shape[:3], dtype=torch.float32)
    with refusals(), attnfuzz.compiling():
        for b in range(p.batch):
            for g in range(p.heads_kv):
                heads = slice(g * group, (g + 1) * group)
                own, own_lse = one_head(p, call, q[b, heads], k[b, g : g + 1], v[b, g : g + 1], indices[b, g])
                o[b, heads], lse[b, heads] = own.transpose(0, 1), own_lse.transpose(0, 1)
    return o, lse
