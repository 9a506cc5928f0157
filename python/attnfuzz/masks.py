"""Helpers of adapters that translate a case for a library. Arrays are NumPy's or torch's."""

import copy
import math

from attnfuzz.operations import blocks_of, most_positions


def one_mask(bias=None, mask=None):
    """The single additive or boolean mask that a library takes: the bias with -inf where the mask
    is False, one of the two if there is only one, or None."""
    if bias is None:
        return mask
    if mask is None:
        return bias
    if hasattr(bias, "masked_fill"):
        return bias.masked_fill(~mask, -math.inf)
    import numpy

    return numpy.where(mask, bias, numpy.float32(-math.inf))


def sees_nothing(p, bias=None, mask=None, key_lengths=None):
    """The queries of NumPy arrays that see no key, as booleans (batch, heads_q, seq_q). An adapter
    needs it for a library that does not return zeros for such queries."""
    import numpy

    seen = numpy.ones((p.batch, p.heads_q, p.seq_q, p.seq_k), bool)
    by_position = visible(p, key_lengths)
    if by_position is not None:
        seen &= by_position
    if mask is not None:
        seen &= mask
    if bias is not None:
        seen &= numpy.asarray(bias, numpy.float32) != -numpy.inf
    return ~seen.any(axis=-1)


def finite_padding(t, key_lengths):
    """K or V as a NumPy array, with zeros in place of NaN and infinities beyond the lengths. An
    adapter needs it for a library that computes with those values and masks them by adding a
    number."""
    import numpy

    beyond = numpy.arange(t.shape[2])[:, None] >= numpy.asarray(key_lengths).reshape(-1, 1, 1, 1)
    return numpy.where(beyond & ~numpy.isfinite(t), numpy.zeros((), t.dtype), t)


def pack(p, q, k, v=None, cu_seqlens_q=None, cu_seqlens_k=None):
    """(q, k, v, cu_seqlens_q, cu_seqlens_k) with both sides packed as (row, head, dim), for a
    library that takes only this form. A packed side stays as it is. The entries of an unpacked side
    are laid one after another, with int32 offsets. unpack() converts the library's O and LSE
    back. v is None if there is none."""
    if cu_seqlens_q is None:
        q, cu_seqlens_q = _rows_behind_each_other(q), _equal_borders(p, p.seq_q, q)
    if cu_seqlens_k is None:
        cu_seqlens_k = _equal_borders(p, p.seq_k, k)
        k, v = (None if t is None else _rows_behind_each_other(t) for t in (k, v))
    return q, k, v, cu_seqlens_q, cu_seqlens_k


def unpack(p, o, lse=None):
    """Converts O of (row, head, dim), or O and an LSE of (head, row), to the case's form. They stay
    as they are if its queries are packed. In place of O it also converts lists of blocks, and scores of
    blocks: (row, KV head, block)."""
    if not p.ragged & 1:
        o = o.reshape(p.batch, p.seq_q, *o.shape[1:]).swapaxes(1, 2)
        lse = None if lse is None else lse.reshape(lse.shape[0], p.batch, p.seq_q).swapaxes(0, 1)
    return o if lse is None else (o, lse)


def _rows_behind_each_other(t):
    return t.swapaxes(1, 2).reshape(t.shape[0] * t.shape[2], t.shape[1], t.shape[3])


def _equal_borders(p, rows, like):
    if type(like).__module__.split(".")[0] == "torch":
        import torch

        return torch.arange(p.batch + 1, dtype=torch.int32, device=like.device) * rows
    import numpy

    return numpy.arange(p.batch + 1, dtype=numpy.int32) * numpy.int32(rows)


