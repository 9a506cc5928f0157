"""jax.nn.dot_product_attention by cuDNN, in f16: a mask is added as -32768. A key that it hides therefore counts if the
bias of the other keys is the lowest number, or if their scores are lower than its score by that much.

    JAX_PLATFORMS=cuda python3 docs/found/jax/jax-cudnn-mask-of-a-number.py       status 1: it shows, 0: it does not
"""
import sys

import jax
import jax.numpy as jnp

print("jax", jax.__version__, jax.devices())
KEYS = 64
k = jnp.zeros((1, KEYS, 1, 64), jnp.float16)
v = jnp.zeros((1, KEYS, 1, 64), jnp.float16).at[:, -1].set(1)  # V of the hidden key
mask = jnp.ones((1, 1, KEYS, KEYS), bool).at[..., -1].set(False)
least = jnp.full((1, 1, KEYS, KEYS), jnp.finfo(jnp.float16).min, jnp.float16)
shows = False
for what, bias, q, last in (("a bias of 0", least * 0, 0, 0),
                            ("a bias of the lowest number, 0 for the hidden key", least.at[..., -1].set(0), 0, 0),
                            ("no bias, a hidden score of 40960", None, 64, 80)):
    queries = jnp.full((1, KEYS, 1, 64), q, jnp.float16)
    for by in ("xla", "cudnn"):
        o = jax.nn.dot_product_attention(queries, k.at[:, -1].set(last), v, bias, mask, scale=0.125, implementation=by)
        print(f"{what}, {by}: O {float(o[0, 0, 0, 0])}, expected: 0")
        shows |= by == "cudnn" and bool((o != 0).any())
sys.exit(shows)
