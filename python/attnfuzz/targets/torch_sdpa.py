"""torch.nn.functional.scaled_dot_product_attention, one target a back end, on a GPU.

PyTorch's convention: is_causal is top-left; a boolean mask is True where a key is visible; a float mask is added; a row
that sees no key gives 0. Only `flash`, whose is_causal is bottom-right, and `efficient_lse` are called as aten's own
operators, which return the LSE. A back end refuses a problem by a RuntimeError before it launches anything ("No available
kernel"), which counts as refused.
"""

import contextlib
import math
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import attnfuzz
from attnfuzz.masks import one_mask

# Tensor-core sums, with P rounded to the input's format. Sums in fp32 are scaled (efficient: see its source;
# cuDNN: a node of PyTorch's graph, whose intermediate results are declared as fp32). A compiler may fuse the scaling
# with the subtraction of the maximum; separate_fma covers both.
TENSOR = attnfuzz.Errors(accumulator="tensor", p="input", scale="separate_fma")
# flash-attention 2 scales a score and subtracts the maximum in one FMA, and takes ex2.approx of it. Confirmed by
# 1,634 cases on an H200.
FLASH = replace(TENSOR, exp="ex2.approx", log="fast_logf", rcp="approx", scale="fused")
# With few queries it splits the keys, at most 128 times, and weighs the parts by their LSE in fp32,
# which loses digits if scores are large (docs/found/pytorch/flash/flash-split-with-large-scores.py).
SPLIT = FLASH if attnfuzz.shows_known() else replace(FLASH, partials="fp32", merge="lse", merges=128)
# Heads and batch entries are grid dimensions, at most 65,535. A scale that is not positive gives NaN
# (docs/found/pytorch/flash/flash-65536-heads.py, docs/found/pytorch/scale-not-positive.py).
GRID = dict(batch=attnfuzz.at_least(1)) if attnfuzz.shows_known() else dict(batch=range(1, 65536), heads_q=attnfuzz.at_most(65535))
POSITIVE = attnfuzz.shows_known() or "positive"
COMMON = dict(softcap=False, window=False, key_lengths=False, align="top_left", non_finite=False)
# Rows are read in vectors of 16 bytes. The caller must align them: PyTorch copies only some misaligned tensors.
ALIGNED = {} if attnfuzz.shows_known() else dict(layout="inner", align_bytes=16)


# cuDNN subtracts this number from the scores that a boolean mask hides (docs/found/pytorch/cudnn/cudnn-hidden-score.py).
HIDDEN = {"f16": 65504.0, "bf16": 65536.0}


def outweighed(p, q, k, mask):
    scores = torch.matmul(q.double(), expanded(p, k, k)[0].double().mT) * p.scale
    seen = scores.masked_fill(~mask, -math.inf).amax(-1)
    hidden = scores.masked_fill(mask, -math.inf).amax(-1) - HIDDEN[p.dtype]
    if ((seen > -math.inf) & (hidden > seen - 100)).any():
        attnfuzz.known("a hidden score that the mask's finite number does not outweigh")


def expanded(p, k, v):
    group = p.heads_q // p.heads_kv
    if group == 1:
        return k, v
    return tuple(t.repeat_interleave(group, dim=1) for t in (k, v))


def call(backend, p, q, k, v, mask):
    k, v = expanded(p, k, v)
    with refusals(), sdpa_kernel(backend):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=p.causal, scale=p.scale)


@contextlib.contextmanager
def refusals():
    try:
        yield
    except RuntimeError as e:
        # messages of refusals that come after the choice of a kernel
        chosen = ("no kernel found to launch", "is not correctly aligned", "overflows")
        if any(words in str(e) for words in ("No available kernel", "not supported", *chosen[: 0 if attnfuzz.shows_known() else 3])):
            raise attnfuzz.Unsupported(str(e).split("\n")[0]) from None
        raise


# For math, a mask must have the input's format or fp32; another format is converted to fp32 exactly.
# efficient takes only the input's format, and cuDNN in torch 2.11 misreads fp32 as the input's format. Both
# are declared for a bias in Q's format.
def own_bias(bias, q):
    return bias if bias is None or bias.dtype in (q.dtype, torch.float32) else bias.float()


# Flash allocates its output like Q, with columns innermost unless another stride of Q is 0 or 1.
def lies_as_a_result_can(q):
    if not {0, 1}.intersection(q.stride()[:3]):
        return
    if torch.empty_like(q.transpose(1, 2)).stride(3) != 1:
        attnfuzz.known("a Q for which the columns of the output are not contiguous")


def far_apart(*tensors):
    for t in tensors:
        if any(abs(s) * (n - 1) >= 2**31 for n, s in zip(t.shape, t.stride())):
            attnfuzz.known("rows 2^31 elements apart")


