"""torch.nn.functional.scaled_dot_product_attention, one target a back end, on a GPU.

PyTorch's own convention: is_causal is of the top left; a boolean mask is True where a key may be seen; a float mask is
added; a row that sees nothing gives 0. `efficient`, `cudnn` and `flash` are called as aten's own operators where those
give the LSE. What a back end does not take it says by a RuntimeError before it launches anything ("No available
kernel"), which counts as refused.
"""

import math

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import attnfuzz
from attnfuzz.masks import one_mask

# A tensor core's sums, P rounded to the format of the input.
TENSOR = attnfuzz.Errors(accumulator="tensor", p="input")
# The plain one rounds scores and probabilities to the format of the input in between.
COMMON = dict(softcap=False, window=False, key_lengths=False, align="top_left", non_finite=False)


def expanded(p, k, v):
    group = p.heads_q // p.heads_kv
    if group == 1:
        return k, v
    return (t.repeat_interleave(group, dim=1) for t in (k, v))


def call(backend, p, q, k, v, mask):
    k, v = expanded(p, k, v)
    try:
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=p.causal, scale=p.scale)
    except RuntimeError as e:
        if "No available kernel" in str(e) or "not supported" in str(e):
            raise attnfuzz.Unsupported(str(e).split("\n")[0]) from None
        raise


def own_bias(p, bias, q):
    if bias is not None and bias.dtype not in (q.dtype, torch.float32):
        raise attnfuzz.Unsupported("a bias that is neither fp32 nor of the input's format")


@attnfuzz.target(device="cuda", tiles=(64, 64), errors=TENSOR,
                 domain=attnfuzz.Domain(lse=False, causal_with_mask=False, bias_with_mask=False, dim=attnfuzz.multiple(8),
                                        seq=attnfuzz.at_least(1), batch=attnfuzz.at_least(1), equal_dims=False, **COMMON))
def efficient(p, q, k, v, bias=None, mask=None):
    """SDPA, memory-efficient (CUTLASS)"""
    own_bias(p, bias, q)
    return call(SDPBackend.EFFICIENT_ATTENTION, p, q, k, v, one_mask(bias, mask))


@attnfuzz.target(device="cuda", tiles=(64, 64), errors=TENSOR,
                 domain=attnfuzz.Domain(bias=False, mask=False, dim=attnfuzz.multiple(8), equal_dims=True,
                                        seq=attnfuzz.at_least(1), batch=attnfuzz.at_least(1), **COMMON))
def flash(p, q, k, v):
    """SDPA, flash: aten._scaled_dot_product_flash_attention, with its LSE"""
    k, v = expanded(p, k, v)
    if p.causal and p.seq_q != p.seq_k:
        raise attnfuzz.Unsupported("flash's causal mask is of the bottom right")
    out = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, p.causal, False, scale=p.scale)
    return out[0], out[1][:, :, : p.seq_q]


@attnfuzz.target(device="cuda", tiles=(128, 128), errors=TENSOR,
                 domain=attnfuzz.Domain(lse=False, causal_with_mask=False, bias_with_mask=False,
                                        dim=attnfuzz.multiple(8, most=128), seq=attnfuzz.at_least(1),
                                        batch=attnfuzz.at_least(1), **COMMON))
def cudnn(p, q, k, v, bias=None, mask=None):
    """SDPA, cuDNN"""
    own_bias(p, bias, q)
    return call(SDPBackend.CUDNN_ATTENTION, p, q, k, v, one_mask(bias, mask))


@attnfuzz.target(device="cuda", tiles=(64, 64), errors=attnfuzz.Errors(accumulator="tensor", p="input"),
                 domain=attnfuzz.Domain(lse=False, causal_with_mask=False, bias_with_mask=False,
                                        seq=attnfuzz.at_least(1), batch=attnfuzz.at_least(1), dtypes=("f16", "bf16"),
                                        **COMMON))
def math_(p, q, k, v, bias=None, mask=None):
    """SDPA, math: plain operators"""
    own_bias(p, bias, q)
    return call(SDPBackend.MATH, p, q, k, v, one_mask(bias, mask))


@attnfuzz.target(device="cuda", tiles=(64, 64), errors=TENSOR,
                 domain=attnfuzz.Domain(bias=False, mask=False, gqa=False, dim=attnfuzz.multiple(8),
                                        seq=attnfuzz.at_least(1), batch=attnfuzz.at_least(1), **COMMON))
def efficient_lse(p, q, k, v):
    """aten._efficient_attention_forward, with its LSE, which is padded to 32 queries; heads between positions and dims"""
    heads_last = [t.transpose(1, 2) for t in (q, k, v)]
    out, lse, *_ = torch.ops.aten._efficient_attention_forward(
        *heads_last, None, None, None, None, None, 0.0, 1 if p.causal else 0, True, scale=p.scale)
    lse = lse[:, :, : p.seq_q]
    # Rows that see nothing: +inf there.
    return out.transpose(1, 2), torch.where(torch.isposinf(lse), -math.inf, lse)
