"""The oracle, and assert_within."""

import unittest
from dataclasses import replace

import numpy as np

import attnfuzz
from attnfuzz.tensor import to_bits_of_bf16
from attnfuzz.targets.numpy_reference import ERRORS
from plain_attention import inputs, plain


class Oracle(unittest.TestCase):
    def test_is_the_definition(self):
        q, k, v = inputs()
        expected, bound, lse, lse_bound = attnfuzz.oracle(q, k, v, lse=True)
        o, l = plain(q, k, v)
        self.assertTrue(np.allclose(expected, o, rtol=1e-12, atol=1e-12))
        self.assertTrue(np.allclose(lse, l, rtol=1e-6))
        self.assertTrue((bound > 0).all() and (bound < 0.05).all() and (lse_bound < 1e-2).all())

    def test_causal_is_of_the_side_that_was_said(self):
        q, k, v = inputs(seq_q=6, seq_k=9)
        i, j = np.arange(6)[:, None], np.arange(9)[None, :]
        for align, seen in (("top_left", j <= i), ("bottom_right", j <= i + 3)):
            expected, _ = attnfuzz.oracle(q, k, v, causal=True, align=align)
            self.assertTrue(np.allclose(expected, plain(q, k, v, seen)[0], atol=1e-12), align)

    def test_bf16_as_bits_and_strides(self):
        q, k, v = (to_bits_of_bf16(a) for a in inputs())
        a, _ = attnfuzz.oracle(q, k, v)
        b, _ = attnfuzz.oracle(np.asfortranarray(q), k[:, :, ::-1], v[:, :, ::-1])
        self.assertTrue(np.allclose(a, b, atol=1e-12))

    def test_fp32_is_judged_in_fp32(self):
        q, k, v = (a.astype(np.float32) * np.float32(1.1) for a in inputs())
        expected, bound = attnfuzz.oracle(q, k, v, errors=ERRORS)
        self.assertTrue(np.allclose(expected, plain(q, k, v)[0], rtol=1e-12, atol=1e-12))
        self.assertTrue((bound < 5e-5).all())
        tf32 = [(a.view(np.uint32) & ~np.uint32(0x1FFF)).view(np.float32) for a in (q, k, v)]
        out = plain(*tf32)[0].astype(np.float32)
        with self.assertRaises(AssertionError):
            attnfuzz.assert_within(out, None, q, k, v)
        cut = attnfuzz.Errors(accumulator="tensor", products="tf32")
        self.assertTrue((abs(plain(q, k, v)[0] - out) <= 2 * attnfuzz.oracle(q, k, v, errors=cut)[1]).all())
        self.assertLess(attnfuzz.assert_within(plain(q, k, v)[0].astype(np.float32), None, q, k, v, errors=ERRORS), 1)

    def test_a_better_declaration_makes_a_tighter_bound(self):
        q, k, v = inputs()
        self.assertLess(attnfuzz.oracle(q, k, v, errors=ERRORS)[1].max(), attnfuzz.oracle(q, k, v)[1].max())

    def test_parts_weighed_by_their_lse_may_err_by_its_digits(self):
        whole = attnfuzz.Errors(accumulator="tensor", p="input", exp="ex2.approx", log="logf", rcp="exact", scale="fused")
        parts = replace(whole, partials="fp32", merges=2, merge="lse")
        for score, least, most in ((1.0, 1, 1.1), (2.0**17, 2**-8, 2**-4)):
            q, k, v = (np.full((1, 1, n, 16), x, np.float16) for n, x in ((1, 1.0), (65, score / 16), (65, 1.0)))
            one, two = (attnfuzz.oracle(q, k, v, scale=1.0, errors=e)[1].max() for e in (whole, parts))
            self.assertTrue(least < (two / one if score == 1 else two) < most, (score, one, two))
        # One by one, which counts where nothing is said, each merge goes through an LSE.
        lse, unsaid = (attnfuzz.oracle(q, k, v, scale=1.0, errors=replace(parts, merges=64, merge=how))[1].max()
                       for how in ("lse", None))
        self.assertLess(8 * lse, unsaid)

    def test_a_verdict_has_one_reason(self):
        from attnfuzz.judge import _answer

        failure = {"kind": "wrong", "message": "O is off"}
        found = {"status": "found", "not_judged": ["most cases were not judged"], "failure": failure}
        self.assertEqual(_answer(found), ("failed", [], failure))
        self.assertEqual(_answer({"status": "held", "not_judged": []}), ("held", [], None))
        few = {"status": "not judged", "not_judged": ["too few"]}
        self.assertEqual(_answer(few), ("not judged", ["too few"], None))
        self.assertEqual(_answer({"status": "interrupted", "not_judged": []}),
                         ("not judged", ["the check was interrupted"], None))

    def test_p_of_another_format_than_the_inputs(self):
        q, k, v = inputs()
        said = dict(accumulator="ffma", exp="expf", log="logf", rcp="exact", scale="separate")
        bound = {p: np.median(attnfuzz.oracle(q, k, v, errors=attnfuzz.Errors(p=p, **said))[1])
                 for p in ("fp32", "input", "fp16", "bf16")}
        self.assertEqual(bound["input"], bound["fp16"])
        self.assertTrue(bound["fp32"] < bound["fp16"] < bound["bf16"] / 3, bound)
        eight = attnfuzz.Errors(p="e4m3", p_scale=256, v="bf16", **said)
        self.assertIn("p=e4m3 v=bf16", eight.words())
        self.assertIn("p_scale=256", eight.words())
        expected, wide = attnfuzz.oracle(q, k, v, errors=eight)
        self.assertTrue((wide > bound["bf16"]).all() and np.isfinite(wide).all() and np.median(wide) < 0.5)
        for bad in (dict(p="4bit"), dict(p_scale=-1), dict(products="tf32", v="bf16")):
            with self.assertRaises(ValueError):
                attnfuzz.Errors(**bad)

    def test_p_is_rounded_before_or_after_the_division(self):
        # 101 keys, of which 100 share the weight and the last one's weight rounds to 0 in fp16.
        q, k, v = (np.zeros((1, 1, n, 1), np.float16) for n in (1, 101, 101))
        q[:], k[0, 0, 100], v[0, 0, 100] = 1, -12.75, 2
        said = dict(accumulator="ffma", p="input", exp="expf", log="logf", rcp="exact", scale="separate")
        expected, bounds = 0, {}
        for order in ("unnormalised", "normalised", None):
            errors = attnfuzz.Errors(p_order=order, **said)
            self.assertEqual(f"p_order={order}" in errors.words(), order is not None)
            expected, bound = (x.item() for x in attnfuzz.oracle(q, k, v, scale=1.0, errors=errors))
            bounds[order] = bound
        self.assertTrue(5e-8 < expected < 6.5e-8, expected)
        self.assertLess(bounds["unnormalised"], expected)
        self.assertGreater(bounds["normalised"], expected)
        self.assertGreater(bounds[None], expected)
        with self.assertRaisesRegex(ValueError, "merging"):
            attnfuzz.Errors(p_order="normalised", merging="input")

    def test_merges_in_16_bits_cost_four_roundings(self):
        q, k, v = inputs()
        said = dict(accumulator="ffma", p="fp32", partials="input", merges=2, scale="separate")
        narrow = attnfuzz.Errors(merging="input", **said)
        self.assertIn("partials=input merging=input", narrow.words())
        ratio = np.median(attnfuzz.oracle(q, k, v, errors=narrow)[1] / attnfuzz.oracle(q, k, v, errors=attnfuzz.Errors(**said))[1])
        self.assertTrue(2 < ratio < 4, ratio)

    def test_an_lse_is_of_the_form_that_is_said(self):
        q, k, v = inputs()
        mask = np.ones((1, 1, 5, 70), bool)
        mask[0, 0, 1] = False
        natural, bound = attnfuzz.oracle(q, k, v, mask=mask, lse=True)[2:]
        two, bound2 = attnfuzz.oracle(q, k, v, mask=mask, lse=True, lse_base=2, lse_dead="+inf")[2:]
        alive = np.isfinite(natural)
        self.assertEqual((~alive).sum(), 4)
        np.testing.assert_allclose(two[alive], natural[alive] / np.log(2), rtol=1e-15)
        np.testing.assert_allclose(bound2[alive], bound[alive] / np.log(2), rtol=1e-15)
        self.assertTrue((two[~alive] == np.inf).all())
        out = attnfuzz.oracle(q, k, v, mask=mask)[0].astype(np.float32)
        given = np.where(alive, two, np.inf).astype(np.float32)
        attnfuzz.assert_within(out, given, q, k, v, mask=mask, lse_base=2, lse_dead="+inf")
        attnfuzz.assert_within(out, np.where(alive, given, 7), q, k, v, mask=mask, lse_base=2, lse_dead="any")
        for said in ({}, {"lse_base": 2}, {"lse_base": 2, "lse_dead": "0"}, {"lse_dead": "+inf"}):
            with self.assertRaisesRegex(AssertionError, "lse"):
                attnfuzz.assert_within(out, given, q, k, v, mask=mask, **said)

    def test_bad_arguments_are_told(self):
        q, k, v = inputs()
        for arguments, words in (((q.astype(np.float64), k, v), "q is of float64"), ((q.astype(np.float32), k, v), "one format"), ((q[0], k, v), "3 dimensions"),
                                 ((q, k[:, :, 1:], v), "v has the shape"), ((q, k, to_bits_of_bf16(v)), "one format")):
            with self.assertRaisesRegex((TypeError, ValueError), words):
                attnfuzz.oracle(*arguments)