@attnfuzz.target(device="cuda", tiles=(64, 64), errors=TENSOR,
                 domain=attnfuzz.Domain(lse=False, causal_with_mask=False, bias_with_mask=False, bias="own",
                                        dim=attnfuzz.multiple(8), seq=attnfuzz.at_least(1), **dict(COMMON, **ALIGNED, **GRID)))
def efficient(p, q, k, v, bias=None, mask=None):
    """SDPA, memory-efficient (CUTLASS)"""
    tile = 64 if max(p.dim_qk, p.dim_v) <= 128 else 32
    reads_wrong = p.has_bias or p.has_mask or (p.causal and p.heads_q > 1)
    if p.seq_q % tile == 1 and reads_wrong and k.stride(1) == 0 and v.stride(1) == 0:
        attnfuzz.known("K and V stored once for all heads, with a bias, a mask or causal, and one query more than full tiles of 64 or 32 "
                       "(docs/found/pytorch/efficient/efficient-query-left-over.py)")
    return call(SDPBackend.EFFICIENT_ATTENTION, p, q, k, v, one_mask(bias, mask))


@attnfuzz.target(device="cuda", tiles=(64, 64), errors=SPLIT,
                 domain=attnfuzz.Domain(bias=False, mask=False, dim=attnfuzz.multiple(8), equal_dims=True,
                                        seq=attnfuzz.at_least(1), scale=POSITIVE, lse_dead="+inf",
                                        **dict(COMMON, align="bottom_right", **ALIGNED, **GRID)))
def flash(p, q, k, v):
    """SDPA, flash: aten._scaled_dot_product_flash_attention, with its LSE; causal is of the bottom right"""
    lies_as_a_result_can(q)
    out = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, p.causal, False, scale=p.scale)
    return out[0], out[1][:, :, : p.seq_q]


@attnfuzz.target(device="cuda", tiles=(128, 128), errors=TENSOR,
                 domain=attnfuzz.Domain(lse=False, causal_with_mask=False, bias_with_mask=False, bias=attnfuzz.shows_known() or "own",
                                        dim=attnfuzz.multiple(8, most=128), seq_q=attnfuzz.at_least(1),
                                        seq_k=attnfuzz.at_least(2), scale=POSITIVE, **dict(COMMON, **ALIGNED, **GRID)))
def cudnn(p, q, k, v, bias=None, mask=None):
    """SDPA, cuDNN"""
    far_apart(q, k, v)
    lies_as_a_result_can(q)
    if p.dim_v != p.dim_qk and 0 in q.stride()[:3]:
        attnfuzz.known("a Q stored once, and an O with another number of columns")
    m = one_mask(bias, mask)
    if mask is not None and not attnfuzz.shows_known():
        outweighed(p, q, k, mask)
    # Known: cuDNN reads a mask wrongly if its query stride is 0 or there is one query, and dimensions of length 1 have
    # a stride of 1. A clone has other strides (docs/found/pytorch/cudnn/cudnn-mask-stored-once.py).
    if m is not None and (m.stride(2) == 0 or p.seq_q == 1) and not attnfuzz.shows_known():
        m = m.clone(memory_format=torch.contiguous_format)
    o = call(SDPBackend.CUDNN_ATTENTION, p, q, k, v, m)
    if m is None or attnfuzz.shows_known():
        return o
    # The value of a row that sees no key is known to be wrong.
    nothing = (~m if m.dtype == torch.bool else m == -math.inf).all(-1, keepdim=True)
    return o.masked_fill(nothing, 0)


# This back end computes in fp32 throughout.
@attnfuzz.target(device="cuda", tiles=(64, 64),
                 errors=attnfuzz.Errors(accumulator="ffma", p="fp32", exp="expf", log="logf", rcp="exact", scale="separate"),
                 domain=attnfuzz.Domain(lse=False, causal_with_mask=False, bias_with_mask=False,
                                        seq=attnfuzz.at_least(1), batch=attnfuzz.at_least(1), dtypes=("f16", "bf16"),
                                        **COMMON))
def math_(p, q, k, v, bias=None, mask=None):
    """SDPA, math: plain operators"""
    return call(SDPBackend.MATH, p, q, k, v, one_mask(own_bias(bias, q), mask))


@attnfuzz.target(device="cuda", tiles=(64, 64), errors=TENSOR,
                 domain=attnfuzz.Domain(bias=False, mask=False, gqa=False, dim=attnfuzz.multiple(8),
                                        seq=attnfuzz.at_least(1), **dict(COMMON, **ALIGNED, **GRID)))
def efficient_lse(p, q, k, v):
    """aten._efficient_attention_forward, with its LSE, which is padded to 32 queries; heads between positions and dims"""
    heads_last = [t.transpose(1, 2) for t in (q, k, v)]
    with refusals():
        out, lse, *_ = torch.ops.aten._efficient_attention_forward(
            *heads_last, None, None, None, None, None, 0.0, 1 if p.causal else 0, True, scale=p.scale)
    return out.transpose(1, 2), lse[:, :, : p.seq_q]
