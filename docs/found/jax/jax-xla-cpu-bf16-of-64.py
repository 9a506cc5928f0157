"""jax.nn.dot_product_attention, compiled by XLA for a CPU, in bf16 with 64 queries, 64 keys and one column: the process
aborts.

    python3 docs/found/jax/jax-xla-cpu-bf16-of-64.py       status 1: it shows, 0: it does not
"""
import os
import subprocess
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp

CASES = [(64, 64, 1), (63, 64, 1), (64, 63, 1), (64, 64, 2), (128, 128, 1), (128, 64, 1)]


def one(queries, keys, dim):
    q, k, v = (jnp.ones((1, n, 1, dim), jnp.bfloat16) for n in (queries, keys, keys))
    print("right" if bool((jax.jit(jax.nn.dot_product_attention)(q, k, v) == 1).all()) else "wrong")


if len(sys.argv) > 1:
    one(*CASES[int(sys.argv[1])])
    sys.exit(0)

print("jax", jax.__version__)
shows = False
for n, case in enumerate(CASES):
    ran = subprocess.run([sys.executable, __file__, str(n)], capture_output=True, text=True)
    said = [line for line in ran.stderr.splitlines() if "Check failed" in line]
    print("queries, keys, columns", case, "status", ran.returncode, ran.stdout.strip(), *said[:1])
    shows |= ran.returncode != 0
sys.exit(shows)
