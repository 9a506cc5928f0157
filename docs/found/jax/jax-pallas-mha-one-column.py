"""jax.experimental.pallas.ops.gpu.attention.mha, compiled for a GPU: O is wrong for head dimensions of 1, 2, 4 and 8.

    python3 docs/found/jax/jax-pallas-mha-one-column.py       status 1: it shows, 0: it does not
"""
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.pallas.ops.gpu import attention

print("jax", jax.__version__, jax.default_backend())
wrong = False
for dim in (16, 8, 4, 2, 1):
    q, k, v = (jax.random.normal(jax.random.PRNGKey(n), (1, 16, 1, dim), jnp.float16) for n in range(3))
    blocks = attention.BlockSizes(block_q=16, block_k=16, block_q_dkv=None, block_kv_dkv=None, block_q_dq=None,
                                  block_kv_dq=None)
    try:
        o = attention.mha(q, k, v, None, sm_scale=1.0, block_sizes=blocks, interpret=jax.default_backend() == "cpu")
    except Exception as e:
        print("dim", dim, str(e).split("\n")[0])
        continue
    error = np.abs(np.asarray(o - attention.mha_reference(q, k, v, None, sm_scale=1.0), np.float32)).max()
    print("dim", dim, "largest error", error)
    wrong |= not error < 1e-2
sys.exit(wrong)
