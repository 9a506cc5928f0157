"""A call of attention made of arrays of any library, and the oracle's answer to it."""

import ctypes
import math

from attnfuzz import contract as c
from attnfuzz.domain import Domain
from attnfuzz.errors import Errors
from attnfuzz.home import find
from attnfuzz.operations import DTYPES, RAGGED_KEYS, RAGGED_QUERIES

_library = None


class _Expected(ctypes.Structure):
    _fields_ = [("value", ctypes.c_void_p), ("bound", ctypes.c_void_p), ("got", ctypes.c_void_p),
                ("ratio", ctypes.c_void_p), ("rows", ctypes.c_void_p)]


class NotJudged(UserWarning):
    """A result is within its bounds, but most of its rows have bounds that any result meets. `attnfuzz check` does not count
    such a case as passed. To make it an error: warnings.simplefilter("error", attnfuzz.NotJudged)."""


def _load():
    global _library
    if _library is None:
        _library = ctypes.CDLL(find("lib", "libattnfuzz-oracle.so"))
    return _library


# Bytes of an element of a result while it is judged: value, bound and ratio here, value, bound and rule in the library, and
# the number that was computed.
_JUDGED_BYTES = 3 * 8 + 2 * 8 + 1 + 4


def _free_bytes():
    """The memory that this process may still take; infinite where Linux does not say."""
    import resource

    try:
        with open("/proc/meminfo") as lines:
            free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
        with open("/proc/self/statm") as sizes:
            taken = int(sizes.read().split()[0]) * resource.getpagesize()
    except (OSError, StopIteration):
        return float("inf")
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return free if limit == resource.RLIM_INFINITY else min(free, limit - taken)


def _expect_room(outputs):
    """Packed entries are judged as if each had as many rows as the longest. `outputs`: (shape, ..., packed entries or None)."""
    packed = [(math.prod(shape), side) for shape, _, side in outputs if side]
    needed, free = _JUDGED_BYTES * sum(elements for elements, _ in packed), _free_bytes() if packed else 0
    if needed > free:
        side = packed[0][1]
        raise MemoryError(f"cu_seqlens_{side.name}: {side.batch} packed entries, each judged as if it had max_seqlen_{side.name} = "
                          f"{side.longest} rows, take {needed / 1e9:.1f} GB, and {max(free, 0) / 1e9:.1f} GB are free: judge fewer "
                          "entries in a call, or those of like lengths together")


def on_host(name, array, types):
    """(NumPy array, name of its format) with unchanged values; bf16 as its bits."""
    import numpy

    if type(array).__module__.split(".")[0] == "torch":
        array = array.detach().cpu()
        if str(array.dtype) == "torch.bfloat16":
            import torch

            array = array.contiguous().view(torch.int16).numpy().view(numpy.uint16)
        else:
            array = array.numpy()
    else:
        array = numpy.asarray(array)
    formats = {"float16": "f16", "uint16": "bf16", "bfloat16": "bf16", "float32": "f32", "bool": "bool"}
    fmt = formats.get(array.dtype.name)
    if fmt not in types:
        raise TypeError(f"{name} is of {array.dtype}: must be {' or '.join(types)}")
    return (array.view(numpy.uint16) if array.dtype.name == "bfloat16" else array), fmt


def floats(name, array, shape):
    """An output as dense fp32."""
    import numpy

    if type(array).__module__.split(".")[0] == "torch":
        array = array.detach().float().cpu().numpy()
    array = numpy.asarray(array)
    if array.dtype == numpy.uint16:
        array = (array.astype(numpy.uint32) << 16).view(numpy.float32)
    if name == "lse" and array.shape == shape + (1,):
        array = array[..., 0]
    if array.shape != shape:
        raise ValueError(f"{name} has the shape {array.shape}, and {shape} is due")
    return numpy.ascontiguousarray(array, dtype=numpy.float32)


