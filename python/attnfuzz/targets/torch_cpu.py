"""torch.nn.functional.scaled_dot_product_attention on the CPU: math and flash. See torch_sdpa.py for its conventions.

`cpu_flash_lse` is aten's own operator. Its LSE is natural, and 0 if a mask hides all of a row.
"""

import math
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import attnfuzz
from attnfuzz.masks import one_mask

torch.set_num_threads(1)  # worker processes are forked from one that has imported this

# Math computes in fp32 throughout. Flash rounds P. Its exponential in f16 and bf16 errs by up to
# 1.6e-4, for which there is no class. The LSE shows this at once. O in f16, whose P has 11 bits,
# shows it in one of some thousands of cases.
ERRORS = attnfuzz.Errors(accumulator="ffma", p="input", log="logf", rcp="exact", scale="separate")
MATH = replace(ERRORS, p="fp32", exp="expf")
DOMAIN = attnfuzz.Domain(lse=False, softcap=False, window=False, key_lengths=False, align="top_left",
                         causal_with_mask=False, non_finite=False, bias_with_mask=False, seq=attnfuzz.at_least(1),
                         batch=attnfuzz.at_least(1))


def call(backend, p, q, k, v, bias, mask):
    # A mask must have the input's format or fp32. Another format is converted to fp32 exactly.
    if bias is not None and bias.dtype not in (q.dtype, torch.float32):
        bias = bias.float()
    group = p.heads_q // p.heads_kv
    if group > 1:
        k, v = (t.repeat_interleave(group, dim=1) for t in (k, v))
    try:
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, attn_mask=one_mask(bias, mask), is_causal=p.causal,
                                                  scale=p.scale)
    except RuntimeError as e:
        if "No available kernel" in str(e):
            raise attnfuzz.Unsupported("no kernel of this back end") from None
        raise


# Causal with a scale that is not positive is known to be wrong.
FLASH = replace(DOMAIN, dtypes=("f16", "bf16") if attnfuzz.shows_known() else ("bf16",), equal_dims=True, scale=True if attnfuzz.shows_known() else "positive")


def known_of_flash(p, q):
    if p.dim_v > 1 and torch.empty_like(q).stride(3) != 1:
        attnfuzz.known("a Q for which the columns of the output are not contiguous")


@attnfuzz.target(arrays="torch", errors=ERRORS, domain=FLASH)
def cpu_flash(p, q, k, v, bias=None, mask=None):
    """SDPA on the CPU, flash"""
    known_of_flash(p, q)
    return call(SDPBackend.FLASH_ATTENTION, p, q, k, v, bias, mask)


@attnfuzz.target(arrays="torch", errors=MATH, domain=DOMAIN)
def cpu_math(p, q, k, v, bias=None, mask=None):
    """SDPA on the CPU, math"""
    return call(SDPBackend.MATH, p, q, k, v, bias, mask)


@attnfuzz.target(arrays="torch", errors=ERRORS, tiles=(32, 512),
                 domain=replace(FLASH, dtypes=("f16", "bf16", "f32") if attnfuzz.shows_known() else ("f32",), lse=True))
def cpu_flash_lse(p, q, k, v, bias=None, mask=None):
    """aten._scaled_dot_product_flash_attention_for_cpu, with its LSE"""
    known_of_flash(p, q)
    group = p.heads_q // p.heads_kv
    if group > 1:
        k, v = (t.repeat_interleave(group, dim=1) for t in (k, v))
    m = one_mask(None if bias is None else bias.float(), mask)
    nothing = None
    if m is not None:
        if m.dtype == torch.bool:
            m = torch.zeros(m.shape).masked_fill(~m, -math.inf)
        nothing = (m == -math.inf).all(-1)
    o, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, p.causal, attn_mask=m, scale=p.scale)
    if nothing is not None:
        lse = torch.where(nothing, -math.inf, lse)
    return o, lse