class AssertWithin(unittest.TestCase):
    def test_passes_what_is_right_and_names_what_is_not(self):
        q, k, v = inputs()
        o, lse = plain(q, k, v)
        out = o.astype(np.float16)
        self.assertLess(attnfuzz.assert_within(out, lse, q, k, v), 1)
        wrong = out.copy()
        wrong[1, 0, 3, 7] += 0.25
        with self.assertRaisesRegex(AssertionError, r"out\(b=1, h=0, q=3, d=7\) is .*; 1 of 320 elements"):
            attnfuzz.assert_within(wrong, lse, q, k, v)
        with self.assertRaisesRegex(AssertionError, r"lse\(b=\d, h=\d, q=\d\) is .*; 20 of 20"):
            attnfuzz.assert_within(out, lse / np.log(2), q, k, v)
        wrong[1, 0, 3, 7] = np.nan
        with self.assertRaisesRegex(AssertionError, "is nan"):
            attnfuzz.assert_within(wrong, None, q, k, v)

    def test_finds_a_dropped_key_that_a_tolerance_passes(self):
        q, k, v = inputs(batch=1, heads=1, seq_k=4096, dim=64)
        short = plain(q, k[:, :, :-1], v[:, :, :-1])
        self.assertTrue(np.allclose(short[0], plain(q, k, v)[0], rtol=1e-2, atol=1e-2))
        with self.assertRaises(AssertionError):
            attnfuzz.assert_within(short[0].astype(np.float32), short[1], q, k, v, errors=ERRORS)
