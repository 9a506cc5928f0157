"""FlashInfer's attention for a batch, on a GPU: queries packed, keys packed or in pages; its sinks, its merges and its append.

Rows are (row, head, dim). Causal is bottom right, and a window has a left side alone, which includes its key. The LSE is
(row, head), of base 2. Dense keys are put into pages of 16. It compiles for each format, and for having a window or a cap.
"""

import functools
from dataclasses import replace

import torch

import attnfuzz
from attnfuzz.asleep import asleep
from attnfuzz.targets.flashinfer_attention import FA2, GROUPS, contiguous, refusals
from attnfuzz.targets.torch_sdpa import ALIGNED, POSITIVE

with asleep():
    import flashinfer

DIM = 128
PAGES = dict(features=("packed", "paged", "int32"), bias=False, mask=False, align="bottom_right", dim={DIM}, equal_dims=True,
             batch=attnfuzz.at_least(1), seq=attnfuzz.at_least(1), scale=POSITIVE, lse_base=2, dtypes="f16", non_finite=False, **ALIGNED)
# The LSE sums probabilities that are rounded first (docs/found/flashinfer/flashinfer-lse-of-rounded-sums.py).
NO_LSE = dict(PAGES, lse=attnfuzz.shows_known())


@functools.cache
def wrapper(kind, *arguments, **more):
    """One wrapper of each kind for all calls, as a serving engine has it; every call makes a new plan."""
    with attnfuzz.compiling():
        return kind(torch.empty(128 << 20, dtype=torch.uint8, device="cuda"), *arguments, **more)


def rows(t):
    """(row, head, dim); packed tensors lie so already."""
    return contiguous(t if t.ndim == 3 else t.transpose(1, 2).reshape(-1, t.shape[1], t.shape[3]))


def borders(lengths):
    return torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).int()


def queries(p, q, cu_seqlens_q):
    """Q as rows up to the last entry's, and the borders of its entries."""
    if cu_seqlens_q is None:
        return rows(q), torch.arange(p.batch + 1, dtype=torch.int32, device=q.device) * p.seq_q
    return q[: int(cu_seqlens_q[-1])].contiguous(), cu_seqlens_q.int()


def pages(p, k, v, block_table, key_lengths, cu_seqlens_k=None):
    """The pools; how FlashInfer names pages: borders, indices, and keys on the last page of each entry; and the lengths."""
    k, v, table, lengths = attnfuzz.paged(p, k, v, block_table, key_lengths, cu_seqlens_k=cu_seqlens_k)
    k, v = (torch.empty(t.shape, dtype=t.dtype, device=t.device).copy_(t) for t in (k, v))  # pools need the same strides
    size = k.shape[2]
    counts = (lengths + size - 1) // size
    used = torch.arange(table.shape[1], device=k.device)[None, :] < counts[:, None]
    return (k, v), (borders(counts), table[used].int(), ((lengths - 1) % size + 1).int()), lengths


def check_order(causal, cu, lengths):
    """Known: under a causal mask, rows that see no key get numbers if there are more queries than keys."""
    if causal and bool((cu.diff() > lengths).any()):
        attnfuzz.known("causal with more queries than keys (docs/found/flashinfer/flashinfer-batch-more-queries-than-keys.py)")


def sides_of(p):
    """(causal, left side of a window or -1 for none). A right side of 0 is causal; seq_q - 1 or more hides no key."""
    if not p.causal and 0 < p.window_right < p.seq_q - 1:
        raise attnfuzz.Unsupported("a window with a right side")
    return p.causal or p.window_right == 0, -1 if p.window_left < 0 else min(p.window_left, p.seq_q + p.seq_k)


def result(p, out, lse=None):
    """O and the LSE in the form of the case. Rows after the last entry are 0."""
    behind = p.total_q - len(out) if p.ragged & 1 else 0
    out = torch.nn.functional.pad(out, (0, 0, 0, 0, 0, behind))
    return attnfuzz.unpack(p, out, None if lse is None else torch.nn.functional.pad(lse, (0, 0, 0, behind)).transpose(0, 1))


