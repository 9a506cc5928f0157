"""vLLM's attention kernels in Triton: its paged and packed attention, decode, merge and cache writes, a target each; `cache`
runs writes and attention in sequences of calls. On a GPU; with TRITON_INTERPRET=1 on the CPU, in f16.

Rows are (row, head, dim), with packed queries. Pools of keys are (page, slot, head, dim). Causal is bottom right. If it is
causal, a window has only a left side, and otherwise two equal sides. Dense keys are put into pages of 16, and packed keys are pages of one.
"""

import copy
from dataclasses import replace

import torch

import attnfuzz
from attnfuzz.asleep import asleep
from attnfuzz.targets.triton_attention import INTERPRETED

with asleep():
    from vllm.v1.attention.ops.triton_decode_attention import decode_attention_fwd
    from vllm.v1.attention.ops.triton_merge_attn_states import merge_attn_states
    from vllm.v1.attention.ops.triton_reshape_and_cache_flash import triton_reshape_and_cache_flash
    from vllm.v1.attention.ops.triton_unified_attention import unified_attention

ERRORS = attnfuzz.Errors(accumulator="tensor", p="input", exp="fast_expf", log="fast_logf", rcp="approx", tanh="approx",
                         scale="separate")
# Split-K keeps the parts in fp32; they are weighed by their maxima.
SPLITS = 16
SPLIT = replace(ERRORS, partials="fp32", merge="weight", merges=SPLITS)
HERE = dict(device="cpu" if INTERPRETED else "cuda", arrays="torch")
DTYPES = dict(dtypes="f16" if INTERPRETED else ("f16", "bf16"))
COMPILES = ("dtype", "heads", "dim", "causal", "window")
PAGED = dict(DTYPES, features=("packed", "paged", "int32", "has_sink", "has_alibi"), bias=False, mask=False, align="bottom_right",
             seq_k=attnfuzz.at_least(1), dim=attnfuzz.multiple(8, least=16, most=256), equal_dims=True, lse=False)


def rows_of(*tensors):
    """(row, head, dim); packed tensors lie so already."""
    return [t if t.ndim == 3 else t.transpose(1, 2).reshape(-1, t.shape[1], t.shape[3]) for t in tensors]


def borders_of(p, cu_seqlens_q, device):
    return torch.arange(p.batch + 1, device=device) * p.seq_q if cu_seqlens_q is None else cu_seqlens_q.long()


def pages_of(p, k, v, cu_seqlens_k, key_lengths, block_table):
    """Pools (page, slot, head, dim), the table and the lengths, both int32. Pages of odd sizes become pages of 16."""
    if p.page_size not in (0, 1, 16, 32, 64, 128, 256):
        k, v = attnfuzz.gather(p, k, v, block_table, key_lengths)
        block_table, p = None, without_pages(p)
    k, v, table, lengths = attnfuzz.paged(p, k, v, block_table, key_lengths, cu_seqlens_k=cu_seqlens_k)
    return k.transpose(1, 2), v.transpose(1, 2), table.int(), lengths.int()


def without_pages(p):
    """The same problem without pages."""
    p = copy.copy(p)
    p.page_size = p.pages = p.pages_per_seq = 0
    return p


def window_of(p):
    """(causal, the keys to the left that a window has, or -1), as the kernel has them."""
    far = p.seq_q + p.seq_k
    left, right = (-1 if side < 0 else min(side, far) for side in (p.window_left, p.window_right))
    if p.causal or right == 0 or (p.seq_q == 1 and left != right):  # a single query is the last of the keys
        return True, left
    if left != right:
        raise attnfuzz.Unsupported("a window of two sides that differ")
    return False, left


def slopes_of(p, slopes, causal):
    """One slope a head. The kernel adds slope * key position, which has the same softmax only if no key lies ahead."""
    if slopes is None:
        return None
    if not causal:
        raise attnfuzz.Unsupported("ALiBi without a causal mask")
    if p.batch > 1 and bool((slopes != slopes[:1]).any()):
        raise attnfuzz.Unsupported("slopes that differ between batch entries")
    return slopes[:1].reshape(-1).contiguous()


