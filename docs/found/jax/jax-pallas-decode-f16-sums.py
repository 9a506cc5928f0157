"""jax.experimental.pallas.ops.gpu.decode_attention and paged_attention, f16: each split rounds its sum of weights times
V to f16 before it is divided by the sum of weights. The mean of values that f16 can hold can therefore be infinite.

    python3 docs/found/jax/jax-pallas-decode-f16-sums.py       status 1: it shows, 0: it does not; interpreted on a CPU
"""
import sys

import jax
import jax.numpy as jnp
from jax.experimental.pallas.ops.gpu import decode_attention, paged_attention

print("jax", jax.__version__, jax.default_backend())
KEYS, DIM = 256, 16
interpret = jax.default_backend() == "cpu"
q = jnp.zeros((1, 16, DIM), jnp.float16)
k = jnp.zeros((1, KEYS, 1, DIM), jnp.float16)
v = jnp.full((1, KEYS, 1, DIM), 1000, jnp.float16)
o = decode_attention.gqa(q, k, v, block_k=128, k_splits=2, interpret=interpret)
print("decode_attention.gqa:", o[0, 0, :4], "expected: 1000; its own reference:", decode_attention.gqa_reference(q, k, v)[0, 0, :4])
pages = [t.transpose(2, 0, 1, 3).reshape(1, KEYS // 16, 16, DIM) for t in (k, v)]
paged = paged_attention.paged_attention(q, *pages, jnp.arange(KEYS // 16, dtype=jnp.int32)[None], None, k_splits=2,
                                        interpret=interpret)
print("paged_attention:", paged[0, 0, :4], "expected: 1000")
sys.exit(not (bool((o == 1000).all()) and bool((paged == 1000).all())))
