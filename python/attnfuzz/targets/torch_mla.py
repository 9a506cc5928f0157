"""The decode of multi-head latent attention in plain PyTorch operators, in fp32: 576 columns of Q and K, of which the first
512 of K are V, in many cases with one KV head."""

import torch

import attnfuzz
from attnfuzz.masks import visible

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@attnfuzz.target(device=DEVICE, arrays="torch",
                 errors=attnfuzz.Errors(accumulator="ffma", p="fp32", exp="expf", log="logf", rcp="exact", scale="separate"),
                 domain=attnfuzz.Domain(dim_qk=576, dim_v=512, features=("latent",), softcap=False, bias=False, mask=False,
                                        non_finite=False))
def mla(p, q, k, v, key_lengths=None):
    """MLA in plain operators: matmul, softmax, matmul"""
    seen = visible(p, None if key_lengths is None else key_lengths.cpu().numpy())
    if key_lengths is not None:  # nothing beyond a length is read
        beyond = torch.arange(p.seq_k, device=k.device)[:, None] >= key_lengths.reshape(-1, 1, 1, 1)
        k, v = k.masked_fill(beyond, 0), v.masked_fill(beyond, 0)
    k, v = (t.float().repeat_interleave(p.heads_q // p.heads_kv, dim=1) for t in (k, v))
    x = q.float() @ k.mT * p.scale
    if seen is not None:
        x = x.masked_fill(~torch.from_numpy(seen).to(x.device), -torch.inf)
    lse = x.logsumexp(-1) if p.seq_k else x.new_full(x.shape[:-1], -torch.inf)
    weights = x.softmax(-1).masked_fill((lse == -torch.inf)[..., None], 0)
    return weights @ v, lse
