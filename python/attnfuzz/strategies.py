"""A Hypothesis strategy of drawn cases.

    from hypothesis import given
    from attnfuzz import strategies

    @given(strategies.cases("dim=64,128 no_bias no_key_lengths"))
    def test_mine(case):
        out, lse = case.call(mine)
        case.assert_within(out, lse)

Hypothesis shrinks a failing case by limiting its sizes and removing features; `attnfuzz reduce` goes further.
Needs Hypothesis, which the package does not install: pip install hypothesis.
"""

from attnfuzz.cases import Stream

# Limits on sizes, and removed features, in the words of --domain.
_SIZES = ("batch", "heads_q", "seq_q", "seq_k", "dim_qk", "dim_v")
_FEATURES = {
    "no_bias": lambda p: p.has_bias,
    "no_mask": lambda p: p.has_mask,
    "no_window": lambda p: p.window_left >= 0 or p.window_right >= 0,
    "no_softcap": lambda p: p.softcap > 0,
    "no_key_lengths": lambda p: p.has_key_lengths,
    "no_causal": lambda p: p.causal,
    "no_gqa": lambda p: p.heads_q != p.heads_kv,
    "finite": lambda p: True,
    "layout=dense": lambda p: True,
}
# 12 of 13 choices keep the drawn size. The first choice is the simplest, because Hypothesis shrinks towards it.
_KEPT = 12


def _hypothesis():
    try:
        from hypothesis import strategies
    except ImportError as e:
        raise ImportError(f"attnfuzz.strategies needs Hypothesis ({e}): pip install hypothesis; attnfuzz.cases() yields "
                          "the same cases without it") from None
    return strategies


def _limits(n, tile):
    """A few smaller sizes than n, ascending: those just below n, and those beside a tile's border."""
    return sorted({m for m in (1, 2, 3, 4, n // 4, n // 2, n - 2, n - 1, tile - 1, tile, tile + 1) if 0 < m < n})


def _allowed(stream, index, words):
    """The `words` under which the domain still has cases. A domain of long sequences has none with
    few keys."""
    allowed = []
    for word in words:
        try:
            stream.draw(1, index, " ".join([*allowed, word]))
            allowed.append(word)
        except ValueError:
            pass
    return allowed


def cases(domain=None, *, tiles=(64, 64), work=3_000_000, bf16="ml_dtypes", operation="forward"):
    """A strategy of attnfuzz.Case: the cases that attnfuzz.cases() yields, with its arguments."""
    st = _hypothesis()
    stream = Stream(domain, tiles, work, bf16, operation)

    @st.composite
    def drawn(draw):
        index = draw(st.integers(0, 2**31 - 1))
        case = stream.draw(1, index)
        words = []
        for name in _SIZES:
            n = getattr(case.p, name)
            limits = _limits(n, tiles[name == "seq_k"])
            limit = draw(st.sampled_from(limits + [n] * (_KEPT * max(len(limits), 1))))
            words += [f"{name}<={limit}"] if limit < n else []
        for word, there in _FEATURES.items():
            if there(case.p) and draw(st.sampled_from([True] + [False] * _KEPT)):
                words.append(word)
        if not words:
            return case
        try:
            return stream.draw(1, index, " ".join(words))
        except ValueError:
            words = _allowed(stream, index, words)
            return stream.draw(1, index, " ".join(words)) if words else case

    return drawn()
