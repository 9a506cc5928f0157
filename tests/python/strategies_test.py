"""attnfuzz.strategies with Hypothesis: a right function holds, a wrong one is shrunk to the border of its tile."""

import unittest

from hypothesis import given, settings

import attnfuzz
from attnfuzz import strategies
from attnfuzz.targets.numpy_reference import attention, backward

QUICK = settings(max_examples=150, deadline=None, database=None, derandomize=True)


class Strategies(unittest.TestCase):
    def test_what_is_right_holds(self):
        @QUICK
        @given(strategies.cases("no_key_lengths", work=300_000))
        def right(case):
            self.assertIsNone(case.key_lengths)
            case.assert_within(*case.call(attention))

        right()

    def test_a_backward_pass_is_drawn(self):
        @settings(QUICK, max_examples=40)
        @given(strategies.cases("f16", work=100_000, operation="backward"))
        def right(case):
            case.assert_within(case.call(backward), errors=backward.errors)

        right()

    def test_a_failure_is_shrunk(self):
        last = []

        @QUICK
        @given(strategies.cases(attnfuzz.Domain(bias=False, mask=False), work=300_000))
        def wrong(case):
            out, lse = case.call(attention)
            if case.p.seq_k > 64:
                last.append(case)
                lse = lse + 1
            case.assert_within(out, lse)

        with self.assertRaisesRegex(AssertionError, "(?s)lse.*error/bound.*case: B=1 H=1/1 S=1/65 D=1/1"):
            wrong()
        self.assertEqual(last[-1].q.size, 1)

    def test_limits_stay_inside_the_domain(self):
        @settings(QUICK, max_examples=40)
        @given(strategies.cases("seq_k>=500 seq_q=1 only_causal dim=64,128"))
        def inside(case):
            p = case.p
            self.assertTrue(p.seq_k >= 500 and p.seq_q == 1 and p.causal and {p.dim_qk, p.dim_v} <= {64, 128}, case)

        inside()


if __name__ == "__main__":
    unittest.main()
