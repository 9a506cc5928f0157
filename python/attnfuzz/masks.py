"""Helpers of adapters that translate a case for a library. Arrays are NumPy's or torch's."""

import math


def one_mask(bias=None, mask=None):
    """The one additive or boolean mask that a library takes: the bias with -inf where the mask is False; either alone; None."""
    if bias is None:
        return mask
    if mask is None:
        return bias
    if hasattr(bias, "masked_fill"):
        return bias.masked_fill(~mask, -math.inf)
    import numpy

    return numpy.where(mask, bias, numpy.float32(-math.inf))


def sees_nothing(p, bias=None, mask=None, key_lengths=None):
    """The queries of NumPy arrays that see no key, as booleans (batch, heads_q, seq_q). It is for a library whose convention
    does not give zeros for them, which an adapter converts."""
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
    """K or V as a NumPy array, with zeros in place of NaN and infinities beyond the lengths. It is for a library that
    computes with those values and masks them by adding a number."""
    import numpy

    beyond = numpy.arange(t.shape[2])[:, None] >= numpy.asarray(key_lengths).reshape(-1, 1, 1, 1)
    return numpy.where(beyond & ~numpy.isfinite(t), numpy.zeros((), t.dtype), t)


def _diagonal(p, key_lengths):
    """The lengths (batch or 1, 1, 1, 1), and the key on the diagonal of each query."""
    import numpy

    if key_lengths is None:
        length = numpy.full((1, 1, 1, 1), p.seq_k)
    else:
        length = numpy.clip(numpy.asarray(key_lengths), 0, p.seq_k).reshape(-1, 1, 1, 1)
    return length, numpy.arange(p.seq_q)[:, None] + (length - p.seq_q if p.align == "bottom_right" else 0)


def distances(p, key_lengths=None):
    """The distance of each key from its query's diagonal, which ALiBi multiplies by a slope: (batch or 1, 1, seq_q, seq_k)."""
    import numpy

    return abs(_diagonal(p, key_lengths)[1] - numpy.arange(p.seq_k))


def visible(p, key_lengths=None):
    """The keys that a query sees by position, as a boolean NumPy array (batch or 1, 1, seq_q, seq_k); None: all."""
    import numpy

    if key_lengths is None and not p.causal and p.window_left < 0 and p.window_right < 0:
        return None
    j = numpy.arange(p.seq_k)[None, :]
    length, diagonal = _diagonal(p, key_lengths)
    seen = numpy.broadcast_to(j < length, (length.shape[0], 1, p.seq_q, p.seq_k)).copy()
    far = p.seq_q + p.seq_k  # a window may be as wide as 64 bits allow
    right = 0 if p.causal else None
    if p.window_right >= 0:
        right = min(p.window_right, far) if right is None else right
    if right is not None:
        seen &= j <= diagonal + right
    if p.window_left >= 0:
        seen &= j >= diagonal - min(p.window_left, far)
    return seen
