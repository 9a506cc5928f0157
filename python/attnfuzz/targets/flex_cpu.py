"""torch.nn.attention.flex_attention on the CPU, compiled to C++, without an LSE: full, or causal as a mask_mod.

Sizes are dynamic. It compiles for each format, dims and causal, and for sizes that are 1. A first compilation may take
longer than the watchdog allows: use --watchdog 300.
"""

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import attnfuzz

torch.set_num_threads(1)  # workers are forked after this import, and a fork loses other threads
_compiled = None


def compiled():
    global _compiled
    if _compiled is None:
        torch._dynamo.config.cache_size_limit = 1000
        torch._inductor.config.compile_threads = 1
        _compiled = torch.compile(flex_attention, dynamic=True)
    return _compiled


@attnfuzz.target(arrays="torch", tiles=(32, 512), errors=attnfuzz.Errors(accumulator="ffma", p="input"),
                 compiles=("dtype", "dim", "causal"),
                 domain=attnfuzz.Domain(dtypes=("f32",), lse=False, bias=False, mask=False, window=False, key_lengths=False,
                                        softcap=False, batch={2, 3}, heads_q={2, 4}, heads_kv={2, 4}, dim={16},
                                        equal_dims=True, seq=range(2, 1100), align="top_left", non_finite=False, scale=False))
def flex_cpu(p, q, k, v):
    """FlexAttention on the CPU, compiled"""
    block = None
    if p.causal:
        block = create_block_mask(lambda b, h, i, j: i >= j, None, None, p.seq_q, p.seq_k, device="cpu")
    with torch.no_grad():
        return compiled()(q, k, v, block_mask=block, scale=p.scale, enable_gqa=p.heads_q != p.heads_kv)
