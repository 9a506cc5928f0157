"""jax.experimental.pallas.ops.gpu.attention.mha, causal: with more queries than keys, the loop over keys runs past the
last key.

    python3 docs/found/jax/jax-pallas-mha-more-queries-than-keys.py       status 1: it shows, 0: it does not; interpreted on a CPU
"""
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.pallas.ops.gpu import attention

print("jax", jax.__version__, jax.default_backend())
q, k, v = (jax.random.normal(jax.random.PRNGKey(n), (1, length, 1, 16), jnp.float16) for n, length in enumerate((64, 32, 32)))
blocks = attention.BlockSizes(block_q=32, block_k=32, block_q_dkv=None, block_kv_dkv=None, block_q_dq=None, block_kv_dq=None)
o = attention.mha(q, k, v, None, sm_scale=0.25, causal=True, block_sizes=blocks, interpret=jax.default_backend() == "cpu")
due = attention.mha_reference(q, k, v, None, sm_scale=0.25, causal=True)
error = np.abs(np.asarray(o - due, np.float32)).max(axis=(0, 2, 3))
print("largest error of queries 0 to 31:", error[:32].max(), "of 32 to 63:", error[32:].max())
sys.exit(not error.max() < 1e-2)
