"""The oracle of gradients."""

import unittest
from dataclasses import replace

import numpy as np

import attnfuzz
from attnfuzz.targets.numpy_reference import ERRORS
from plain_attention import RANDOM, inputs, plain, plain_gradients


class Gradients(unittest.TestCase):
    def setUp(self):
        self.qkv = inputs()
        self.dout = RANDOM.standard_normal(self.qkv[0].shape).astype(np.float16)
        o, lse = plain(*self.qkv)
        self.saved = o.astype(np.float16), lse.astype(np.float32)

    def test_given_o_and_lse_are_taken_as_they_are(self):
        due = attnfuzz.gradients(*self.qkv, self.dout, *self.saved, errors=ERRORS)
        for (expected, bound), exact in zip(due.values(), plain_gradients(*self.qkv, self.dout, *self.saved)):
            np.testing.assert_allclose(expected, exact, rtol=1e-9, atol=1e-12)
            self.assertTrue((bound > 0).all() and (bound < 0.1).all())
        self.assertEqual(list(due), ["dq", "dk", "dv"])
        got = [a.astype(np.float16) for a in plain_gradients(*self.qkv, self.dout, *self.saved)]
        self.assertLessEqual(attnfuzz.assert_gradients_within(got, *self.qkv, self.dout, *self.saved, errors=ERRORS), 1)

    def test_without_them_the_function_is_exact(self):
        due = attnfuzz.gradients(*self.qkv, self.dout, errors=ERRORS)
        given = attnfuzz.gradients(*self.qkv, self.dout, *self.saved, errors=ERRORS)
        for name, exact in zip(due, plain_gradients(*self.qkv, self.dout)):
            np.testing.assert_allclose(due[name][0], exact, rtol=1e-9, atol=1e-12)
            self.assertGreaterEqual(np.median(due[name][1] / given[name][1]), 1)

    def test_keys_of_blocks_are_hidden_as_by_a_mask(self):
        length = np.array([60, 9]).reshape(2, 1, 1, 1)
        position = np.arange(70) * 2 + 3  # of the last of 4 keys
        mask = (position < length) & (position <= np.arange(5)[:, None] + length - 5)
        due, other = (attnfuzz.gradients(*self.qkv, self.dout, errors=ERRORS, **how)
                      for how in (dict(causal=True, align="bottom_right", key_lengths=[60, 9], key_blocks=(2, 4)), dict(mask=mask)))
        for name in due:
            np.testing.assert_array_equal(due[name][0], other[name][0])
            self.assertTrue((due[name][0] != 0).any())

    def test_what_is_wrong_is_told_with_its_place(self):
        dq, dk, dv = plain_gradients(*self.qkv, self.dout)
        dk[1, 0, 69, 3] += 1
        for got in ((dq, dk, dv), {"dk": dk}, (None, dk)):
            with self.assertRaisesRegex(AssertionError, r"dk\(b=1, h=0, k=69, d=3\) is .*1 of 2240 elements"):
                attnfuzz.assert_gradients_within(got, *self.qkv, self.dout)
        nothing = np.zeros_like(self.saved[0])
        wrong = plain_gradients(*self.qkv, self.dout, nothing)
        with self.assertRaisesRegex(AssertionError, "^dq"):
            attnfuzz.assert_gradients_within(wrong, *self.qkv, self.dout, *self.saved)

    def test_bad_use_is_told(self):
        for call, words in ((dict(o=self.saved[0]), "both, or neither"),
                            (dict(o=self.saved[0], lse=self.saved[1], errors=replace(ERRORS, saved="recomputed")), "is given neither"),
                            (dict(o=self.saved[0][:, :, 1:], lse=self.saved[1]), r"o has the shape .*\(2, 2, 5, 16\) is due"),
                            (dict(o=self.saved[0], lse=self.saved[1][:1]), "lse has the shape")):
            with self.assertRaisesRegex(ValueError, words):
                attnfuzz.gradients(*self.qkv, self.dout, **call)
        with self.assertRaisesRegex(TypeError, "dout: must be of q's format, f16"):
            attnfuzz.gradients(*self.qkv, self.dout.astype(np.float32), *self.saved)
        for call, words in ((dict(slopes=np.zeros(2, np.float32)), "a backward pass has no slopes"),
                            (dict(block_table=[[0], [1]], key_lengths=[4, 4]), "only the forward pass.* pages"),
                            (dict(dbias_shape=(2, 2, 5, 70)), "dbias is wanted of no bias"),
                            (dict(dbias_shape=(2, 2, 5, 1)), r"dbias has the shape \(2, 2, 5, 1\), and \(2, 2, 5, 70\) is due"),
                            (dict(dlse=np.zeros(3)), r"dlse has the shape \(3,\), and \(2, 2, 5\) is due")):
            with self.assertRaisesRegex(ValueError, words):
                attnfuzz.gradients(*self.qkv, self.dout, *self.saved, **call)
        for got, words in (({"dbias": 1}, "'dbias'"), ((None, None, None), "no gradient is given"),
                           ({"dsink": np.zeros(2)}, "'dsink': a gradient of this call is one of dq, dk, dv$"),
                           ((None, None, None, 1), "4 gradients are given, and there are 3: dq, dk, dv")):
            with self.assertRaisesRegex(ValueError, words):
                attnfuzz.assert_gradients_within(got, *self.qkv, self.dout)
