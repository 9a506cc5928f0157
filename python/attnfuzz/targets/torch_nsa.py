"""The stage of native sparse attention that scores blocks and chooses blocks by the scores, in PyTorch's plain operators.
topk makes the lists. `nsa_score` runs on the CPU, `nsa_score_cuda` on a GPU.
"""

import math

import torch

import attnfuzz
from attnfuzz.masks import block_shares, candidates, visible

torch.set_num_threads(1)  # workers are forked after this import, and a fork loses other threads

ERRORS = attnfuzz.Errors(accumulator="ffma", p="fp32", exp="expf", log="logf", rcp="exact", scale="separate")
DOMAIN = attnfuzz.Domain(dtypes=("f16", "bf16", "f32"), features=("int32",))


def score(p, q, k, lse, key_lengths=None):
    """scores of blocks, and the choice by them, in plain operators of PyTorch"""
    lengths = None if key_lengths is None else key_lengths.cpu().numpy()
    group, on = p.heads_q // p.heads_kv, lambda array: torch.from_numpy(array).to(q.device)
    keys = k.float().repeat_interleave(group, dim=1)
    weights = torch.exp(q.float() @ keys.transpose(2, 3) * p.scale - lse[..., None])
    seen = visible(p, lengths)
    if seen is not None:
        weights = weights.masked_fill(~on(seen), 0.0)
    scores = weights.unflatten(1, (p.heads_kv, group)).sum(2) @ on(block_shares(p))
    return choose(p, scores, on(candidates(p, lengths))[..., None]), scores


def choose(p, scores, count):
    """Lists by topk. Blocks that are no candidates rank below all others, and those that are always chosen above them."""
    block = torch.arange(p.blocks, device=scores.device)
    forced = (block < p.select_first) | (block >= count - p.select_last)
    rank = scores.nan_to_num(0.0).clamp(0.0, 1e38).masked_fill(forced, math.inf).masked_fill(block >= count, -math.inf)
    best = rank.topk(min(p.select, p.blocks), dim=-1)
    lists = best.indices.masked_fill(best.values == -math.inf, -1)
    return torch.nn.functional.pad(lists, (0, p.select - lists.shape[-1]), value=-1)


nsa_score = attnfuzz.target(score, operation="nsa_score", arrays="torch", errors=ERRORS, domain=DOMAIN)
nsa_score_cuda = attnfuzz.target(score, operation="nsa_score", device="cuda", errors=attnfuzz.Errors(), domain=DOMAIN,
                                 description=f"{score.__doc__}, on a GPU")