@attnfuzz.target(device="cuda", tiles=(128, 64), errors=FA2, compiles=("dtype", "dim"), domain=attnfuzz.Domain(**NO_LSE))
def paged(p, q, k, v, cu_seqlens_q=None, cu_seqlens_k=None, key_lengths=None, block_table=None):
    """FlashInfer, BatchPrefillWithPagedKVCacheWrapper, fa2"""
    q, cu = queries(p, q, cu_seqlens_q)
    pools, names, lengths = pages(p, k, v, block_table, key_lengths, cu_seqlens_k)
    causal, left = sides_of(p)
    check_order(causal, cu, lengths)
    call = wrapper(flashinfer.BatchPrefillWithPagedKVCacheWrapper, "HND", backend="fa2")
    with refusals(), attnfuzz.compiling():
        call.plan(cu, *names, p.heads_q, p.heads_kv, p.dim_qk, pools[0].shape[2], causal=causal, sm_scale=p.scale,
                  window_left=left, logits_soft_cap=p.softcap or None, q_data_type=q.dtype)
        return result(p, *call.run(q, pools, return_lse=True))


@attnfuzz.target(device="cuda", tiles=(128, 64), errors=FA2, compiles=("dtype", "dim"),
                 domain=attnfuzz.Domain(**dict(NO_LSE, features=("packed", "int32"), key_lengths=False)))
def ragged(p, q, k, v, cu_seqlens_q=None, cu_seqlens_k=None):
    """FlashInfer, BatchPrefillWithRaggedKVCacheWrapper, fa2"""
    q, k, v, cu_q, cu_k = attnfuzz.pack(p, q, k, v, cu_seqlens_q, cu_seqlens_k)
    q, k, v = (t[: int(cu[-1])].contiguous() for t, cu in ((q, cu_q), (k, cu_k), (v, cu_k)))
    causal, left = sides_of(p)
    check_order(causal, cu_q, cu_k.diff())
    call = wrapper(flashinfer.BatchPrefillWithRaggedKVCacheWrapper, "NHD", backend="fa2")
    with refusals(), attnfuzz.compiling():
        call.plan(cu_q.int(), cu_k.int(), p.heads_q, p.heads_kv, p.dim_qk, causal=causal, sm_scale=p.scale,
                  window_left=left, logits_soft_cap=p.softcap or None, q_data_type=q.dtype)
        return result(p, *call.run(q, k, v, return_lse=True))


@attnfuzz.target(device="cuda", tiles=(1, 64), compiles=("dtype", "dim"),
                 errors=replace(FA2, accumulator="ffma", p="fp32", scale="separate_fma"),
                 domain=attnfuzz.Domain(**dict(PAGES, features=("paged", "int32"), causal=False, group=set(GROUPS), seq=None,
                                               seq_q=1, seq_k=attnfuzz.at_least(1))))
def decode(p, q, k, v, key_lengths=None, block_table=None):
    """FlashInfer, BatchDecodeWithPagedKVCacheWrapper"""
    pools, names, _ = pages(p, k, v, block_table, key_lengths)
    call = wrapper(flashinfer.BatchDecodeWithPagedKVCacheWrapper, "HND")
    with refusals(), attnfuzz.compiling():
        call.plan(*names, p.heads_q, p.heads_kv, p.dim_qk, pools[0].shape[2], sm_scale=p.scale, window_left=sides_of(p)[1],
                  logits_soft_cap=p.softcap or None, q_data_type=q.dtype)
        return result(p, *call.run(q[:, :, 0].contiguous(), pools, return_lse=True))


@attnfuzz.target(device="cuda", tiles=(128, 64), errors=FA2, compiles=("dtype", "dim"),
                 domain=attnfuzz.Domain(**dict(NO_LSE, features=("packed", "paged", "int32", "has_sink"), softcap=False)))
def sinks(p, q, k, v, cu_seqlens_q=None, cu_seqlens_k=None, key_lengths=None, block_table=None, sink=None):
    """FlashInfer, BatchAttentionWithAttentionSinkWrapper, fa2"""
    sink = torch.full((p.heads_q,), -torch.inf, device=q.device) if sink is None else sink.float().contiguous()  # -inf: none
    q, cu = queries(p, q, cu_seqlens_q)
    pools, names, lengths = pages(p, k, v, block_table, key_lengths, cu_seqlens_k)
    causal, left = sides_of(p)
    check_order(causal, cu, lengths)
    call = wrapper(flashinfer.BatchAttentionWithAttentionSinkWrapper, "HND", backend="fa2", q_data_type=q.dtype,
                   kv_data_type=q.dtype, window_left=0 if left >= 0 else -1)
    with refusals(), attnfuzz.compiling():
        call.plan(cu, *names, p.heads_q, p.heads_kv, p.dim_qk, pools[0].shape[2], causal=causal, window_left=left,
                  q_data_type=q.dtype)
        return result(p, *call.run(q, pools, sink, p.scale, return_lse=True))


