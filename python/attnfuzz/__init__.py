"""attnfuzz for kernels that live in Python.

    # sdpa.py                  attnfuzz check ./sdpa.py:efficient
    import attnfuzz

    @attnfuzz.target(device="cuda", tiles=(64, 64), errors=attnfuzz.Errors(accumulator="tensor", p="input"),
                     domain=attnfuzz.Domain(softcap=False, window=False, key_lengths=False, align="top_left"))
    def efficient(p, q, k, v):
        ...
        return o, lse

See docs/python.md. Nothing is imported here beyond the standard library.
"""

from attnfuzz import harness
from attnfuzz.declare import (Domain, Errors, Unsupported, at_least, at_most, compiling, known, multiple, shows_known,
                              target)
from attnfuzz.judge import Failed, check, judge
from attnfuzz.masks import one_mask
from attnfuzz.oracle import assert_within, oracle

__all__ = ["Domain", "Errors", "Failed", "Unsupported", "assert_within", "at_least", "at_most", "check", "compiling", "harness",
           "judge", "known", "multiple", "one_mask", "oracle", "shows_known", "target"]
