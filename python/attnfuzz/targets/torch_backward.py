"""PyTorch's backward passes on a GPU: aten's own operators, which are given O and the LSE, and automatic differentiation.

`flash` is bottom-right causal, `cudnn` and `math_` top-left, `efficient` either. A row that sees no key has an LSE of +inf.
Q, K, V and dO of `efficient` have heads between positions and dims, and its LSE is padded to 32 queries with +inf. Each
operator also takes what its forward pass returned beside O and the LSE (seeds of dropout, lengths of sequences); the
adapters take it from a small forward call.
"""

import functools
import math
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import attnfuzz
from attnfuzz.masks import one_mask
from attnfuzz.targets.torch_sdpa import ALIGNED, COMMON, FLASH, GRID, POSITIVE, TENSOR, expanded, far_apart, own_bias, refusals

aten = torch.ops.aten


@functools.cache
def beside(forward, *arguments):
    """The result of a forward operator for a small call."""
    q, k, v = (torch.zeros((1, 1, 64, 64), dtype=torch.float16, device="cuda") for _ in range(3))
    return getattr(aten, forward)(q, k, v, *arguments, scale=0.125)


# Gradients are allocated like Q, K and V. Only equal strides, or a stride of 0, can change which dimension is innermost.
def plain(t):
    return t.contiguous() if {0, 1}.intersection(t.stride()[:3]) and not attnfuzz.shows_known() else t


# dK and dV of grouped heads are rounded before they are added up.
@attnfuzz.target(operation="backward", device="cuda", tiles=(64, 64), errors=replace(FLASH, ds="input", heads="input"),
                 domain=attnfuzz.Domain(bias=False, mask=False, dim=attnfuzz.multiple(8), equal_dims=True,
                                        seq=attnfuzz.at_least(1), scale=POSITIVE, lse_dead="+inf",
                                        **dict(COMMON, align="bottom_right", **ALIGNED, **GRID)))
def flash(p, q, k, v, dout, o, lse):
    """aten._scaled_dot_product_flash_attention_backward"""
    far_apart(q, k, v)
    _, _, cum_q, cum_k, _, _, seed, offset, *_ = beside("_scaled_dot_product_flash_attention", 0.0, False, False)
    with refusals():
        return aten._scaled_dot_product_flash_attention_backward(
            dout, *map(plain, (q, k, v)), o, lse.contiguous(), cum_q, cum_k, p.seq_q, p.seq_k, 0.0, p.causal, seed, offset,
            scale=p.scale)


# A bias is read in rows that begin at multiples of 16 bytes.
def padded(bias):
    room = bias.new_empty((*bias.shape[:-1], -(-bias.shape[-1] // 8) * 8))
    return room[..., : bias.shape[-1]].copy_(bias)


# dS is computed from P as it was rounded for dV, and is rounded itself. These two roundings are as
# large as one faithful conversion. dS is scaled before it is rounded; there is no class for the
# subnormal fp16 numbers that result.
@attnfuzz.target(operation="backward", device="cuda", tiles=(64, 64), errors=replace(TENSOR, ds="input", conversion="faithful"),
                 domain=attnfuzz.Domain(gqa=False, bias="own", causal_with_mask=False, dim=attnfuzz.multiple(8),
                                        seq=attnfuzz.at_least(1), lse_dead="+inf",
                                        **dict(COMMON, align=None, dtypes=("bf16",), **ALIGNED, **GRID)))
def efficient(p, q, k, v, dout, o, lse, bias=None, mask=None):
    """aten._efficient_attention_backward"""
    far_apart(q, k, v)
    m = one_mask(bias, mask)
    if mask is not None and bias is None:
        m = torch.zeros(m.shape, dtype=q.dtype, device=q.device).masked_fill_(~m, -math.inf)
    _, _, seed, offset = beside("_scaled_dot_product_efficient_attention", None, True)
    lse = F.pad(lse, (0, -p.seq_q % 32), value=math.inf)
    dout, q, k, v, o = (t.transpose(1, 2) for t in (dout, *map(plain, (q, k, v)), o))
    causal = (2 if p.align == "bottom_right" else 1) if p.causal else 0
    with refusals():
        grads = aten._efficient_attention_backward(
            dout, q, k, v, m if m is None else padded(m), o.contiguous(), None, None, p.seq_q, p.seq_k, lse, 0.0, seed,
            offset, causal, False, scale=p.scale)
    return tuple(t.transpose(1, 2) for t in grads[:3])


# Its dS in fp16 was off by up to twice the half ulp of one rounding; cuDNN does not say how it rounds.
@attnfuzz.target(operation="backward", device="cuda", tiles=(128, 128), errors=replace(TENSOR, ds="input", conversion="faithful"),
                 domain=attnfuzz.Domain(gqa=False, bias=False, mask=False, dim=attnfuzz.multiple(8, most=128), equal_dims=True,
                                        seq_q=attnfuzz.at_least(1), seq_k=attnfuzz.at_least(2), scale=POSITIVE,
                                        **dict(COMMON, **ALIGNED, **GRID)))
def cudnn(p, q, k, v, dout, o, lse):
    """aten._scaled_dot_product_cudnn_attention_backward"""
    far_apart(q, k, v)
    _, small, cum_q, cum_k, _, _, seed, offset, *_ = beside("_scaled_dot_product_cudnn_attention", None, True)
    lse = lse.contiguous().reshape(*lse.shape, *[1] * (small.ndim - 3))
    with refusals():
        return aten._scaled_dot_product_cudnn_attention_backward(
            dout.contiguous(), *map(plain, (q, k, v)), o.contiguous(), lse, seed, offset, None, cum_q, cum_k, p.seq_q,
            p.seq_k, 0.0, p.causal, scale=p.scale)


def by_autograd(function, dout, *leaves):
    """The gradients of a function's only result, for dO."""
    leaves = [t.detach().requires_grad_() for t in leaves]
    with torch.enable_grad():
        out = function(*leaves)
    return torch.autograd.grad(out, leaves, dout)


# In fp32 throughout. K and V of grouped heads are repeated, and the gradients of the copies are rounded and added up.
@attnfuzz.target(operation="backward", device="cuda", tiles=(64, 64),
                 errors=attnfuzz.Errors(accumulator="ffma", p="fp32", exp="expf", log="logf", rcp="exact", scale="separate",
                                        ds="fp32", heads="input", saved="recomputed"),
                 domain=attnfuzz.Domain(causal_with_mask=False, bias_with_mask=False, seq=attnfuzz.at_least(1),
                                        batch=attnfuzz.at_least(1), dtypes=("f16", "bf16"), **COMMON))
def math_(p, q, k, v, dout, o, lse, bias=None, mask=None):
    """automatic differentiation of SDPA, math"""
    def attend(q, k, v):
        with sdpa_kernel(SDPBackend.MATH):
            return F.scaled_dot_product_attention(q, *expanded(p, k, v), attn_mask=one_mask(own_bias(bias, q), mask),
                                                  is_causal=p.causal, scale=p.scale)

    return by_autograd(attend, dout, q, k, v)
