"""Targets that are right, wrong, and that end in all the ways a function of Python can."""

import collections
import copy
import ctypes
import functools
import os
import sys
import time
from dataclasses import replace

import attnfuzz
from attnfuzz.targets import numpy_reference
from attnfuzz.targets.numpy_reference import BACKWARD, ERRORS
from attnfuzz.targets.numpy_reference import attention as right

# Without ml_dtypes bf16 comes as bits, which all of these read.
target = functools.partial(attnfuzz.target, bf16="bits")

right = target(right.function, errors=ERRORS)


# Callables of other forms, with the small domain of a function of Q, K and V alone.
SMALL = attnfuzz.Domain(seq=attnfuzz.at_most(40), dim=attnfuzz.at_most(16), bias=False, mask=False, key_lengths=False)


@target(errors=ERRORS, domain=SMALL)
def spread(p, *arrays):
    return right.function(p, *arrays)


@target(errors=ERRORS, domain=SMALL)
def named(p, **arrays):
    return dict(zip(("o", "lse"), right.function(p, **arrays)))


class _Object:
    def __call__(self, p, q, k, v):
        return right.function(p, q, k, v)


called = target(_Object(), errors=ERRORS, domain=SMALL)
part = target(functools.partial(right.function), errors=ERRORS, domain=attnfuzz.Domain(seq=attnfuzz.at_most(40)))


@target(errors=ERRORS, domain=SMALL)
def refuses_inside(p, q, k, v):
    """refuses problems of its domain"""
    if p.seq_k > 20:
        raise attnfuzz.Unsupported("too many keys")
    return right.function(p, q, k, v)


def merge(guarded, o1, o2, lse1, lse2):
    """The results of two sides by their weights; not guarded: also where neither side saw a key."""
    import numpy

    a, b = attnfuzz.as_float32(o1), attnfuzz.as_float32(o2)
    with numpy.errstate(all="ignore"):
        most = numpy.maximum(lse1, lse2)
        reference = numpy.where(numpy.isneginf(most), numpy.float32(0), most) if guarded else most
        first, second = numpy.exp(lse1 - reference), numpy.exp(lse2 - reference)
        total = first + second
        o = (first[..., None] * a + second[..., None] * b) / (numpy.where(total == 0, 1, total) if guarded else total)[..., None]
        return o.astype(numpy.float32), reference + numpy.log(total)


@target(errors=replace(ERRORS, merge="weight"), operation="merge")
def merged(p, o1, o2, lse1, lse2):
    return merge(True, o1, o2, lse1, lse2)


@target(errors=replace(ERRORS, merge="weight"), operation="merge")
def merged_unguarded(p, o1, o2, lse1, lse2):
    return merge(False, o1, o2, lse1, lse2)


LISTS = attnfuzz.Domain(features=("int32",), seq=attnfuzz.at_most(96), dim=attnfuzz.at_most(40))
PACKED_LISTS = replace(LISTS, features=("packed", "int32"))
selected = target(numpy_reference.selected.function, errors=ERRORS, operation="selected", domain=PACKED_LISTS)


@target(errors=ERRORS, operation="selected", domain=LISTS)
def none_is_block_0(p, q, k, v, indices, key_lengths=None):
    """takes -1 for the first block"""
    import numpy

    return selected.function(p, q, k, v, numpy.where(numpy.asarray(indices) < 0, 0, indices), key_lengths)


# Scores of blocks and lists, in int32 too.
SCORES = attnfuzz.Domain(features=("int32",), seq=attnfuzz.at_most(64), dim=attnfuzz.at_most(40))
PACKED_SCORES = replace(SCORES, features=("packed", "int32"))
scores = target(numpy_reference.nsa_score.function, errors=ERRORS, operation="nsa_score", domain=PACKED_SCORES)


@target(errors=ERRORS, operation="nsa_score", domain=replace(SCORES, features="packed", key_lengths=False))
def scores_varlen(p, q, k, lse, cu_seqlens_q=None, cu_seqlens_k=None):
    """takes packed entries alone, and names block -2 in rows of no entry"""
    if cu_seqlens_q is None:
        lse = lse.swapaxes(0, 1).reshape(p.heads_q, p.batch * p.seq_q)
    q, k, _, cu_q, cu_k = attnfuzz.pack(p, q, k, None, cu_seqlens_q, cu_seqlens_k)
    lists, of_blocks = scores.function(numpy_reference.packed_call(p, q, k), q, k, lse, cu_seqlens_q=cu_q, cu_seqlens_k=cu_k)
    lists[cu_q[-1] :] = -2
    return attnfuzz.unpack(p, lists), attnfuzz.unpack(p, of_blocks)