def entries(p, q, k, v=None, cu_seqlens_q=None, cu_seqlens_k=None, **more):
    """Each batch entry of a call of NumPy arrays as a dense call with a batch of 1: (place, p, arrays). `place` is where its
    rows are in an O of the whole call, as O[place], and in its lists and scores of blocks; place_rows() puts them there. The
    arrays are q, k, and those of v, bias, mask, key_lengths, sink, slopes, indices, dout, o, lse and dlse that are given. An
    entry with fewer keys than p.seq_k has fewer blocks: the p that it comes with has its own number of them. Keys in pages are
    gathered first: gather()."""
    for b in range(p.batch):
        of = copy.copy(p)
        of.batch, of.ragged, of.total_q, of.total_k = 1, 0, 0, 0
        of.page_size = of.pages = of.pages_per_seq = 0
        queries = _rows_of(cu_seqlens_q, b)
        keys = _rows_of(cu_seqlens_k, b)
        arrays = {"q": _one(q, b, queries), "k": _one(k, b, keys), **({} if v is None else {"v": _one(v, b, keys)})}
        of.seq_q, of.seq_k = arrays["q"].shape[2], arrays["k"].shape[2]
        if getattr(of, "block", 0):
            of.blocks = blocks_of(of)
        for name, array in more.items():
            if array is None or name == "sink":
                arrays[name] = array
            elif name in ("dout", "o", "indices"):
                arrays[name] = _one(array, b, queries)
            elif name in ("lse", "dlse"):
                arrays[name] = array[b : b + 1] if queries is None else array[None, :, queries]
            elif name in ("bias", "mask"):
                arrays[name] = array[b : b + 1, :, : of.seq_q, : of.seq_k]
            else:
                arrays[name] = array[b : b + 1]
        yield (b if queries is None else queries), of, arrays


def place_rows(p, to, place, of):
    """Puts the rows of one of entries() where they belong: `of` is O, a gradient of Q, a list or scores of a dense call with a
    batch of 1, and `to` that of the whole call. If `to` has more columns, the rest of them stays as it is."""
    to[place][..., : of.shape[-1]] = of[0].swapaxes(0, 1) if p.ragged & 1 else of[0]


def gather(p, k, v, block_table=None, key_lengths=None):
    """K and V of a call with pages as dense arrays, (batch, heads_kv, p.seq_k, dim), NumPy's or torch's. Rows at and beyond a
    length hold 0. Without pages k and v stay as they are."""
    if not p.page_size:
        return k, v
    return tuple(_gathered(p, pool, block_table, key_lengths) for pool in (k, v))


