"""fla's parallel_nsa (Triton): a query sees no key of its list. O must be 0, as in any row without keys. It is 0 / 0.

    python3 docs/found/fla-no-listed-key.py       status 1: it shows, 0: it does not
"""
import importlib.metadata
import sys

import torch
from fla.ops.nsa.parallel import parallel_nsa

print("torch", torch.__version__, "fla", importlib.metadata.version("flash-linear-attention"))
TOKENS, GROUP, DIM, BLOCK = 32, 16, 64, 16
q = torch.zeros(1, TOKENS, GROUP, DIM, dtype=torch.float16, device="cuda")
k = torch.zeros(1, TOKENS, 1, DIM, dtype=torch.float16, device="cuda")
gates = torch.ones(1, TOKENS, GROUP, dtype=torch.float16, device="cuda")

wrong = 0
for words, block in (("its own block", 0), ("no block", -1), ("a block after it", 1)):
    lists = torch.zeros(1, TOKENS, 1, 1, dtype=torch.int64, device="cuda")
    lists[0, 0] = block
    o = parallel_nsa(q, k, k, g_slc=gates, block_indices=lists, block_counts=1, block_size=BLOCK)
    print("query 0 lists", words + ": O", o[0, 0, 0, 0].item())
    wrong += not bool(o[0, 0].isfinite().all())
sys.exit(bool(wrong))
