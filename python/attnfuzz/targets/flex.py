"""torch.nn.attention.flex_attention, compiled, on a GPU: full, or causal as a mask_mod. Its LSE is natural; a row that
sees no key has O = 0.

Sizes are dynamic. It compiles for each format, dims and causal, and for sizes that are 1 or short. `flex` has few of these,
so that most cases find it compiled.
"""

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import attnfuzz

_compiled = None


def compiled():
    global _compiled
    if _compiled is None:
        torch._dynamo.config.cache_size_limit = 1000
        _compiled = torch.compile(flex_attention, dynamic=True)
    return _compiled


# Offsets wrap at 32 bits if rows lie far apart (docs/found/flex-row-stride-of-2-31.py). This is known, so
# it gets a copy.
def near(t):
    far = any(s * (n - 1) >= 2**31 for n, s in zip(t.shape, t.stride()))
    return t.contiguous() if far and not attnfuzz.shows_known() else t


@attnfuzz.target(device="cuda", tiles=(128, 128), errors=attnfuzz.Errors(accumulator="tensor", p="input", exp="ex2.approx", log="lg2.approx", rcp="approx",
                                        scale="separate_fma"),
                 compiles=("dtype", "dim", "causal"),
                 domain=attnfuzz.Domain(dtypes=("bf16",), dim={64}, equal_dims=True, bias=False, mask=False, window=False,
                                        key_lengths=False, softcap=False, seq=range(129, 4097), batch=range(2, 65536),
                                        heads_q=attnfuzz.at_least(2), align="top_left", non_finite=False))
def flex(p, q, k, v):
    """FlexAttention, compiled"""
    block = None
    if p.causal:
        block = create_block_mask(lambda b, h, i, j: i >= j, None, None, p.seq_q, p.seq_k, device=q.device)
    q, k, v = map(near, (q, k, v))
    return compiled()(q, k, v, block_mask=block, scale=p.scale, enable_gqa=p.heads_q != p.heads_kv, return_lse=True)