def _view(array):
    strides = [s // array.itemsize for s in array.strides]
    return c.TensorView(array.ctypes.data, (ctypes.c_int64 * 4)(*strides))


class _Packed:
    """The packed entries of one side: `cu` says where each entry's rows begin and end."""

    def __init__(self, name, cu, rows, longest):
        import numpy

        self.name = name
        self.cu = cu = _integers(f"cu_seqlens_{name}", cu, 1, "(batch + 1)")
        if not len(cu):
            raise ValueError(f"cu_seqlens_{name} is empty: must be integers, (batch + 1)")
        lengths = numpy.diff(cu)
        if cu[0] != 0 or (lengths < 0).any() or cu[-1] > rows:
            raise ValueError(f"cu_seqlens_{name} is {cu.tolist()}: must begin with 0, never fall, and end at {rows} or below")
        self.batch, most = len(lengths), int(lengths.max(initial=0))
        self.rows, self.longest = rows, most if longest is None else int(longest)
        if self.longest < most:
            raise ValueError(f"max_seqlen_{name} is {longest}, and the longest entry has {most} rows")

    def shape(self, of):
        """The shape of the rows of an array (batch, head, position[, column]): (row, head, column) or (head, row)."""
        return (self.rows, of[1], of[3]) if len(of) == 4 else (of[1], self.rows)

    def each(self):
        """Yields (place, first row, end) for each entry."""
        return ((b, int(self.cu[b]), int(self.cu[b + 1])) for b in range(self.batch))

    def padded(self, array):
        """(row, head, column) or (head, row) as (batch, head, position[, column])."""
        import numpy

        rows = array[..., None].swapaxes(0, 1) if array.ndim == 2 else array
        padded = numpy.zeros((self.batch, rows.shape[1], self.longest, rows.shape[2]), array.dtype)
        for b, first, end in self.each():
            padded[b, :, : end - first] = rows[first:end].swapaxes(0, 1)
        return padded[..., 0] if array.ndim == 2 else padded

    def packed(self, array, none):
        """The reverse of padded(). Rows that belong to no entry hold `none`."""
        import numpy

        columns = array if array.ndim == 4 else array[..., None]
        rows = numpy.full((self.rows, columns.shape[1], columns.shape[3]), none)
        for b, first, end in self.each():
            rows[first:end] = columns[b, :, : end - first].swapaxes(0, 1)
        return rows if array.ndim == 4 else rows[..., 0].swapaxes(0, 1)


class _Pages:
    """The pages of K and V: `table` says which hold the keys of each batch entry."""

    def __init__(self, table, key_lengths, k, longest, key_blocks):
        import numpy

        self.table = table = _integers("block_table", table, 2, "(batch, pages of an entry)")
        if key_lengths is None:
            raise ValueError("block_table: key_lengths must say how many keys each batch entry has")
        lengths = _integers("key_lengths", key_lengths, 1, "(batch,)").clip(0)
        if key_blocks is not None:  # each counts keys of the blocks
            step, length = key_blocks
            lengths = ((lengths - length) // step + 1).clip(0)
        self.batch, self.of_entry = table.shape
        self.pages, self.size = k.shape[0], k.shape[2]
        if lengths.shape != (self.batch,):
            raise ValueError(f"key_lengths has the shape {lengths.shape}, and {(self.batch,)} is due")
        self.longest = int(lengths.max(initial=0)) if longest is None else int(longest)
        if self.size < 1 or -(-self.longest // self.size) > self.of_entry:
            raise ValueError(f"block_table has {self.of_entry} pages of {self.size} keys for an entry, and {self.longest} keys "
                             "are due")
        for b, keys in enumerate(lengths.clip(0, self.longest)):
            ids = table[b, : -(-keys // self.size)]
            if ((ids < 0) | (ids >= self.pages)).any():
                raise ValueError(f"block_table[{b}] is {ids.tolist()}: must name pages from 0 to {self.pages - 1}")


def _integers(name, array, dimensions, due):
    """Integers as int64, wherever they lie. `due`: the shape in words, for the message of an error."""
    import numpy

    if type(array).__module__.split(".")[0] == "torch":
        array = array.detach().cpu().numpy()
    array = numpy.asarray(array)
    if not array.size:
        array = array.astype(numpy.int64)  # NumPy makes a float array of []
    if array.ndim != dimensions or array.dtype.kind not in "iu":
        raise ValueError(f"{name} is {array.dtype} of the shape {array.shape}: must be integers, {due}")
    if array.dtype == numpy.uint64 and (array > numpy.iinfo(numpy.int64).max).any():
        raise ValueError(f"{name} holds {array.max()}: must be at most 2^63 - 1")
    return numpy.ascontiguousarray(array, dtype=numpy.int64)


def _qkv(q, k, v, cu_q=None, cu_k=None, paged=False):
    """Q, K and V on the host, and their common format. Raises an error that says which shape or format is required. A packed
    side is (1, head, row, dim); `paged`: K and V are (page, head, slot, dim)."""
    (q, fmt), (k, of_k), (v, of_v) = (on_host(n, a, DTYPES) for n, a in (("q", q), ("k", k), ("v", v)))
    for name, a, packed in (("q", q, cu_q), ("k", k, cu_k), ("v", v, cu_k)):
        if a.ndim != (4 if packed is None else 3):
            due = "(batch, heads, length, dim)" if packed is None else f"(row, head, dim) with cu_seqlens_{'q' if name == 'q' else 'k'}"
            raise ValueError(f"{name} has {a.ndim} dimensions: must be {due}")
    if cu_q is not None:
        q = q.swapaxes(0, 1)[None]
    if cu_k is not None:
        k, v = (a.swapaxes(0, 1)[None] for a in (k, v))
    if of_k != fmt or of_v != fmt:
        raise TypeError(f"q is {fmt}, k {of_k} and v {of_v}: must be of one format")
    own_batch = cu_q is not None or cu_k is not None or paged
    batch, dim_qk = k.shape[0] if own_batch else q.shape[0], q.shape[3]
    _, heads_kv, seq_k, _ = k.shape
    for name, a, due in (("k", k, (batch, heads_kv, seq_k, dim_qk)), ("v", v, (batch, heads_kv, seq_k, v.shape[3]))):
        if a.shape != due:
            raise ValueError(f"{name} has the shape {a.shape}, and beside the others {due} is due")
    return q, k, v, fmt


def _lent(a, name, types, shape):
    """An array on the host, broadcast to a shape: (array, view, format)."""
    import numpy

    a, fmt = on_host(name, a, types)
    try:
        a = numpy.broadcast_to(a, shape)
    except ValueError:
        raise ValueError(f"{name} has the shape {a.shape}, and {shape} is due") from None
    return a, _view(a), fmt


class Call:
    """attn_problem, attn_tensors and attn_plan of a call, with the arrays that they point to."""

    def __init__(self, q, k, v, *, causal=False, align="top_left", scale=None, softcap=0.0, window=(-1, -1), bias=None, mask=None,
                 key_lengths=None, errors=None, tiles=(64, 64), calibration="documented", lse_base="e", lse_dead="-inf", sink=None,
                 slopes=None, cu_seqlens_q=None, cu_seqlens_k=None, max_seqlen_q=None, max_seqlen_k=None, block_table=None,
                 key_blocks=None):
        if block_table is not None and cu_seqlens_k is not None:
            raise ValueError("block_table and cu_seqlens_k: keys lie in pages or packed, not both")
        q, k, v, self.format = _qkv(q, k, v, cu_seqlens_q, cu_seqlens_k, block_table is not None)
        batch, heads_q, seq_q, dim_qk = q.shape
        _, heads_kv, seq_k, dim_v = v.shape
        self.queries = None if cu_seqlens_q is None else _Packed("q", cu_seqlens_q, seq_q, max_seqlen_q)
        self.keys = None if cu_seqlens_k is None else _Packed("k", cu_seqlens_k, seq_k, max_seqlen_k)
        self.pages = None if block_table is None else _Pages(block_table, key_lengths, k, max_seqlen_k, key_blocks)
        batches = [side.batch if side else t.shape[0] for side, t in ((self.queries, q), (self.keys or self.pages, k))]
        if batches[0] != batches[1]:
            raise ValueError(f"there are {batches[0]} batch entries of queries and {batches[1]} of keys")
        batch = batches[0]
        seq_q = self.queries.longest if self.queries else seq_q
        side_of_keys = self.keys or self.pages
        seq_k = side_of_keys.longest if side_of_keys else seq_k
        self.calibration, self.kept = calibration, [q, k, v]
        self.p = p = c.Problem(
            size=ctypes.sizeof(c.Problem), dtype=DTYPES.index(self.format), batch=batch, heads_q=heads_q, heads_kv=heads_kv,
            seq_q=seq_q, seq_k=seq_k, dim_qk=dim_qk, dim_v=dim_v, scale=dim_qk**-0.5 if scale is None else scale,
            softcap=softcap, causal=bool(causal), align={"top_left": c.TOP_LEFT, "bottom_right": c.BOTTOM_RIGHT}[align],
            window_left=window[0], window_right=window[1], bias_dtype=c.NONE,
            features=(c.FEATURE_F32 if self.format == "f32" else 0)
            | (c.FEATURE_WIDE if max(dim_qk, dim_v) > c.USUAL_DIMS else 0))
        self.t = c.Tensors(size=ctypes.sizeof(c.Tensors), q=_view(q), k=_view(k), v=_view(v))
        self._add_borders()
        if self.pages:
            p.page_size, p.pages, p.pages_per_seq = self.pages.size, self.pages.pages, self.pages.of_entry
            p.features |= c.FEATURE_BITS["paged"]
            self.t.block_table = c.TensorView(self.pages.table.ctypes.data, (ctypes.c_int64 * 4)(self.pages.of_entry, 0, 0, 1))
        self._add_scores(bias, mask, key_lengths)
        if sink is not None:
            p.sink_dtype = DTYPES.index(self._lend("sink", sink, DTYPES, (heads_q,), lambda s: (0, s[0], 0, 0)))
            p.has_sink, p.features = 1, p.features | c.FEATURE_BITS["has_sink"]
        if slopes is not None:
            self._lend("slopes", slopes, ("f32",), (batch, heads_q), lambda s: (*s, 0, 0))
            p.has_alibi, p.features = 1, p.features | c.FEATURE_BITS["has_alibi"]
        if key_blocks is not None:
            p.key_step, p.key_offset = key_blocks[0], key_blocks[1] - 1
            p.features |= c.FEATURE_BITS["key_step"]
        self.plan = c.Plan(size=ctypes.sizeof(c.Plan), num_splits=1, workspace_align=1)
        (errors or Errors()).fill(self.plan, p, tiles)
        Domain(lse_base=lse_base, lse_dead=lse_dead).say_lse(self.plan)

    def _lend(self, name, a, types, shape, strides=tuple):
        """Points the member `name` of the tensors to an array that is broadcast to a shape. Returns its format."""
        a, view, fmt = _lent(a, name, types, shape)
        view.stride[:] = strides(tuple(s // a.itemsize for s in a.strides))
        self.kept.append(a)
        setattr(self.t, name, view)
        return fmt

    def _add_borders(self):
        for side, bit, name in ((self.queries, RAGGED_QUERIES, "q"), (self.keys, RAGGED_KEYS, "k")):
            if side is None:
                continue
            self.p.ragged |= bit
            self.p.features |= c.FEATURE_BITS["packed"]
            setattr(self.p, f"total_{name}", side.rows)
            setattr(self.t, f"cu_{name}", side.cu.ctypes.data)

    def _add_scores(self, bias, mask, key_lengths):
        p = self.p
        square = (p.batch, p.heads_q, p.seq_q, p.seq_k)
        if bias is not None:
            p.bias_dtype = DTYPES.index(self._lend("bias", bias, DTYPES, square))
        if mask is not None:
            self._lend("mask", mask, ("bool",), square)
            p.has_mask = 1
        if key_lengths is not None:
            key_lengths = _integers("key_lengths", key_lengths, 1, "(batch,)")
            if key_lengths.shape != (p.batch,):
                raise ValueError(f"key_lengths has the shape {key_lengths.shape}, and {(p.batch,)} is due")
            p.has_key_lengths = 1
            self.kept.append(key_lengths)
            self.t.key_lengths = key_lengths.ctypes.data

    def lend_rows(self, name, a, types, *columns):
        """Lends a tensor of queries: O, dO, or without columns an LSE. Returns its format."""
        shape = (self.p.batch, self.p.heads_q, self.p.seq_q, *columns)
        if self.queries is None:
            return self._lend(name, a, types, shape, lambda s: (*s, 0)[:4])
        return self._lend(name, a, types, self.queries.shape(shape), lambda s: (0, s[1], s[0], s[2]) if columns else (0, *s, 0))

    def write_into(self, name, shape, side=None, repeated=None):
        """Unused memory for an output, because a call must have all of its tensors. `side`: its packed entries; `repeated`: the
        shape of the output if `shape` has 1 where one element stands for a whole dimension."""
        import numpy

        shape = (1, shape[1], side.rows, shape[3]) if side else shape
        dense = numpy.empty(shape, numpy.uint32)  # wide enough for any format
        self.kept.append(dense)
        setattr(self.t, name, _view(numpy.broadcast_to(dense, repeated or shape)))

    def dbias(self, shape, got):
        """The (shape, got, None) of dbias for ask(), because dbias is never packed; None if dbias is not asked for."""
        import numpy

        if shape is None:
            return None
        whole = (self.p.batch, self.p.heads_q, self.p.seq_q, self.p.seq_k)
        if len(shape) != 4 or shape[3] != whole[3] or any(n not in (1, all_of) for n, all_of in zip(shape, whole)):
            raise ValueError(f"dbias has the shape {tuple(shape)}, and {whole} is due, or 1 in place of the first three")
        self.p.features |= c.FEATURE_BITS["dbias"]
        self.write_into("dbias", shape, repeated=whole)
        return whole, None if got is None else numpy.broadcast_to(floats("dbias", got, tuple(shape)), whole), None

    def dsink(self, got):
        """The (shape, got, None) of dsink for ask(), because dsink is never packed; None if the call has no sinks."""
        if not self.p.has_sink:
            return None
        self.p.features |= c.FEATURE_BITS["dsink"]
        self.write_into("dsink", (1, self.p.heads_q, 1, 1))
        return (self.p.heads_q,), got, None

    def ask(self, function, outputs):
        """{name: (value, bound, got, ratio)} of {name: (shape, what was computed or None, its packed entries or None)}, and
        "assumptions" and "rows" (all, uninformative, unconstrained); an output that is not asked for is None."""
        import numpy

        _expect_room([output for output in outputs.values() if output is not None])
        rows_of_call = (ctypes.c_int64 * 3)()
        text = ctypes.create_string_buffer(4096)
        answer, structs = {}, []
        for name, output in outputs.items():
            if output is None:
                structs.append(None)
                continue
            shape, got, side = output
            got = None if got is None else floats(name, got, side.shape(shape) if side else shape)
            rows = side.padded(got) if side and got is not None else got
            value, bound, ratio = (numpy.empty(shape, numpy.float64) for _ in range(3))
            answer[name] = (value, bound, got, ratio)
            structs.append(_Expected(value.ctypes.data, bound.ctypes.data, None if rows is None else rows.ctypes.data,
                                     ratio.ctypes.data, ctypes.addressof(rows_of_call)))
            self.kept.append(rows)
        status = getattr(_load(), function)(ctypes.byref(self.p), ctypes.byref(self.t), ctypes.byref(self.plan),
                                            self.calibration.encode(), *(one and ctypes.byref(one) for one in structs), text,
                                            ctypes.c_uint64(len(text)))
        if status != 0:
            raise ValueError(text.value.decode())
        for name, (value, bound, got, ratio) in answer.items():
            if side := outputs[name][2]:  # a row that belongs to no entry may hold anything
                answer[name] = (side.packed(value, 0.0), side.packed(bound, float("inf")), got, side.packed(ratio, 0.0))
        return {**answer, "assumptions": text.value.decode(), "rows": tuple(rows_of_call)}