def unified_of(p, q, k, v, cu_seqlens_q, cu_seqlens_k, key_lengths, block_table, sink, slopes, split):
    causal, left = window_of(p)
    slopes = slopes_of(p, slopes, causal)
    k, v, table, lengths = pages_of(p, k, v, cu_seqlens_k, key_lengths, block_table)
    borders = borders_of(p, cu_seqlens_q, q.device)
    if (causal or left >= 0) and bool((borders.diff() > lengths).any()):
        raise attnfuzz.Unsupported("more queries than keys: queries are the last of the keys")
    if split and bool((lengths == 0).any()):
        attnfuzz.known("a sequence without keys, of which O is not written")
    q = rows_of(q)[0].contiguous()
    out = torch.empty_like(q)
    room = q.new_empty(len(q), p.heads_q, SPLITS, 1 << (p.dim_qk - 1).bit_length(), dtype=torch.float32) if split else None
    sums = [room.new_empty(room.shape[:3]) if split else None for _ in range(2)]
    with attnfuzz.compiling():
        unified_attention(q, k, v, out, borders.int(), p.seq_q, lengths, p.seq_k, p.scale, causal, (left, -1 if causal else left), table,
                          p.softcap, None, None, None, seq_threshold_3D=1 << 30 if split else None,
                          num_par_softmax_segments=SPLITS if split else None, softmax_segm_output=room, softmax_segm_max=sums[0],
                          softmax_segm_expsum=sums[1], alibi_slopes=slopes, sinks=None if sink is None else sink.contiguous())
    return attnfuzz.unpack(p, out)


@attnfuzz.target(**HERE, tiles=(16, 32), errors=ERRORS, compiles=COMPILES, domain=attnfuzz.Domain(**PAGED))
def unified(p, q, k, v, cu_seqlens_q=None, cu_seqlens_k=None, key_lengths=None, block_table=None, sink=None, slopes=None):
    """vLLM, unified_attention, one pass"""
    return unified_of(p, q, k, v, cu_seqlens_q, cu_seqlens_k, key_lengths, block_table, sink, slopes, split=False)


# vLLM takes one pass if there are more than 8 queries, or more than one and no causal order.
@attnfuzz.target(**HERE, tiles=(16, 16), errors=SPLIT, compiles=COMPILES,
                 domain=attnfuzz.Domain(seq_q=attnfuzz.at_most(8), causal="only", **PAGED))
def unified_split(p, q, k, v, cu_seqlens_q=None, cu_seqlens_k=None, key_lengths=None, block_table=None, sink=None, slopes=None):
    """vLLM, unified_attention, keys in 16 segments"""
    return unified_of(p, q, k, v, cu_seqlens_q, cu_seqlens_k, key_lengths, block_table, sink, slopes, split=True)


def decode_of(p, q, k, v, key_lengths, block_table, latent):
    k, v, table, lengths = pages_of(p, k, v, None, key_lengths, block_table)
    if bool((lengths == 0).any()):
        attnfuzz.known("a sequence without keys: O is 0 / 0")
    if any(t.shape[1] * t.stride(1) >= 1 << 31 for t in (k, v)):
        raise attnfuzz.Unsupported("slots of a page that are 2^31 elements apart: the offset of a slot has 32 bits")
    q = q[:, :, 0].contiguous()
    out, lse = q.new_empty(p.batch, p.heads_q, p.dim_v), q.new_empty(p.batch, p.heads_q, dtype=torch.float32)
    splits = 4
    parts = q.new_empty(p.batch, p.heads_q, splits, p.dim_v + 1, dtype=torch.float32)
    with attnfuzz.compiling():
        decode_attention_fwd(q, k, k[..., : p.dim_v] if latent else v, out, lse, table, lengths, parts, splits, p.scale,
                             k.shape[1], p.softcap, is_mla=latent)
    return out[:, :, None], lse[:, :, None]


# Two known faults limit groups to 2..16. A group of 1 rounds Q K to Q's format (docs/found/vllm/vllm-decode-without-groups.py).
# In a group above 16 that is no multiple of 16, some heads read another KV head (docs/found/vllm/vllm-decode-groups-of-17.py).
GROUPS = None if attnfuzz.shows_known() else range(2, 17)
DECODE = dict(PAGED, layout="inner", group=GROUPS, seq_q=1, causal=False, window=False, lse=True)


