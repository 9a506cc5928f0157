"""torch.nn.functional.scaled_dot_product_attention on the CPU: math and flash. See torch_sdpa.py for its conventions."""

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import attnfuzz
from attnfuzz.masks import one_mask

torch.set_num_threads(1)  # a process is forked from one that has imported this

ERRORS = attnfuzz.Errors(accumulator="ffma", p="input", isolates_masked_nan=False)
DOMAIN = attnfuzz.Domain(lse=False, softcap=False, window=False, key_lengths=False, align="top_left",
                         causal_with_mask=False, non_finite=False, bias_with_mask=False, seq=attnfuzz.at_least(1),
                         batch=attnfuzz.at_least(1))


def call(backend, p, q, k, v, bias, mask):
    # A mask is of the input's format or fp32; what is of another is that in fp32, exactly.
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


@attnfuzz.target(arrays="torch", errors=ERRORS, domain=replace(DOMAIN, equal_dims=True))
def cpu_flash(p, q, k, v, bias=None, mask=None):
    """SDPA on the CPU, flash"""
    return call(SDPBackend.FLASH_ATTENTION, p, q, k, v, bias, mask)


@attnfuzz.target(arrays="torch", errors=ERRORS, domain=DOMAIN)
def cpu_math(p, q, k, v, bias=None, mask=None):
    """SDPA on the CPU, math"""
    return call(SDPBackend.MATH, p, q, k, v, bias, mask)