MERGE = dict(operation="merge", device="cuda", errors=FA2,
             domain=attnfuzz.Domain(dtypes=("f16", "bf16"), lse_base=2, dim_v={64, 128, 256},
                                    batch=attnfuzz.at_least(1), seq_q=attnfuzz.at_least(1), heads_q=attnfuzz.at_most(65535)))


# A block has heads * dim / 8 threads.
def check_threads(heads, dim):
    if heads * dim > 8192:
        attnfuzz.known("a block of more than 1,024 threads (docs/found/flashinfer/flashinfer-merge-many-heads.attn.json)")


def sides(p, o1, o2, lse1, lse2):
    """Both sides as FlashInfer has them: (row, head, dim) and (row, head)."""
    check_threads(p.heads_q, p.dim_v)
    return [x for o, lse in ((o1, lse1), (o2, lse2))
            for x in (rows(o), lse.transpose(1, 2).reshape(-1, lse.shape[1]).contiguous())]


@attnfuzz.target(**MERGE)
def merge(p, o1, o2, lse1, lse2):
    """FlashInfer, merge_state"""
    with refusals(), attnfuzz.compiling():
        return result(p, *flashinfer.merge_state(*sides(p, o1, o2, lse1, lse2)))


@attnfuzz.target(**MERGE)
def merge_in_place(p, o1, o2, lse1, lse2):
    """FlashInfer, merge_state_in_place"""
    o, lse, *other = sides(p, o1.clone(), o2, lse1.clone(), lse2)
    with refusals(), attnfuzz.compiling():
        flashinfer.merge_state_in_place(o, lse, *other)
    return result(p, o, lse)


@attnfuzz.target(**MERGE)
def merge_many(p, o1, o2, lse1, lse2):
    """FlashInfer, merge_states"""
    o1, lse1, o2, lse2 = sides(p, o1, o2, lse1, lse2)
    with refusals(), attnfuzz.compiling():
        return result(p, *flashinfer.merge_states(torch.stack((o1, o2), 1), torch.stack((lse1, lse2), 1)))


def fits(k, v):
    """True if append can write into the pools: it takes one set of strides for both, and writes 16 bytes at once."""
    aligned = all(t.data_ptr() % 16 == 0 and all(s % 8 == 0 for n, s in zip(t.shape[:3], t.stride()) if n > 1) for t in (k, v))
    return k.stride() == v.stride() and (aligned or attnfuzz.shows_known())


@attnfuzz.target(operation="append", device="cuda",
                 domain=attnfuzz.Domain(features=("packed", "paged", "int32"), layout="inner", equal_dims=True,
                                        dim={64, 128, 256}, seq_k=attnfuzz.at_least(1)))
def append(p, k, v, k_new, v_new, key_lengths=None, block_table=None, cu_seqlens_q=None):
    """FlashInfer, append_paged_kv_cache"""
    check_threads(p.heads_kv, p.dim_qk)
    # In a cache without pages each entry is a page.
    size, table = (p.page_size, block_table) if p.page_size else (p.seq_k, torch.arange(p.batch, device=k.device)[:, None])
    cu = queries(p, k_new, cu_seqlens_q)[1].long()
    new = torch.arange(int(cu[-1]), device=k.device)
    entry = torch.searchsorted(cu[1:], new, right=True)
    before = key_lengths.long().clamp(0, p.seq_k)
    key = before[entry] + new - cu[entry]
    stays = key < p.seq_k
    lengths = (before + cu.diff()).clamp(max=p.seq_k)
    counts = (lengths + size - 1) // size
    used = torch.arange(table.shape[1], device=k.device)[None, :] < counts[:, None]
    k_new, v_new = (rows(t)[: len(new)][stays] for t in (k_new, v_new))
    if not len(k_new):
        return
    pools = (k, v) if fits(k, v) else tuple(t.clone(memory_format=torch.contiguous_format) for t in (k, v))
    with refusals(), attnfuzz.compiling():
        flashinfer.append_paged_kv_cache(k_new, v_new, entry[stays].int(), key[stays].int(), pools, table[used].int(),
                                         borders(counts), ((lengths - 1) % size + 1).int(), kv_layout="HND")
    k.copy_(pools[0])
    v.copy_(pools[1])
