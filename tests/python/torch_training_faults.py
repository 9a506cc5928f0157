"""Faults that a team met in training, planted in targets/torch_training.py. any_torch.sh runs a step of training with each."""

import math
from dataclasses import replace

import torch

import attnfuzz
from attnfuzz.targets import torch_training


def planted_in(target):
    return lambda function: replace(target, function=function)


@planted_in(torch_training.forward)
def nan_at_512(p, q, k, v, cu_seqlens_q=None, cu_seqlens_k=None):
    o, lse = torch_training.compute(p, q, k, v, cu_seqlens_q, cu_seqlens_k)
    if p.seq_k == 512 and not p.ragged:
        o[0, 0, 0, 0] = math.nan
    return o, lse


@planted_in(torch_training.backward)
def saved_in_place(p, q, k, v, dout, o, lse, cu_seqlens_q=None, cu_seqlens_k=None, dlse=None):
    o.mul_(2)
    return torch_training.differentiate(p, q, k, v, dout, o, lse, cu_seqlens_q, cu_seqlens_k, dlse)


@planted_in(torch_training.forward)
def uninitialised_cu(p, q, k, v, cu_seqlens_q=None, cu_seqlens_k=None):
    if p.ragged & 1:
        copy = torch.empty_like(cu_seqlens_q)
        copy[1:] = cu_seqlens_q[1:]
        cu_seqlens_q = copy
    return torch_training.compute(p, q, k, v, cu_seqlens_q, cu_seqlens_k)


last_lse = {}


@planted_in(torch_training.forward)
def lse_of_an_earlier_call(p, q, k, v, cu_seqlens_q=None, cu_seqlens_k=None):
    o, lse = torch_training.compute(p, q, k, v, cu_seqlens_q, cu_seqlens_k)
    earlier = last_lse.get(lse.shape, lse)
    last_lse[lse.shape] = lse
    return o, earlier


@planted_in(torch_training.backward)
def losing_last_key(p, q, k, v, dout, o, lse, cu_seqlens_q=None, cu_seqlens_k=None, dlse=None):
    dq, dk, dv = torch_training.differentiate(p, q, k, v, dout, o, lse, cu_seqlens_q, cu_seqlens_k, dlse)
    if not p.ragged:
        dk[:, :, -1:] = 0
    return dq, dk, dv


@planted_in(torch_training.forward)
def up_to_40(p, q, k, v, cu_seqlens_q=None, cu_seqlens_k=None):
    if p.seq_k > 40:
        raise attnfuzz.Unsupported("more than 40 keys")
    return torch_training.compute(p, q, k, v, cu_seqlens_q, cu_seqlens_k)