@target(errors=ERRORS, operation="nsa_score", domain=PACKED_SCORES)
def scores_top_left(p, q, k, lse, key_lengths=None, cu_seqlens_q=None, cu_seqlens_k=None):
    """places the diagonal of packed entries at the top left"""
    of = copy.copy(p)
    of.align = "top_left" if p.ragged else p.align
    return scores.function(of, q, k, lse, key_lengths, cu_seqlens_q, cu_seqlens_k)


@target(errors=ERRORS, operation="nsa_score", domain=PACKED_SCORES)
def lists_of_pool(p, q, k, lse, key_lengths=None, cu_seqlens_q=None, cu_seqlens_k=None):
    """counts blocks from the first packed key, not from an entry's own"""
    lists, of_blocks = scores.function(p, q, k, lse, key_lengths, cu_seqlens_q, cu_seqlens_k)
    if p.ragged == 3:
        for b, (place, _, _) in enumerate(attnfuzz.entries(p, q, k, None, cu_seqlens_q, cu_seqlens_k)):
            lists[place] += (lists[place] >= 0) * int(cu_seqlens_k[b] * p.key_step // p.block)
    return lists, of_blocks


@target(errors=ERRORS, operation="nsa_score", domain=replace(SCORES, lse=False))
def lists_alone(p, q, k, lse, key_lengths=None):
    return scores.function(p, q, k, lse, key_lengths)[0]


@target(errors=ERRORS, operation="nsa_score", domain=PACKED_SCORES)
def lists_into(p, q, k, lse, indices, scores, key_lengths=None, cu_seqlens_q=None, cu_seqlens_k=None):
    lists, of_blocks = numpy_reference.nsa_score.function(p, q, k, lse, key_lengths, cu_seqlens_q, cu_seqlens_k)
    rows = slice(None) if cu_seqlens_q is None else slice(cu_seqlens_q[-1])  # others belong to no entry
    indices[rows] = lists[rows]
    if scores is not None:
        scores[rows] = of_blocks[rows]


@target(errors=ERRORS, operation="nsa_score", domain=SCORES)
def chooses_for_first_head(p, q, k, lse, key_lengths=None):
    """writes the scores of a group, and chooses by those of its first head"""
    import copy

    one, group = copy.copy(p), p.heads_q // p.heads_kv
    one.heads_q = p.heads_kv
    lists, _ = scores.function(one, q[:, ::group], k, lse[:, ::group], key_lengths)
    return lists, scores.function(p, q, k, lse, key_lengths)[1]


@target(errors=ERRORS, operation="nsa_score", domain=SCORES)
def lists_as_floats(p, q, k, lse, key_lengths=None):
    lists, of_blocks = scores.function(p, q, k, lse, key_lengths)
    return lists.astype("float32"), of_blocks


@target(errors=ERRORS, operation="nsa_score", domain=SCORES)
def lists_beyond_int32(p, q, k, lse, key_lengths=None):
    """names blocks by numbers that 32 bits would make right"""
    lists, of_blocks = scores.function(p, q, k, lse, key_lengths)
    return lists + 2**32 * (p.index_dtype == 1), of_blocks


@target(errors=ERRORS, operation="nsa_score", domain=SCORES)
def scores_forgotten(p, q, k, lse, key_lengths=None):
    return scores.function(p, q, k, lse, key_lengths)[0]


# Parts of a problem that a target is given only if it names them; and 576 columns.
MORE = attnfuzz.Domain(features=("has_sink", "has_alibi", "latent"))
with_more = target(right.function, errors=ERRORS, domain=MORE)
latent = target(right.function, errors=ERRORS,
                domain=attnfuzz.Domain(dim_qk=576, dim_v=512, seq=attnfuzz.at_most(64), features=("latent",)))


@target(errors=ERRORS, domain=MORE)
def scales_sinks(p, q, k, v, bias=None, mask=None, key_lengths=None, sink=None, slopes=None):
    """multiplies sinks by the scale"""
    sink = None if sink is None else attnfuzz.as_float32(sink) * p.scale
    return right.function(p, q, k, v, bias, mask, key_lengths, sink, slopes)


@target(errors=ERRORS, domain=MORE)
def scales_slopes(p, q, k, v, bias=None, mask=None, key_lengths=None, sink=None, slopes=None):
    """multiplies slopes by the scale"""
    slopes = None if slopes is None else slopes * p.scale
    return right.function(p, q, k, v, bias, mask, key_lengths, sink, slopes)


# Keys that stand for blocks, in pages and packed as well.
BLOCKS = attnfuzz.Domain(features=("key_step", "paged", "packed", "int32"), seq=attnfuzz.at_most(96), dim=attnfuzz.at_most(40))
blocks = target(right.function, errors=ERRORS, domain=BLOCKS)


@target(errors=ERRORS, domain=replace(BLOCKS, features="key_step"))
def blocks_early(p, q, k, v, bias=None, mask=None, key_lengths=None):
    """sees a block one key before it ends"""
    of = copy.copy(p)
    of.key_offset = max(p.key_offset - 1, 0)
    return right.function(of, q, k, v, bias, mask, key_lengths)


# Keys in pages, with tables and lengths of 32 and 64 bits, and packed queries beside them.
PAGED = attnfuzz.Domain(features=("paged", "packed", "int32"), seq=attnfuzz.at_most(96), dim=attnfuzz.at_most(40))
paged = target(right.function, errors=ERRORS, domain=PAGED)


@target(errors=ERRORS, domain=replace(PAGED, bias=False, mask=False, features=("paged", "int32")))
def paged_decode(p, q, k, v, key_lengths=None, block_table=None, out=None, lse=None):
    """attends page by page, and writes into the memory it is given"""
    from attnfuzz.tensor import to_bits_of_bf16

    k, v = attnfuzz.gather(p, k, v, block_table, key_lengths)
    o, own = right.function(p, q, k, v, key_lengths=key_lengths)
    out[...] = to_bits_of_bf16(o) if out.dtype == "uint16" else o
    if lse is not None:
        lse[...] = own


@target(errors=ERRORS, domain=replace(PAGED, bias=False, mask=False, features="paged", batch=attnfuzz.at_least(1)))
def pages_alone(p, q, k, v, key_lengths=None, block_table=None):
    """takes nothing but pages"""
    k, v, table, lengths = attnfuzz.paged(p, k, v, block_table, key_lengths, size=5)
    of = copy.copy(p)
    of.page_size, of.pages, of.pages_per_seq, of.has_key_lengths = k.shape[2], k.shape[0], table.shape[1], True
    return right.function(of, q, k, v, key_lengths=lengths, block_table=table)


@target(errors=ERRORS, arrays="dlpack", domain=replace(PAGED, dtypes=("f16",), bias=False, mask=False, features="paged"))
def paged_dlpack(p, q, k, v, key_lengths=None, block_table=None):
    """is given what DLPack takes"""
    import numpy

    q, k, v, lengths, table = (None if a is None else numpy.asarray(a) for a in (q, k, v, key_lengths, block_table))
    k, v = attnfuzz.gather(p, k, v, table, lengths)
    return right.function(p, q, k, v, key_lengths=lengths)


@target(errors=ERRORS, domain=PAGED)
def pages_of_first(p, q, k, v, bias=None, mask=None, key_lengths=None, cu_seqlens_q=None, cu_seqlens_k=None, block_table=None):
    """takes the last page of a sequence from the row of the first sequence"""
    if p.page_size:
        block_table = block_table.copy()
        for b, keys in enumerate(key_lengths.clip(0, p.seq_k)):
            n = (keys - 1) // p.page_size
            if keys > 0 and n * p.page_size < key_lengths[0]:
                block_table[b, n] = block_table[0, n]
    return right.function(p, q, k, v, bias, mask, key_lengths, None, None, cu_seqlens_q, cu_seqlens_k, block_table)


@target(errors=ERRORS, domain=PAGED)
def page_by_page(p, q, k, v, bias=None, mask=None, key_lengths=None, cu_seqlens_q=None, cu_seqlens_k=None, block_table=None):
    """takes whole pages alone"""
    if p.page_size:
        key_lengths = key_lengths.clip(0, p.seq_k) // p.page_size * p.page_size
    return right.function(p, q, k, v, bias, mask, key_lengths, None, None, cu_seqlens_q, cu_seqlens_k, block_table)


# Packed entries, with lengths and offsets of 32 and 64 bits. They are small, so that the wrong ones are found soon.
PACKED = attnfuzz.Domain(features=("packed", "int32"), seq=attnfuzz.at_most(96), dim=attnfuzz.at_most(40))
packed = target(right.function, errors=ERRORS, domain=PACKED)


@target(errors=ERRORS, domain=replace(PACKED, softcap=False, window=False, bias=False, mask=False, key_lengths=False,
                                      align="bottom_right", features="packed", batch=attnfuzz.at_least(1)))
def varlen(p, q, k, v, cu_seqlens_q=None, cu_seqlens_k=None):
    """takes packed entries alone, as flash_attn_varlen does, and gives NaN in rows of no entry"""
    import numpy

    q, k, v, cu_q, cu_k = attnfuzz.pack(p, q, k, v, cu_seqlens_q, cu_seqlens_k)
    call = numpy_reference.packed_call(p, q, k)
    o, lse = right.function(call, q, k, v, cu_seqlens_q=cu_q, cu_seqlens_k=cu_k)
    o[cu_q[-1] :], lse[:, cu_q[-1] :] = numpy.nan, numpy.nan
    return attnfuzz.unpack(p, o, lse)


@target(errors=ERRORS, domain=PACKED)
def packed_into(p, q, k, v, bias=None, mask=None, key_lengths=None, cu_seqlens_q=None, cu_seqlens_k=None, out=None, lse=None):
    """writes the rows of entries into the memory it is given"""
    from attnfuzz.tensor import to_bits_of_bf16

    o, own = right.function(p, q, k, v, bias, mask, key_lengths, None, None, cu_seqlens_q, cu_seqlens_k)
    o = to_bits_of_bf16(o) if out.dtype == "uint16" else o
    if cu_seqlens_q is None:
        out[...] = o
    else:
        out[: cu_seqlens_q[-1]] = o[: cu_seqlens_q[-1]]
    if lse is not None and cu_seqlens_q is None:
        lse[...] = own
    elif lse is not None:
        lse[:, : cu_seqlens_q[-1]] = own[:, : cu_seqlens_q[-1]]


@target(errors=ERRORS, arrays="dlpack", domain=replace(PACKED, dtypes=("f16",), bias=False, mask=False, key_lengths=False))
def packed_dlpack(p, q, k, v, cu_seqlens_q=None, cu_seqlens_k=None):
    """is given what DLPack takes"""
    import numpy

    q, k, v, cu_q, cu_k = (None if a is None else numpy.asarray(a) for a in (q, k, v, cu_seqlens_q, cu_seqlens_k))
    return right.function(p, q, k, v, cu_seqlens_q=cu_q, cu_seqlens_k=cu_k)


@target(errors=ERRORS, domain=PACKED)
def writes_slack(p, q, k, v, bias=None, mask=None, key_lengths=None, cu_seqlens_q=None, cu_seqlens_k=None, out=None, lse=None):
    """writes rows that belong to no entry as well"""
    packed_into.function(p, q, k, v, bias, mask, key_lengths, cu_seqlens_q, cu_seqlens_k, out, lse)
    if cu_seqlens_q is not None:
        out[cu_seqlens_q[-1] :] = 0


@target(errors=ERRORS, domain=PACKED)
def keys_by_queries(p, q, k, v, bias=None, mask=None, key_lengths=None, cu_seqlens_q=None, cu_seqlens_k=None):
    """reads keys from where queries lie"""
    import numpy

    if p.ragged == 3:
        cu_seqlens_k = numpy.minimum(cu_seqlens_q, p.total_k)
    return right.function(p, q, k, v, bias, mask, key_lengths, None, None, cu_seqlens_q, cu_seqlens_k)


@target(errors=ERRORS, domain=PACKED)
def longest_is_length(p, q, k, v, bias=None, mask=None, key_lengths=None, cu_seqlens_q=None, cu_seqlens_k=None):
    """places the diagonal by the longest entry"""
    o, lse = right.function(p, q, k, v, bias, mask, key_lengths, None, None, cu_seqlens_q, cu_seqlens_k)
    if p.ragged != 3 or p.align != "bottom_right" or not p.causal:
        return o, lse
    o, lse = o.copy(), lse.copy()
    for place, of, arrays in attnfuzz.entries(p, q, k, v, cu_seqlens_q, cu_seqlens_k, bias=bias, mask=mask,
                                              key_lengths=key_lengths):
        of.align, shift = "top_left", p.seq_k - p.seq_q
        of.window_right, of.causal = max(shift, 0), shift < 0
        one, its_lse = right.function(of, **arrays)
        o[place], lse[:, place] = one[0].swapaxes(0, 1), its_lse[0]
    return o, lse


of_backward = functools.partial(target, operation="backward", errors=BACKWARD)
Gradients = collections.namedtuple("Gradients", "dv dk dq")  # in an order of its own
# Small, so that it is checked soon.
SMALL = attnfuzz.Domain(seq=attnfuzz.at_most(96), dim=attnfuzz.at_most(40))


def gradients(p, q, k, v, dout, o, lse, bias=None, mask=None, key_lengths=None):
    return numpy_reference.backward.function(p, q, k, v, dout, o, lse, bias, mask, key_lengths)


backward = of_backward(gradients)
backward_recomputed = of_backward(numpy_reference.backward_recomputed.function, errors=replace(BACKWARD, saved="recomputed"))


of_blocks = functools.partial(of_backward, domain=replace(SMALL, features="key_step"))
blocks_backward = of_blocks(gradients)


@of_blocks()
def blocks_backward_early(p, q, k, v, dout, o, lse, bias=None, mask=None, key_lengths=None):
    """sees a block from its first key on in dK alone"""
    of = copy.copy(p)
    of.key_offset = 0
    early = gradients(of, q, k, v, dout, o, lse, bias, mask, key_lengths)
    return {**gradients(p, q, k, v, dout, o, lse, bias, mask, key_lengths), "dk": early["dk"]}


@of_backward(domain=attnfuzz.Domain(bias=False, mask=False, softcap=False, window=False, key_lengths=False, align="top_left"))
def plain_backward(p, q, k, v, dout, o, lse):
    """takes little, and says so"""
    assert not (p.has_bias or p.has_mask or p.softcap or p.has_key_lengths) and p.window_left < 0 and p.window_right < 0
    return gradients(p, q, k, v, dout, o, lse)


@of_backward()
def says_nothing_of_gradients(p, q, k, v, dout, o, lse):
    """declares nothing, and finds out when it runs"""
    if p.causal or p.seq_q != p.seq_k:
        raise attnfuzz.Unsupported("another shape")
    return gradients(p, q, k, v, dout, o, lse)


@of_backward(domain=SMALL)
def by_name(p, q, k, v, dout, o, lse, bias=None, mask=None, key_lengths=None):
    """returns a NamedTuple"""
    return Gradients(**gradients(p, q, k, v, dout, o, lse, bias, mask, key_lengths))


@of_backward(domain=SMALL)
def into_gradients(p, q, k, v, dout, o, lse, bias=None, mask=None, key_lengths=None, dq=None, dk=None, dv=None):
    """writes into the memory it is given"""
    from attnfuzz.tensor import to_bits_of_bf16

    for name, value in gradients(p, q, k, v, dout, o, lse, bias, mask, key_lengths).items():
        to = {"dq": dq, "dk": dk, "dv": dv}[name]
        to[...] = to_bits_of_bf16(value) if to.dtype == "uint16" else value


@of_backward(domain=attnfuzz.Domain(lse_base=2, lse_dead="+inf", seq=attnfuzz.at_most(96), dim=attnfuzz.at_most(40)))
def of_base_2(p, q, k, v, dout, o, lse, bias=None, mask=None, key_lengths=None):
    """reads an LSE of base 2"""
    import numpy

    lse = numpy.where(numpy.isposinf(lse), -numpy.inf, lse) * numpy.float32(0.6931471805599453)
    return tuple(gradients(p, q, k, v, dout, o, lse, bias, mask, key_lengths).values())


@of_backward()
def no_delta(p, q, k, v, dout, o, lse, bias=None, mask=None, key_lengths=None):
    """leaves D out of dS"""
    import numpy

    return gradients(p, q, k, v, dout, numpy.zeros_like(o), lse, bias, mask, key_lengths)


@of_backward()
def own_forward(p, q, k, v, dout, o, lse, bias=None, mask=None, key_lengths=None):
    """computes O itself, and does not say so"""
    return numpy_reference.backward_recomputed.function(p, q, k, v, dout, o, lse, bias, mask, key_lengths)


@of_backward(domain=SMALL)
def no_dk(p, q, k, v, dout, o, lse, bias=None, mask=None, key_lengths=None):
    """forgets an output"""
    return {"dq": gradients(p, q, k, v, dout, o, lse, bias, mask, key_lengths)["dq"]}


# Gradients of packed entries: a right one, one that gives NaN in rows of no entry, one that writes the rows of entries alone.
packed_backward = of_backward(numpy_reference.backward.function, domain=PACKED)
PLAIN = replace(PACKED, bias=False, mask=False, key_lengths=False)


def slack_of(gradient, borders):
    """The rows of a gradient that belong to no entry."""
    return gradient[len(gradient) if borders is None else borders[-1] :]


@of_backward(domain=PLAIN)
def packed_nan(p, q, k, v, dout, o, lse, cu_seqlens_q=None, cu_seqlens_k=None):
    """gives NaN in rows of no entry"""
    due = packed_backward.function(p, q, k, v, dout, o, lse, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k)
    for name, borders in (("dq", cu_seqlens_q), ("dk", cu_seqlens_k), ("dv", cu_seqlens_k)):
        slack_of(due[name], borders)[...] = float("nan")
    return due


@of_backward(domain=PLAIN)
def packed_gradients_into(p, q, k, v, dout, o, lse, cu_seqlens_q=None, cu_seqlens_k=None, dq=None, dk=None, dv=None):
    """writes the rows of entries into the memory it is given"""
    from attnfuzz.tensor import to_bits_of_bf16

    due = packed_backward.function(p, q, k, v, dout, o, lse, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k)
    for to, of, borders in ((dq, due["dq"], cu_seqlens_q), (dk, due["dk"], cu_seqlens_k), (dv, due["dv"], cu_seqlens_k)):
        rows = len(of) if borders is None else borders[-1]
        to[:rows] = to_bits_of_bf16(of[:rows]) if to.dtype == "uint16" else of[:rows]


@of_backward(domain=PLAIN)
def writes_slack_of_dk(p, q, k, v, dout, o, lse, cu_seqlens_q=None, cu_seqlens_k=None, dq=None, dk=None, dv=None):
    """writes rows of dK that belong to no entry"""
    packed_gradients_into.function(p, q, k, v, dout, o, lse, cu_seqlens_q, cu_seqlens_k, dq, dk, dv)
    slack_of(dk, cu_seqlens_k)[...] = 0


@of_backward(domain=PACKED)
def dk_by_queries(p, q, k, v, dout, o, lse, bias=None, mask=None, key_lengths=None, cu_seqlens_q=None, cu_seqlens_k=None):
    """reads and writes keys from where queries lie"""
    import numpy

    if p.ragged == 3:
        cu_seqlens_k = numpy.minimum(cu_seqlens_q, p.total_k)
    return packed_backward.function(p, q, k, v, dout, o, lse, bias, mask, key_lengths, cu_seqlens_q, cu_seqlens_k)


# Everything beside dQ, dK and dV: a given gradient of the LSE, and the gradients of a bias and of sinks.
MORE_GRADIENTS = replace(SMALL, features=("dlse", "dbias", "has_sink", "dsink"))
more_gradients = of_backward(numpy_reference.backward.function, domain=MORE_GRADIENTS)
all_gradients = of_backward(numpy_reference.backward.function, domain=replace(MORE_GRADIENTS, features=numpy_reference.backward.domain.features))


def with_more_gradients(change):
    """A wrong one: `change` gets the call, its inputs by name and the function that is right, and returns gradients by name."""
    def f(p, q, k, v, dout, o, lse, bias=None, mask=None, key_lengths=None, dlse=None, sink=None):
        return change(p, more_gradients.function, dict(q=q, k=k, v=v, dout=dout, o=o, lse=lse, bias=bias, mask=mask,
                                                       key_lengths=key_lengths, dlse=dlse, sink=sink))

    f.__name__, f.__doc__ = change.__name__, change.__doc__
    return of_backward(f, domain=MORE_GRADIENTS)


@of_backward(domain=MORE_GRADIENTS)
def more_in_order(p, q, k, v, dout, o, lse, bias=None, mask=None, key_lengths=None, dlse=None, sink=None):
    """returns a tuple of what is asked for"""
    return tuple(more_gradients.function(p, q, k, v, dout, o, lse, bias, mask, key_lengths, dlse=dlse, sink=sink).values())


AllGradients = collections.namedtuple("AllGradients", "dsink dbias dq dk dv", defaults=[None] * 5)


@of_backward(domain=MORE_GRADIENTS)
def more_by_name(p, q, k, v, dout, o, lse, bias=None, mask=None, key_lengths=None, dlse=None, sink=None):
    """returns a NamedTuple, with None for what is not asked for"""
    return AllGradients(**more_gradients.function(p, q, k, v, dout, o, lse, bias, mask, key_lengths, dlse=dlse, sink=sink))


@of_backward(domain=MORE_GRADIENTS)
def more_into(p, q, k, v, dout, o, lse, dq, dk, dv, dbias, dsink, bias=None, mask=None, key_lengths=None, dlse=None, sink=None):
    """writes into the memory it is given"""
    from attnfuzz.tensor import to_bits_of_bf16

    due = more_gradients.function(p, q, k, v, dout, o, lse, bias, mask, key_lengths, dlse=dlse, sink=sink)
    for name, to in (("dq", dq), ("dk", dk), ("dv", dv), ("dbias", dbias), ("dsink", dsink)):
        assert (to is None) == (name not in due), name
        if to is not None:
            to[...] = to_bits_of_bf16(due[name]) if to.dtype == "uint16" else due[name]


@with_more_gradients
def no_dlse(p, right, given):
    """ignores the gradient of the LSE"""
    return right(p, **{**given, "dlse": None})


@with_more_gradients
def dbias_of_first(p, right, given):
    """takes the first of the elements over which the gradient of a bias is summed"""
    of = copy.copy(p)
    of.dbias_shape = p.dbias_shape and (p.batch, p.heads_q, p.seq_q, p.seq_k)
    due = right(of, **given)
    return due if p.dbias_shape is None else {**due, "dbias": due["dbias"][tuple(map(slice, p.dbias_shape))]}


@with_more_gradients
def dsink_up(p, right, given):
    """gives the gradient of sinks the other sign"""
    due = right(p, **given)
    return {**due, "dsink": -due["dsink"]} if p.has_sink else due


@with_more_gradients
def always_dsink(p, right, given):
    """gives a gradient of sinks to a call without sinks"""
    import numpy

    return {"dsink": numpy.zeros(p.heads_q, numpy.float32), **right(p, **given)}


@with_more_gradients
def no_dbias(p, right, given):
    """forgets the gradient of the bias"""
    return {name: value for name, value in right(p, **given).items() if name != "dbias"}


@with_more_gradients
def dbias_in_full(p, right, given):
    """does not add up the gradient of a bias that is stored once"""
    of = copy.copy(p)
    of.dbias_shape = p.dbias_shape and (p.batch, p.heads_q, p.seq_q, p.seq_k)
    return right(of, **given)


# Gradients over listed blocks.
OF_LISTS = replace(SMALL, features=("dlse", "int32"))
of_lists = functools.partial(target, operation="selected_backward", errors=BACKWARD, domain=OF_LISTS)
selected_backward = of_lists(numpy_reference.selected_backward.function,
                             domain=replace(OF_LISTS, features=("dlse", "packed", "int32")))


@of_lists
def gradients_of_block_0(p, q, k, v, indices, dout, o, lse, key_lengths=None, dlse=None):
    """takes -1 for the first block"""
    import numpy

    return selected_backward.function(p, q, k, v, numpy.where(numpy.asarray(indices) < 0, 0, indices), dout, o, lse, key_lengths, dlse)


@of_lists
def selected_without_dlse(p, q, k, v, indices, dout, o, lse, key_lengths=None, dlse=None):
    """ignores the gradient of the LSE"""
    return selected_backward.function(p, q, k, v, indices, dout, o, lse, key_lengths)


FP32 = attnfuzz.Domain(dtypes=("f32",))
right_fp32 = target(right.function, errors=ERRORS, domain=FP32)
any_format = target(right.function, errors=ERRORS, domain=attnfuzz.Domain(dtypes=("f16", "bf16", "f32")))
finite = target(right.function, errors=ERRORS, domain=attnfuzz.Domain(non_finite=False))


def to_tf32(a):
    """With the bits that a tensor core's TF32 has, to nearest."""
    import numpy

    bits = numpy.ascontiguousarray(a, dtype=numpy.float32).view(numpy.uint32)
    special = (bits & 0x7F800000) == 0x7F800000
    return numpy.where(special, bits, (bits + 0x1000) & ~numpy.uint32(0x1FFF)).view(numpy.float32)


def tf32_keys(p, q, k, v, bias=None, mask=None, key_lengths=None):
    """multiplies Q and K in TF32"""
    return right.function(p, to_tf32(q), to_tf32(k), v, bias, mask, key_lengths)


secret_tf32 = target(tf32_keys, errors=ERRORS, domain=FP32)
declared_tf32 = target(tf32_keys, errors=replace(ERRORS, p=None, products="tf32"), domain=FP32)


@target(errors=ERRORS, domain=attnfuzz.Domain(bias=False, mask=False, key_lengths=False, window=False))
def off_by_one(p, q, k, v):
    """takes a causal diagonal for the one before it, from the second tile of keys on"""
    if p.causal and p.seq_k > 64 and p.align == "top_left":
        p.align, p.window_right, p.causal = "top_left", -1, True
        shifted = right.function(p, q, k, v)
        o, lse = shifted[0].copy(), shifted[1].copy()
        o[:, :, 1:], lse[:, :, 1:] = shifted[0][:, :, :-1], shifted[1][:, :, :-1]
        return o, lse
    return right.function(p, q, k, v)


@target(errors=ERRORS, domain=attnfuzz.Domain(
    dtypes=("bf16",), dim={64, 128}, seq=attnfuzz.multiple(32, least=32), equal_lengths=True, equal_dims=True, gqa=False,
    causal="only", align="top_left", window=False, softcap=False, key_lengths=False, bias=False, mask=False, lse=False,
    scale="positive", batch=attnfuzz.at_least(1), non_finite=False))
def narrow(p, q, k, v):
    """takes little, and says so"""
    assert p.causal and p.seq_q == p.seq_k and p.seq_k % 32 == 0 and p.dim_qk == p.dim_v and p.dim_v in (64, 128)
    return right.function(p, q, k, v)[0]


@target(errors=ERRORS, domain=attnfuzz.Domain(layout="inner", align_bytes=16, lse_base=2, lse_dead="0"))
def laid(p, q, k, v, bias=None, mask=None, key_lengths=None):
    """reads rows in vectors, and writes an LSE of its own kind"""
    import numpy

    for a in (q, k, v):
        strides = [s for n, s in zip(a.shape[:3], a.strides) if n > 1]
        assert not a.size or (a.ctypes.data % 16 == 0 and not any(s % 16 for s in strides) and (
            a.shape[3] < 2 or a.strides[3] == a.itemsize)), (a.ctypes.data, a.shape, a.strides)
    o, lse = right.function(p, q, k, v, bias, mask, key_lengths)
    return o, numpy.where(lse == -numpy.inf, 0, lse * numpy.float32(1.4426950408889634))


secret_base = target(laid.function, errors=ERRORS, domain=attnfuzz.Domain(layout="inner", align_bytes=16, lse_dead="0"))


@target(errors=ERRORS)
def says_nothing(p, q, k, v):
    """declares nothing, and finds out when it runs"""
    if p.seq_q != p.seq_k or p.causal:
        raise attnfuzz.Unsupported("another shape")
    assert p.dim_qk in (32, 64) and p.dim_v == p.dim_qk
    return right.function(p, q, k, v)


@target(errors=ERRORS)
def reads_fresh(p, q, k, v, bias=None, mask=None, key_lengths=None):
    """adds to memory that it takes for zeros"""
    import numpy

    o, lse = right.function(p, q, k, v, bias, mask, key_lengths)
    sums = numpy.empty(o.shape, numpy.float32)
    sums += o
    return sums, lse


@target(errors=ERRORS)
def writes_past(p, q, k, v, bias=None, mask=None, key_lengths=None):
    """a row too many of an array of its own"""
    import numpy

    rows = numpy.empty((p.seq_k, 4), numpy.float32)
    ctypes.memset(rows.ctypes.data, 0, rows.nbytes + 16)
    return right.function(p, q, k, v, bias, mask, key_lengths)


@target(errors=ERRORS, domain=attnfuzz.Domain(
    dim={80}, seq=attnfuzz.multiple(48, least=48), equal_lengths=True, equal_dims=True, heads_q=3, gqa=False,
    causal="only", align="bottom_right", lse=False, bias=False, mask=False, window=False))
def large_at_least(p, q, k, v, key_lengths=None):
    """takes nothing small, and is wrong from its second size on"""
    assert p.dim_qk == p.dim_v == 80 and p.seq_q == p.seq_k and p.seq_q % 48 == 0 and p.heads_q == 3 and p.causal
    return right.function(p, q, k, v, key_lengths=key_lengths)[0] * (1 if p.seq_k == 48 else 1.5)


@target(errors=ERRORS)
def into_out(p, q, k, v, bias=None, mask=None, key_lengths=None, out=None, lse=None):
    """writes into the memory it is given"""
    from attnfuzz.tensor import to_bits_of_bf16

    o, l = right.function(p, q, k, v, bias, mask, key_lengths)
    out[...] = to_bits_of_bf16(o) if out.dtype == "uint16" else o
    if lse is not None:
        lse[...] = l


def ends(name, how):
    def f(p, q, k, v, bias=None, mask=None, key_lengths=None):
        if p.seq_k > 64:
            how()
        return right.function(p, q, k, v, bias, mask, key_lengths)

    f.__name__ = name
    return target(f, errors=ERRORS)


compiled = set()


def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


@target(errors=ERRORS, compiles=("dtype", "heads", "seq"), domain=attnfuzz.Domain(dtypes=("f16",)))
def compiles_slowly(p, q, k, v, bias=None, mask=None, key_lengths=None):
    """takes 0.8 s before the first call of a process, as a compiler does"""
    if not compiled:
        burn(0.8)
    compiled.add((q.shape[1], k.shape[1], q.shape[2], k.shape[2]))
    return right.function(p, q, k, v, bias, mask, key_lengths)


@target(errors=ERRORS)
def compiles_for_ever(p, q, k, v, bias=None, mask=None, key_lengths=None):
    with attnfuzz.compiling():
        spin()


def spin():
    while True:
        pass


def loud():
    raise ValueError("sixty-five")


segfaults = ends("segfaults", lambda: ctypes.string_at(8))
hangs = ends("hangs", spin)
raises = ends("raises", loud)
exits = ends("exits", lambda: sys.exit(3))
leaves = ends("leaves", lambda: os._exit(7))


@target(errors=ERRORS, domain=attnfuzz.Domain(dtypes=("f16",)))
def chatty(p, q, k, v, bias=None, mask=None, key_lengths=None):
    """prints more than a pipe holds"""
    print("x" * 400_000)
    return right.function(p, q, k, v, bias, mask, key_lengths)


@attnfuzz.target(errors=ERRORS)
def no_bits(p, q, k, v, bias=None, mask=None, key_lengths=None):
    """takes bf16 as ml_dtypes has it, and would take bits for numbers"""
    import numpy

    return right.function(p, *(numpy.asarray(x, numpy.float32) for x in (q, k, v)), bias, mask, key_lengths)
