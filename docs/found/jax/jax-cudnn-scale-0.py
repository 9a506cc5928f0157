"""jax.nn.dot_product_attention by cuDNN: O is NaN if scale is 0 or negative. By XLA it is right.

    JAX_PLATFORMS=cuda python3 docs/found/jax/jax-cudnn-scale-0.py       status 1: it shows, 0: it does not
"""
import sys

import jax
import jax.numpy as jnp

print("jax", jax.__version__, jax.devices())
q, k, v = (jnp.ones((1, n, 1, 8), jnp.float16) for n in (2, 1, 1))
shows = False
for by in ("xla", "cudnn"):
    for scale in (1.0, 0.0, -1.0):
        o = jax.nn.dot_product_attention(q, k, v, scale=scale, implementation=by)
        print(f"{by}, scale {scale}: O {float(o[0, 0, 0, 0])}, expected: 1")
        shows |= bool((o != 1).any())
sys.exit(shows)