def paged(p, k, v, block_table=None, key_lengths=None, size=16, cu_seqlens_k=None):
    """(k, v, block_table, key_lengths) with keys in pages, for a library that takes only this form.
    Lengths are from 0 to p.seq_k. Dense keys are put into pages of `size` slots, (page, heads_kv,
    slot, dim). Packed keys stay where they are: a row is a page of one slot. A given table is kept,
    but its entries that no key needs become 0."""
    module = _torch_of(k) or _numpy()
    where = {} if module is _numpy() else {"device": k.device}
    columns = lambda n: module.arange(n, **where)[None, :]
    lengths = module.full((p.batch,), p.seq_k, **where) if key_lengths is None else key_counts(p, key_lengths)
    if cu_seqlens_k is not None:
        lengths = module.minimum(lengths, cu_seqlens_k[1:] - cu_seqlens_k[:-1])
        table = cu_seqlens_k[:-1, None] + columns(p.seq_k)
        return k[:, :, None], v[:, :, None], table * (columns(p.seq_k) < lengths[:, None]), lengths
    if p.page_size:
        return k, v, block_table * (columns(p.pages_per_seq) * p.page_size < lengths[:, None]), lengths
    each = -(-p.seq_k // size)
    pools = [_pages_of(None if module is _numpy() else module, t, size, each) for t in (k, v)]
    return *pools, module.arange(p.batch * each, **where).reshape(p.batch, each), lengths


def _numpy():
    import numpy

    return numpy


def _pages_of(torch, t, size, each):
    batch, heads, rows, dim = t.shape
    if torch:
        t = torch.nn.functional.pad(t, (0, 0, 0, each * size - rows))
    else:
        import numpy

        t = numpy.pad(t, ((0, 0), (0, 0), (0, each * size - rows), (0, 0)))
    return t.reshape(batch, heads, each, size, dim).swapaxes(1, 2).reshape(batch * each, heads, size, dim)


def _torch_of(t):
    """The module torch if the array is a torch tensor, else None."""
    if type(t).__module__.split(".")[0] != "torch":
        return None
    import torch

    return torch


def _gathered(p, pool, block_table, key_lengths):
    shape = (p.batch, pool.shape[1], p.seq_k, pool.shape[3])
    if _torch_of(pool):
        dense = pool.new_zeros(shape)
    else:
        import numpy

        dense = numpy.zeros(shape, pool.dtype)
    for b in range(p.batch):
        keys = int(key_counts(p, key_lengths)[b])
        for n in range(-(-keys // p.page_size)):
            first = n * p.page_size
            count = min(p.page_size, keys - first)
            dense[b, :, first : first + count] = pool[int(block_table[b, n]), :, :count]
    return dense


def _rows_of(borders, b):
    return None if borders is None else slice(int(borders[b]), int(borders[b + 1]))


def _one(t, b, rows):
    return t[b : b + 1] if rows is None else t[rows].swapaxes(0, 1)[None]


def key_positions(p):
    """The position of each key: its number, or that of the last key of the block that it stands for (p.key_step)."""
    import numpy

    return numpy.arange(p.seq_k) * max(p.key_step, 1) + p.key_offset


def key_counts(p, key_lengths):
    """The number of keys of each batch entry, in an array of NumPy or torch like key_lengths: the length, clamped to 0 ..
    p.seq_k. If keys stand for blocks, a length counts positions, and the keys are the blocks that end within it."""
    step = max(p.key_step, 1)
    within = key_lengths.clip(0, most_positions(p))  # the sum of an int32 of 2^31 - 1 would wrap
    return ((within - p.key_offset + step - 1) // step).clip(0, p.seq_k)


def _diagonal(p, key_lengths):
    """The lengths (batch or 1, 1, 1, 1), and the position on the diagonal of each query."""
    import numpy

    most = most_positions(p)
    if key_lengths is None:
        length = numpy.full((1, 1, 1, 1), most)
    else:
        length = numpy.clip(numpy.asarray(key_lengths), 0, most).reshape(-1, 1, 1, 1)
    return length, numpy.arange(p.seq_q)[:, None] + (length - p.seq_q if p.align == "bottom_right" else 0)


def candidates(p, key_lengths=None):
    """For target(operation="nsa_score"): the number of blocks from which each query may choose, as a NumPy array (batch or 1, 1,
    seq_q). A query may choose the blocks that begin at or before the last position that it sees."""
    import numpy

    length, diagonal = _diagonal(p, key_lengths)
    ends = numpy.clip(diagonal + 1, 0, length) if p.causal else numpy.broadcast_to(length, (len(length), 1, p.seq_q, 1))
    return -(-ends[..., 0] // p.block)


def block_shares(p):
    """The share of each compressed key's weight that each block gets: (seq_k, p.blocks) in fp32. It is the number of positions
    that the key and the block have in common, divided by p.key_step."""
    import numpy

    key, block = numpy.arange(p.seq_k)[:, None] * p.key_step, numpy.arange(p.blocks) * p.block
    common = numpy.minimum(key + p.key_offset + 1, block + p.block) - numpy.maximum(key, block)
    return numpy.maximum(common, 0).astype(numpy.float32) / numpy.float32(p.key_step)


def distances(p, key_lengths=None):
    """The distance of each key from its query's diagonal, which ALiBi multiplies by a slope: (batch or 1, 1, seq_q, seq_k)."""
    import numpy

    return abs(_diagonal(p, key_lengths)[1] - numpy.arange(p.seq_k))


def visible(p, key_lengths=None):
    """The keys that a query sees by position, as a boolean NumPy array (batch or 1, 1, seq_q, seq_k); None: all."""
    import numpy

    if key_lengths is None and not p.causal and p.window_left < 0 and p.window_right < 0:
        return None
    j = key_positions(p)[None, :]
    length, diagonal = _diagonal(p, key_lengths)
    seen = numpy.broadcast_to(j < length, (length.shape[0], 1, p.seq_q, p.seq_k)).copy()
    far = p.seq_q + most_positions(p)  # clamps a window that may be up to 2^63 - 1 wide
    right = 0 if p.causal else None
    if p.window_right >= 0:
        right = min(p.window_right, far) if right is None else right
    if right is not None:
        seen &= j <= diagonal + right
    if p.window_left >= 0:
        seen &= j >= diagonal - min(p.window_left, far)
    return seen
