"""A forward pass in PyTorch's plain operators, and its gradients by automatic differentiation, for steps of training:

    attnfuzz train-step torch_training.py:forward torch_training.py:backward

They run on the CPU, with PyTorch 1.13 or later; `forward_cuda` and `backward_cuda` are the same on a GPU. All sums are in fp32.
A row that sees no key has an LSE of -inf. Packed entries are computed one after another.
"""

import math
from dataclasses import replace

import torch

import attnfuzz
from attnfuzz.masks import visible

torch.set_num_threads(1)  # workers are forked after this import, and a fork loses other threads

ERRORS = attnfuzz.Errors(accumulator="ffma", p="fp32", exp="expf", log="logf", rcp="exact", scale="separate")
DOMAIN = attnfuzz.Domain(bias=False, mask=False, softcap=False, key_lengths=False, non_finite=False, features=("packed", "int32"))


def attend(p, q, k, v):
    """O and the LSE of dense tensors."""
    k, v = (t.float().repeat_interleave(p.heads_q // p.heads_kv, dim=1) for t in (k, v))
    scores = q.float() @ k.transpose(2, 3) * p.scale
    seen = visible(p)
    if seen is not None:
        scores = scores.masked_fill(~torch.from_numpy(seen).to(q.device), -math.inf)
    dead = (scores == -math.inf).all(-1, keepdim=True)
    weights = torch.softmax(scores.masked_fill(dead, 0.0), -1).masked_fill(dead, 0.0)
    return weights @ v, torch.logsumexp(scores, -1)


def both(p, q, k, v, cu_seqlens_q, cu_seqlens_k):
    """O and the LSE of dense or packed tensors."""
    if not p.ragged:
        return attend(p, q, k, v)
    packed = p.ragged & 1
    o = q.new_zeros((*q.shape[:-1], p.dim_v), dtype=torch.float32)
    lse = q.new_zeros((p.heads_q, p.total_q) if packed else o.shape[:3], dtype=torch.float32)
    for place, of, arrays in attnfuzz.entries(p, q, k, v, cu_seqlens_q, cu_seqlens_k):
        own, own_lse = attend(of, **arrays)
        if packed:
            o[place], lse[:, place] = own[0].transpose(0, 1), own_lse[0]
        else:
            o[place], lse[place] = own[0], own_lse[0]
    return o, lse


def compute(p, q, k, v, cu_seqlens_q=None, cu_seqlens_k=None):
    """attention in plain operators of PyTorch"""
    with torch.no_grad():
        return both(p, q, k, v, cu_seqlens_q, cu_seqlens_k)


def differentiate(p, q, k, v, dout, o, lse, cu_seqlens_q=None, cu_seqlens_k=None, dlse=None):
    """automatic differentiation of plain operators of PyTorch"""
    leaves = [t.detach().requires_grad_() for t in (q, k, v)]
    with torch.enable_grad():
        of_o, of_lse = both(p, *leaves, cu_seqlens_q, cu_seqlens_k)
    results, given = [of_o], [dout.float()]
    if dlse is not None:
        results.append(of_lse)
        given.append(dlse.masked_fill(of_lse == -math.inf, 0.0))
    return torch.autograd.grad(results, leaves, given)


def passes(device):
    """The two passes on a device."""
    own = dict(device=device, arrays="torch")
    backward = attnfuzz.target(differentiate, operation="backward",
                               domain=replace(DOMAIN, features=("packed", "int32", "dlse")),
                               errors=replace(ERRORS, ds="fp32", heads="fp32", saved="recomputed"), **own)
    return attnfuzz.target(compute, errors=ERRORS, domain=DOMAIN, **own), backward


forward, backward = passes("cpu")
forward_cuda, backward_cuda = passes("cuda")