@attnfuzz.target(**HERE, tiles=(1, 32), errors=replace(SPLIT, merges=4), compiles=COMPILES + ("softcap",),
                 domain=attnfuzz.Domain(**dict(DECODE, features=("paged", "int32"))))
def decode(p, q, k, v, key_lengths=None, block_table=None):
    """vLLM, decode_attention_fwd"""
    return decode_of(p, q, k, v, key_lengths, block_table, latent=False)


@attnfuzz.target(**HERE, tiles=(1, 32), errors=replace(SPLIT, merges=4), compiles=COMPILES + ("softcap",),
                 domain=attnfuzz.Domain(**dict(DECODE, features=("latent", "paged", "int32"), dim=None, dim_qk=576, dim_v=512,
                                               equal_dims=False)))
def mla(p, q, k, v, key_lengths=None, block_table=None):
    """vLLM, decode_attention_fwd of multi-head latent attention"""
    return decode_of(p, q, k, v, key_lengths, block_table, latent=bool(p.latent) and p.heads_q != p.heads_kv)


@attnfuzz.target(**HERE, operation="merge", errors=SPLIT, compiles=("dtype", "dim"),
                 domain=attnfuzz.Domain(**DTYPES, dim_v=attnfuzz.at_most(256), heads_q=attnfuzz.at_most(65535)))
def merge(p, o1, o2, lse1, lse2):
    """vLLM, merge_attn_states in Triton"""
    rows = p.batch * p.seq_q
    o1, o2 = (t.contiguous() for t in rows_of(o1, o2))
    lse1, lse2 = (t.transpose(0, 1).reshape(p.heads_q, rows) for t in (lse1, lse2))
    out, lse = torch.empty_like(o1), torch.empty_like(lse1)
    with attnfuzz.compiling():
        merge_attn_states(out, o1, lse1, o2, lse2, lse)
    return attnfuzz.unpack(p, out, lse)


@attnfuzz.target(**HERE, operation="append", compiles=("dtype", "heads", "dim"),
                 domain=attnfuzz.Domain(**DTYPES, features=("packed", "paged", "int32"), layout="inner", equal_dims=True,
                                        seq_k=attnfuzz.at_least(1)))
def append(p, k, v, k_new, v_new, key_lengths=None, block_table=None, cu_seqlens_q=None):
    """vLLM, triton_reshape_and_cache_flash"""
    # In a cache without pages each entry is a page.
    size, table = (p.page_size, block_table.long()) if p.page_size else (p.seq_k, torch.arange(p.batch, device=k.device)[:, None])
    cu = borders_of(p, cu_seqlens_q, k.device)
    rows = torch.arange(int(cu[-1]), device=k.device)
    entry = torch.searchsorted(cu[1:], rows, right=True)
    key = key_lengths.long().clamp(0, p.seq_k)[entry] + rows - cu[entry]
    page = table[entry, (key // size).clamp(max=table.shape[1] - 1)]
    slots = torch.where(key < p.seq_k, page * size + key % size, -1)
    one = torch.ones((), device=k.device)
    k_new, v_new = (t[: len(rows)].contiguous() for t in rows_of(k_new, v_new))
    # It reads the strides of K alone.
    calls = [(k_new, v_new, k, v)] if k.stride() == v.stride() else [(k_new, k_new, k, k), (v_new, v_new, v, v)]
    for keys, values, *pools in calls:
        with attnfuzz.compiling():
            triton_reshape_and_cache_flash(keys, values, *(t.transpose(1, 2) for t in pools), slots, "auto", one, one)


class Cache:
    """vLLM's writes of a cache, and its attention over it"""

    def __init__(self, setup):
        pass

    def append(self, p, k, v, k_new, v_new, key_lengths, block_table, cu_seqlens_q=None):
        append.function(p, k, v, k_new, v_new, key_lengths, block_table, cu_seqlens_q)

    def attend(self, p, q, k, v, key_lengths, block_table, cu_seqlens_q=None):
        return unified.function(p, q, k, v, cu_seqlens_q, key_lengths=key_lengths, block_table=block_table)


cache = attnfuzz.cache(**HERE, tiles=(16, 32), errors=ERRORS, compiles=COMPILES,
                       domain=attnfuzz.Domain(**dict(PAGED, features=("packed", "int32"))))(Cache)
