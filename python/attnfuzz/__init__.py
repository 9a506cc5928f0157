"""attnfuzz: property-based and differential fuzz testing of attention kernels, for kernels that live in Python.

    # sdpa.py                  attnfuzz check ./sdpa.py:efficient
    import attnfuzz

    @attnfuzz.target(device="cuda", tiles=(64, 64), errors=attnfuzz.Errors(accumulator="tensor", p="input"),
                     domain=attnfuzz.Domain(softcap=False, window=False, key_lengths=False, align="top_left"))
    def efficient(p, q, k, v):
        ...
        return o, lse

    target, Domain, Errors     declare a function as a kernel: what it takes and how it rounds
    cache                      declare a class as a cache that attnfuzz sequence judges through many calls
    check, judge               run the command on it; an exception with the case, or a dict
    cases                      the generator by itself, for a loop of your own; strategies.cases() for Hypothesis
    oracle, assert_within      the expected output with a bound for every element, for arrays of your own; gradients and
                               assert_gradients_within for a backward pass
    harness                    judges submissions of two public benchmarks

docs/python.md is the manual. Only Python's standard library is imported here; oracle() and NumPy targets need NumPy.
"""

try:
    import attnfuzz.contract  # noqa: F401
except ModuleNotFoundError:
    raise ImportError("attnfuzz/contract.py is made when attnfuzz is built: install the wheel, or build attnfuzz and use "
                      "PYTHONPATH=BUILD/python") from None

from attnfuzz import harness
from attnfuzz.cache import Setup, cache
from attnfuzz.cases import Case, cases
from attnfuzz.declare import Unsupported, compiling, known, shows_known, target
from attnfuzz.domain import Domain, at_least, at_most, multiple
from attnfuzz.errors import Errors
from attnfuzz.judge import Failed, check, judge
from attnfuzz.masks import entries, gather, key_counts, one_mask, pack, paged, place_rows, unpack
from attnfuzz.oracle import NotJudged, assert_gradients_within, assert_within, gradients, oracle
from attnfuzz.tensor import as_float32

__all__ = ["Case", "Domain", "Errors", "Failed", "NotJudged", "Setup", "Unsupported", "as_float32", "assert_gradients_within", "assert_within", "at_least",
           "at_most", "cache", "cases", "check", "compiling", "entries", "gather", "gradients", "harness", "judge", "key_counts", "known", "multiple", "one_mask",
           "oracle", "pack", "paged", "place_rows", "shows_known", "target", "unpack"]


def __getattr__(name):
    if name == "__version__":
        from attnfuzz.home import version

        return version()
    raise AttributeError(f"module 'attnfuzz' has no attribute {name!r}")
