"""jax.nn.dot_product_attention in bf16 on the CPU, under jit, with a traced scale: one query and one key cannot be
compiled.

    python3 docs/found/jax/jax-xla-cpu-bf16-of-one.py       status 1: it shows, 0: it does not
"""
import os
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp

print("jax", jax.__version__)
failed = 0
attend = jax.jit(lambda q, k, v, scale: jax.nn.dot_product_attention(q, k, v, scale=scale))
for shape in ((1, 2, 1, 8), (1, 1, 1, 8)):  # batch, length, heads, dims
    for dtype in (jnp.float32, jnp.bfloat16):
        x = jnp.ones(shape, dtype)
        try:
            print(shape, dtype.__name__, attend(x, x, x, jnp.float32(1)).ravel()[0])
        except Exception as e:
            print(shape, dtype.__name__, str(e).split("\n")[0])
            failed += 1
sys.exit(failed > 0)
