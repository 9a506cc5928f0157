"""The package in this process: oracle, assert_within, views, declarations. python3 package_test.py, with PYTHONPATH."""

import collections
import ctypes
import functools
import inspect
import os
import subprocess
import sys
import types
import unittest
import unittest.mock
from dataclasses import replace

import numpy as np

import attnfuzz
import attnfuzz.targets
from attnfuzz import contract, home, kernel, worker
from attnfuzz.cache import Life
from attnfuzz.tensor import Tensor, numpy_view, to_bits_of_bf16
from attnfuzz.targets.numpy_reference import ERRORS, nsa_score

RANDOM = np.random.default_rng(7)


def inputs(batch=2, heads=2, heads_kv=1, seq_q=5, seq_k=70, dim=16):
    return (RANDOM.standard_normal((batch, heads, seq_q, dim)).astype(np.float16),
            RANDOM.standard_normal((batch, heads_kv, seq_k, dim)).astype(np.float16),
            RANDOM.standard_normal((batch, heads_kv, seq_k, dim)).astype(np.float16))


def plain(q, k, v, seen=None):
    """In double precision, from the definition."""
    q, k, v = (a.astype(np.float64) for a in (q, k, v))
    k, v = (np.repeat(a, q.shape[1] // k.shape[1], axis=1) for a in (k, v))
    x = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[3])
    if seen is not None:
        x = np.where(seen, x, -np.inf)
    e = np.exp(x - x.max(-1, keepdims=True))
    return e @ v / e.sum(-1, keepdims=True), np.log(e.sum(-1)) + x.max(-1)


class Package(unittest.TestCase):
    def test_its_version_is_the_commands(self):
        said = subprocess.run([home.command(), "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertEqual(said.strip(), f"attnfuzz {attnfuzz.__version__}")
        with self.assertRaisesRegex(AttributeError, "no_such_name"):
            attnfuzz.no_such_name

    def test_help_says_something_of_every_public_name(self):
        for name in attnfuzz.__all__:
            said = inspect.getdoc(getattr(attnfuzz, name)) or ""
            # A dataclass without a docstring has its signature there.
            self.assertTrue(len(said) > 40 and not said.startswith(f"{name}("), f"{name}: {said!r}")

    def test_formats_have_their_other_names(self):
        self.assertEqual(attnfuzz.Domain(dtypes=("fp16", "fp32")), attnfuzz.Domain(dtypes=("f16", "f32")))
        self.assertEqual(attnfuzz.Domain(dtypes="fp32").words(), "f32")
        self.assertEqual(attnfuzz.Errors(p="f32").words(), attnfuzz.Errors(p="fp32").words())

    def test_as_float32_is_exact(self):
        values = np.array([1.0, -2.5, 3.140625], np.float32)
        for array in (values, values.astype(np.float16), to_bits_of_bf16(values)):
            self.assertEqual(attnfuzz.as_float32(array).tolist(), values.tolist())


def plain_gradients(q, k, v, dout, o=None, lse=None):
    """dQ, dK and dV in double precision, of this O and LSE, or of exact ones."""
    exact, exact_lse = plain(q, k, v)
    o, lse = exact if o is None else o.astype(np.float64), exact_lse if lse is None else lse.astype(np.float64)
    q, k, v, dout = (a.astype(np.float64) for a in (q, k, v, dout))
    group, scale = q.shape[1] // k.shape[1], 1 / np.sqrt(q.shape[3])
    k, v = (np.repeat(a, group, axis=1) for a in (k, v))
    p = np.exp(q @ k.swapaxes(2, 3) * scale - lse[..., None])
    ds = p * (dout @ v.swapaxes(2, 3) - (dout * o).sum(-1, keepdims=True))
    dk, dv = (a.reshape(a.shape[0], -1, group, *a.shape[2:]).sum(2) for a in (ds.swapaxes(2, 3) @ q * scale, p.swapaxes(2, 3) @ dout))
    return ds @ k * scale, dk, dv


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


class SinksAndSlopes(unittest.TestCase):
    def test_packed_entries_are_dense_calls(self):
        q, k, v = (a[0] for a in inputs(1, 4, 2, 12, 90))
        cu_q, cu_k = [0, 5, 5, 9], np.array([0, 70, 71, 71], np.int32)
        rows = [a.swapaxes(0, 1) for a in (q, k, v)]
        for how in ({"causal": True, "align": "bottom_right"}, {"window": (3, 2)}, {"key_lengths": [60, 1, 0]}):
            of = attnfuzz.oracle(*rows, cu_seqlens_q=cu_q, cu_seqlens_k=cu_k, lse=True, errors=ERRORS, **how)
            self.assertEqual([a.shape for a in of], [(12, 4, 16)] * 2 + [(4, 12)] * 2)
            for b in range(3):
                own = dict(how, key_lengths=how["key_lengths"][b : b + 1]) if "key_lengths" in how else how
                queries, keys = slice(cu_q[b], cu_q[b + 1]), slice(cu_k[b], cu_k[b + 1])
                one = attnfuzz.oracle(q[None, :, queries], k[None, :, keys], v[None, :, keys], lse=True, errors=ERRORS, **own)
                for dense, packed in zip(one, (of[0][queries].swapaxes(0, 1), of[1][queries].swapaxes(0, 1),
                                               of[2][:, queries], of[3][:, queries])):
                    np.testing.assert_array_equal(packed, dense[0])
            self.assertTrue(np.isinf(of[1][9:]).all() and np.isinf(of[3][:, 9:]).all())  # the rows of no entry
            out = of[0].astype(np.float32)
            out[9:] = np.nan
            attnfuzz.assert_within(out, None, *rows, cu_seqlens_q=cu_q, cu_seqlens_k=cu_k, errors=ERRORS, **how)
            out[3, 2, 1] += 1
            with self.assertRaisesRegex(AssertionError, r"^out\(q=3, h=2, d=1\) is "):
                attnfuzz.assert_within(out, None, *rows, cu_seqlens_q=cu_q, cu_seqlens_k=cu_k, errors=ERRORS, **how)

    def test_one_side_may_be_packed(self):
        q, k, v = inputs(3, 2, 1, 4, 20)
        packed = attnfuzz.pack(kernel.Call(contract.Problem(batch=3, seq_q=4, seq_k=20), True, 1), q, k, v)
        due = attnfuzz.oracle(q, k, v, errors=ERRORS)[0]
        keys = attnfuzz.oracle(q, *packed[1:3], cu_seqlens_k=packed[4], errors=ERRORS)[0]
        np.testing.assert_array_equal(keys, due)
        queries = attnfuzz.oracle(packed[0], k, v, cu_seqlens_q=packed[3], errors=ERRORS)[0]
        np.testing.assert_array_equal(queries.reshape(3, 4, 2, 16).swapaxes(1, 2), due)

    def test_packed_lists_and_scores_of_blocks_are_those_of_dense_calls(self):
        bits, cu_q, cu_k = contract.OPERATIONS["nsa_score"], [0, 3, 3, 8], [0, 2, 9, 13]
        problem = contract.Problem(features=bits, bias_dtype=contract.NONE, batch=3, heads_q=4, heads_kv=2, seq_q=5, seq_k=7, dim_qk=16,
                                   dim_v=1, scale=0.25, causal=1, align=contract.BOTTOM_RIGHT, window_left=-1, window_right=-1,
                                   ragged=3, total_q=9, total_k=14, block=4, select=3, key_step=2, key_offset=3)
        p, lse = kernel.Call(problem, False, 1, contract.Tensors()), np.zeros((4, 9), np.float32)
        q, k = (a[0].swapaxes(0, 1) for a in inputs(1, 4, 2, 9, 14)[:2])
        lists, scores = nsa_score.function(p, q, k, lse, cu_seqlens_q=cu_q, cu_seqlens_k=cu_k)
        self.assertEqual((lists.shape, scores.shape, p.blocks), ((9, 2, 3), (9, 2, 5), 5))
        blocks = []
        for place, of, arrays in attnfuzz.entries(p, q, k, None, cu_q, cu_k, lse=lse):
            self.assertEqual(set(arrays), {"q", "k", "lse"})
            blocks.append(of.blocks)
            one = nsa_score.function(of, **arrays)
            for whole, its in zip((lists, scores), one):
                np.testing.assert_array_equal(whole[place][..., : its.shape[-1]], its[0].swapaxes(0, 1))
        self.assertEqual(blocks, [2, 5, 3])
        self.assertTrue((lists[8] == -1).all())  # the row of no entry
        p.ragged, p.batch, p.seq_q = 0, 3, 3
        np.testing.assert_array_equal(attnfuzz.unpack(p, lists), lists.reshape(3, 3, 2, 3).swapaxes(1, 2))

    def test_offsets_that_make_no_sense_are_refused(self):
        rows = [a[0].swapaxes(0, 1) for a in inputs(1, 2, 2, 12, 30)]
        for q, k, words in (([0, 13], [0, 30], "cu_seqlens_q is .* end at 12 or below"), ([1, 12], [0, 30], "begin with 0"),
                            ([0, 9, 4], [0, 1, 2], "never fall"), ([0, 4], [0, 1, 2], "1 batch entries of queries and 2 of keys"),
                            ([0.0, 4.0], [0, 4], "must be integers"), ([[0, 4]], [0, 4], "must be integers"),
                            ([], [0, 4], r"cu_seqlens_q is empty: must be integers, \(batch \+ 1\)")):
            with self.assertRaisesRegex(ValueError, words):
                attnfuzz.oracle(*rows, cu_seqlens_q=q, cu_seqlens_k=k)
        with self.assertRaisesRegex(ValueError, "max_seqlen_k is 3, and the longest entry has 30 rows"):
            attnfuzz.oracle(*rows, cu_seqlens_q=[0, 12], cu_seqlens_k=[0, 30], max_seqlen_k=3)
        with self.assertRaisesRegex(ValueError, r"q has 3 dimensions: must be \(batch, heads, length, dim\)"):
            attnfuzz.oracle(*rows, cu_seqlens_k=[0, 30])

    def test_key_lengths_are_integers_of_any_library(self):
        q, k, v = inputs(2, 2, 2, 5, 12)
        due = attnfuzz.oracle(q, k, v, key_lengths=np.array([3, 12]))[0]

        class Tensor:  # of torch, on a device, with a gradient
            def __init__(self, array):
                self.array = array

            def detach(self):
                return self

            cpu = detach

            def numpy(self):
                return self.array

        Tensor.__module__ = "torch"
        spread = np.array([3, 0, 12, 0], np.int32)[::2]
        for lengths in ([3, 12], (3, 12), np.array([3, 12], np.int32), spread, np.array([3, 12], np.uint64),
                        Tensor(np.array([3, 12], np.int32))):
            np.testing.assert_array_equal(attnfuzz.oracle(q, k, v, key_lengths=lengths)[0], due)
        for lengths, words in (([3.0, 12.0], r"key_lengths is float64 of the shape \(2,\): must be integers, \(batch,\)"),
                               ([True, True], "key_lengths is bool"), ([[3, 12]], r"of the shape \(1, 2\)"),
                               ([3], r"key_lengths has the shape \(1,\), and \(2,\) is due"),
                               (Tensor(np.array([3.0, 12.0])), "must be integers"),
                               (np.array([3, 1 << 63], np.uint64), r"key_lengths holds 9223372036854775808: must be at most 2\^63 - 1")):
            with self.assertRaisesRegex(ValueError, words):
                attnfuzz.oracle(q, k, v, key_lengths=lengths)

    def test_a_target_of_packed_entries_has_their_parameters(self):
        with self.assertRaisesRegex(TypeError, "'packed': the function needs the parameters cu_seqlens_q and cu_seqlens_k"):
            attnfuzz.target(lambda p, q, k, v, cu_seqlens_q: q, domain=attnfuzz.Domain(features="packed"))
        with self.assertRaisesRegex(ValueError, "equal_lengths"):
            attnfuzz.target(lambda p, q, k, v, cu_seqlens_q, cu_seqlens_k: q,
                            domain=attnfuzz.Domain(features="packed", equal_lengths=True))

    def test_keys_in_pages_are_those_of_a_dense_call(self):
        q, k, v = inputs(3, 4, 2, 5, 23)
        lengths, size = [23, 0, 9], 4
        table = np.array([[7, 2, 5, 1, 9, 3, -1], [2**31 - 1] * 7, [0, 6, 8, -1, 11, 11, 3]], np.int32)
        pools = [np.full((12, 2, size, t.shape[3]), np.nan, t.dtype) for t in (k, v)]
        for b, keys in enumerate(lengths):
            for j in range(keys):
                for pool, t in zip(pools, (k, v)):
                    pool[table[b, j // size], :, j % size] = t[b, :, j]
        p = kernel.Call(contract.Problem(batch=3, seq_k=23, page_size=size, pages=12, pages_per_seq=7), True, 1)
        for pool, dense, t in zip(pools, attnfuzz.gather(p, *pools, table, np.array(lengths)), (k, v)):
            for b, keys in enumerate(lengths):
                np.testing.assert_array_equal(dense[b, :, :keys], t[b, :, :keys])
                self.assertFalse(dense[b, :, keys:].any())
        self.assertIs(attnfuzz.gather(kernel.Call(contract.Problem(batch=3), True, 1), k, v)[0], k)
        for how in ({"causal": True, "align": "bottom_right"}, {"window": (3, 2)}, {}):
            due = attnfuzz.oracle(q, k, v, key_lengths=lengths, lse=True, errors=ERRORS, **how)
            of = attnfuzz.oracle(q, *pools, key_lengths=lengths, block_table=table, lse=True, errors=ERRORS, **how)
            for one, other in zip(of, due):
                np.testing.assert_array_equal(one, other)
            out = of[0].astype(np.float32)
            attnfuzz.assert_within(out, None, q, *pools, key_lengths=lengths, block_table=table, errors=ERRORS, **how)
            out[2, 3, 4, 1] += 1
            with self.assertRaisesRegex(AssertionError, r"^out\(b=2, h=3, q=4, d=1\) is "):
                attnfuzz.assert_within(out, None, q, *pools, key_lengths=lengths, block_table=table, errors=ERRORS, **how)
        rows = np.concatenate([q[0], q[2][:, :2]], axis=1).swapaxes(0, 1)
        packed = attnfuzz.oracle(rows, *pools, cu_seqlens_q=[0, 5, 5, 7], key_lengths=lengths, block_table=table, errors=ERRORS)[0]
        np.testing.assert_array_equal(packed[:5].swapaxes(0, 1), due[0][0])
        np.testing.assert_array_equal(packed[5:].swapaxes(0, 1), due[0][2][:, :2])

    def test_pages_that_make_no_sense_are_refused(self):
        q, k, v = inputs(2, 2, 2, 5, 4)  # pages of 4 keys
        for table, lengths, words in (([[0], [2]], [4, 4], r"block_table\[1\] is \[2\]: must name pages from 0 to 1"),
                                      ([[-1], [0]], [1, 4], r"block_table\[0\] is \[-1\]"),
                                      ([[0], [1]], [5, 4], "1 pages of 4 keys for an entry, and 5 keys are due"),
                                      ([0, 1], [4, 4], "must be integers, .batch, pages of an entry."),
                                      ([[0.5], [1]], [4, 4], "must be integers"),
                                      ([[0], [1]], None, "key_lengths must say how many keys"),
                                      ([[0], [1]], [4], r"key_lengths has the shape \(1,\), and \(2,\) is due"),
                                      ([[0]], [4], "2 batch entries of queries and 1 of keys")):
            with self.assertRaisesRegex(ValueError, words):
                attnfuzz.oracle(q, k, v, block_table=table, key_lengths=lengths)
        with self.assertRaisesRegex(ValueError, "keys lie in pages or packed, not both"):
            attnfuzz.oracle(q, k, v, block_table=[[0], [1]], key_lengths=[4, 4], cu_seqlens_k=[0, 4, 8])

    def test_a_target_of_pages_has_their_parameters(self):
        with self.assertRaisesRegex(TypeError, "'paged': the function needs the parameters block_table and key_lengths"):
            attnfuzz.target(lambda p, q, k, v, block_table: q, domain=attnfuzz.Domain(features="paged"))
        with self.assertRaisesRegex(ValueError, "key_lengths=False"):
            attnfuzz.target(lambda p, q, k, v, key_lengths, block_table: q,
                            domain=attnfuzz.Domain(features="paged", key_lengths=False))
        with self.assertRaisesRegex(ValueError, "operation='backward': it has no 'paged' in Python"):
            attnfuzz.target(lambda p, q, k, v, dout, o, lse: q, operation="backward", domain=attnfuzz.Domain(features="paged"))
        with self.assertRaisesRegex(ValueError, "operation='backward': it has no 'paged' in Python"):
            next(attnfuzz.cases(attnfuzz.Domain(features=("paged",)), operation="backward"))

    def test_a_sink_is_one_more_key_with_a_value_of_0(self):
        q, k, v = inputs()
        sink = np.array([1.5, -np.inf], np.float32)
        expected, bound, lse, _ = attnfuzz.oracle(q, k, v, sink=sink, lse=True, errors=ERRORS)
        o, without = plain(q, k, v)
        share = np.exp(without - np.logaddexp(without, sink[:, None]))
        np.testing.assert_allclose(expected, o * share[..., None], rtol=1e-9)
        np.testing.assert_allclose(lse, np.logaddexp(without, sink[:, None]), rtol=1e-9)
        with self.assertRaisesRegex(AssertionError, "^out.b=0, h=0"):
            attnfuzz.assert_within(o, None, q, k, v, sink=sink)
        with self.assertRaisesRegex(ValueError, r"sink has the shape \(3,\), and \(2,\) is due"):
            attnfuzz.oracle(q, k, v, sink=np.zeros(3, np.float16))

    def test_slopes_are_a_bias_by_distance(self):
        q, k, v = inputs()
        slopes = np.array([[0.5, 0.25], [1, 0]], np.float32)
        far = abs(np.arange(5)[:, None] + 70 - 5 - np.arange(70)[None, :])
        for given in (slopes, slopes[0]):
            of = np.broadcast_to(given, (2, 2))[..., None, None]
            expected, _ = attnfuzz.oracle(q, k, v, slopes=given, align="bottom_right", errors=ERRORS)
            same, _ = attnfuzz.oracle(q, k, v, bias=(-of * far).astype(np.float32), errors=ERRORS)
            np.testing.assert_allclose(expected, same, rtol=1e-9)
        with self.assertRaisesRegex(TypeError, "slopes is of float16"):
            attnfuzz.oracle(q, k, v, slopes=slopes.astype(np.float16))

    def test_heads_may_be_wide(self):
        q, k, _ = inputs(heads=4, seq_q=2, dim=576)
        expected, bound = attnfuzz.oracle(q, k, k[..., :512], scale=0.07, errors=ERRORS)
        self.assertEqual(expected.shape, (2, 4, 2, 512))


class Compiles(unittest.TestCase):
    def test_is_said_in_words_and_is_a_key(self):
        target = attnfuzz.target(lambda p, q, k, v: q, domain=attnfuzz.Domain(lse=False), compiles=("dtype", "dim"))
        self.assertEqual(target.words(), "no_lse compiles=dtype,dim")
        call = unittest.mock.Mock(dtype="f16", dim_qk=8, dim_v=16)
        self.assertEqual(target.compilation(call), ("f16", (8, 16)))
        with self.assertRaisesRegex(ValueError, "compiles"):
            attnfuzz.target(lambda p, q, k, v: q, compiles=("shape",))

    def test_is_told_once_however_often_it_is_nested(self):
        with unittest.mock.patch("attnfuzz.declare._tell_compiling") as tell:
            with attnfuzz.compiling(), attnfuzz.compiling():
                pass
            self.assertEqual([call.args for call in tell.call_args_list], [(1,), (0,)])


class Groups(unittest.TestCase):
    def test_a_limit_is_drawn_within_and_holds(self):
        domain = attnfuzz.Domain(group={2, 3})
        self.assertEqual(list(domain.struct().group.list[:2]), [2, 3])
        call = types.SimpleNamespace(features=0, heads_q=4, heads_kv=1)
        self.assertEqual(domain.outside(call, None), "group is 4: declared for group=2,3")
        call.heads_kv = 2
        self.assertIsNone(domain.outside(call, None))

    def test_a_limit_that_cannot_hold_is_refused(self):
        with self.assertRaisesRegex(ValueError, "gqa=False means group=1"):
            attnfuzz.Domain(group=2, gqa=False)
        with self.assertRaisesRegex(ValueError, "1 query head at least"):
            attnfuzz.Domain(group=0)
        with self.assertRaisesRegex(ValueError, "operation merge has no groups"):
            attnfuzz.target(lambda p, o1, o2, lse1, lse2: o1, operation="merge", domain=attnfuzz.Domain(group=2))


class Targets(unittest.TestCase):
    def test_each_file_of_a_library_says_what_it_takes(self):
        # In the place of each library something that answers to every name: what is declared does not ask it.
        class Anything(unittest.mock.MagicMock):
            __path__ = ()

            @staticmethod
            def jit(*function, **_):
                return function[0] if function else lambda f: f

        absent = ("torch", "torch.nn", "torch.nn.functional", "torch.nn.attention", "torch.nn.attention.flex_attention", "triton",
                  "triton.language", "xformers", "xformers.ops", "flashinfer", "jax", "jax.numpy", "jax.experimental",
                  "jax.experimental.pallas", "jax.experimental.pallas.ops", "jax.experimental.pallas.ops.gpu", "mlx",
                  "mlx.core", "onnx", "onnx.helper", "onnxruntime", "openvino", "ml_dtypes", "fla", "fla.ops", "fla.ops.nsa",
                  "fla.ops.nsa.parallel", "vllm", "vllm.v1", "vllm.v1.attention", "vllm.v1.attention.ops",
                  *(f"vllm.v1.attention.ops.triton_{name}" for name in ("decode_attention", "merge_attn_states",
                                                                        "reshape_and_cache_flash", "unified_attention")))
        before = set(sys.modules)
        declared = {}
        with unittest.mock.patch.dict(sys.modules, {name: Anything() for name in absent}):
            for file in sorted(os.listdir(os.path.dirname(attnfuzz.targets.path("numpy_reference")))):
                if file.startswith("_") or not file.endswith(".py"):
                    continue
                found, refusal = worker.load(attnfuzz.targets.path(file[:-3]))
                self.assertIsNone(refusal, file)
                declared[file[:-3]] = {name: target.words() for name, target in found}
        for name in set(sys.modules) - before:
            del sys.modules[name]
        self.assertEqual(set(declared["vllm_attention"]), {"unified", "unified_split", "decode", "mla", "merge", "append",
                                                           "cache"})
        self.assertEqual(set(declared["flashinfer_batch"]), {"paged", "ragged", "decode", "sinks", "merge", "merge_in_place",
                                                             "merge_many", "append"})
        self.assertEqual(set(declared["fla_attention"]), {"selected", "selected_packed", "selected_backward"})
        self.assertTrue(all("group=16,32,64" in words for words in declared["fla_attention"].values()))
        for file, targets in (("triton_selected", {"selected"}), ("flex_selected", {"selected", "selected_eager"}),
                              ("flashinfer_sparse", {"block_sparse"}),
                              ("torch_nsa", {"nsa_score", "nsa_score_cuda"}),
                              ("torch_training", {"forward", "backward", "forward_cuda", "backward_cuda"})):
            self.assertEqual(set(declared[file]), targets)
        self.assertEqual(set(declared["xformers_attention"]), {"cutlass", "flash", "splitk", "splitk_bias", "block_diagonal"})
        self.assertEqual(set(declared["flashinfer_attention"]), {"prefill", "prefill_fa3", "decode"})
        self.assertIn("batch=1", declared["flashinfer_attention"]["decode"])
        self.assertEqual([file for file, targets in declared.items() if not all(targets.values())],
                         ["numpy_cache", "numpy_reference"])


class Caches(unittest.TestCase):
    SETUP = {"dtype": "bf16", "dim_qk": 8, "page_size": 4, "pages": 3, "capacity": 9, "order": 5}

    def test_a_class_must_have_its_methods(self):
        from attnfuzz.targets import numpy_cache
        from attnfuzz.targets.numpy_cache import Own, Pooled

        def without(cls, name):
            return type("Mine", (cls,), {name: None})

        for cls, memory, words in ((without(Own, "free"), "own", "no method free, which a class with memory of its own needs"),
                                   (type("Mine", (), {}), "pools", "none of the methods append, copy_pages, attend, merge"),
                                   (type("Mine", (Own,), {"merge": lambda self: 0}), "own", "its method merge is never called"),
                                   (type("Mine", (Own,), {"fork": lambda self, a: 0}), "own", r"called with \(source, sequence\)"),
                                   (type("Mine", (Own,), {"attend": lambda self, p, q: 0}), "own", "needs the parameter sequences"),
                                   (type("Mine", (Pooled,), {"attend": lambda self, p, q, k, v, plan: 0}), "pools",
                                    "needs the parameters block_table and key_lengths|no method plan"),
                                   (type("Mine", (Own,), {"__init__": lambda self: None}), "own", r"needs __init__\(self, setup\)"),
                                   (Own, "pools", r"a method of the operation append is a function of \(p, k, v, k_new, v_new\)")):
            with self.assertRaisesRegex(TypeError, words):
                attnfuzz.cache(memory=memory)(cls)
        with self.assertRaisesRegex(ValueError, "memory='mine'.*'pools' or 'own'"):
            attnfuzz.cache(memory="mine")(Own)
        with self.assertRaisesRegex(TypeError, "takes no 'operation'"):
            attnfuzz.cache(operation="merge")
        for no_class in ("own", lambda p, q, k, v: None):
            with self.assertRaisesRegex(TypeError, "is none: functions have attnfuzz.target"):
                attnfuzz.cache(no_class)
        with self.assertRaisesRegex(TypeError, "Pooled is a class: attnfuzz.cache"):
            attnfuzz.target(Pooled)
        with self.assertRaisesRegex(TypeError, "is a class.*attnfuzz sequence"):
            attnfuzz.check(attnfuzz.cache(memory="own")(Own))
        with self.assertRaisesRegex(TypeError, "attnfuzz sequence .*numpy_cache.py:Own .with @attnfuzz.cache above it"):
            attnfuzz.judge(Own)
        with self.assertRaisesRegex(TypeError, "own is a class.*numpy_cache.py:own$"):
            attnfuzz.check(numpy_cache.own)

    def test_a_class_has_the_features_of_its_methods(self):
        from attnfuzz.targets import numpy_cache

        bits = {**contract.FEATURE_BITS, **contract.OPERATIONS}
        due = sum(bits[name] for name in ("paged", "packed", "int32", "append", "copy_pages"))
        self.assertEqual(worker.host_of("pooled", numpy_cache.pooled, __file__, "").features, due)
        self.assertEqual(worker.host_of("own", numpy_cache.own, __file__, "").features, due - bits["copy_pages"])
        writes = type("Writes", (), {"__init__": lambda self, setup: None, "append": numpy_cache.Pooled.append})
        self.assertTrue(worker.host_of("w", attnfuzz.cache(writes), __file__, "").features & contract.FEATURE_NO_FORWARD)

    def test_a_class_with_a_feature_that_no_sequence_has_is_refused(self):
        from attnfuzz.targets.numpy_cache import Pooled

        with self.assertRaisesRegex(ValueError, "'has_sink', which no sequence of calls has"):
            attnfuzz.cache(domain=attnfuzz.Domain(features=("packed", "has_sink")))(Pooled)

    def test_a_class_that_gives_no_lse_may_have_all_methods(self):
        from attnfuzz.targets.numpy_cache import Pooled

        declared = attnfuzz.cache(domain=attnfuzz.Domain(lse=False))(Pooled)
        self.assertEqual({name: m.domain.lse for name, m in declared.methods.items()},
                         {"append": True, "copy_pages": True, "forward": False})

    def test_a_setup_has_pages_for_all_sequences_of_a_class_with_its_own(self):
        pools, own = (attnfuzz.Setup.of(self.SETUP, own) for own in (False, True))
        self.assertEqual((pools.dtype, pools.dim_qk, pools.dim_v, pools.pages, pools.pages_per_sequence), ("bf16", 8, 1, 3, 3))
        self.assertEqual(own.pages, 8 * 4)

    def test_each_sequence_has_an_instance_and_a_replay_has_the_first_plan(self):
        made = []

        class Mine:
            def __init__(self, setup):
                if setup.page_size == 1:
                    raise attnfuzz.Unsupported("pages of one key")
                made.append(self)

            def plan(self, method, p):
                return [method, p]

            def attend(self, p, q, k, v, key_lengths, block_table, sequences, plan):
                return sequences, plan

        life = Life(attnfuzz.cache(Mine))
        method = life.of.methods["forward"]
        told = {"begins": True, "setup": {"page_size": 2}, "step": 4, "sequences": [3, 0], "call": "forward", "planned": 4}
        life.tell(told)
        first = life.more(method, "p4")
        self.assertEqual(first, {"sequences": (3, 0), "plan": ["attend", "p4"]})
        life.tell({**told, "begins": False, "step": 6})
        self.assertIs(life.more(method, "p6")["plan"], first["plan"])
        life.tell({**told, "begins": False, "step": 7, "planned": 7})
        self.assertEqual(life.more(method, "p7")["plan"], ["attend", "p7"])
        life.tell(told)
        self.assertIsNot(life.more(method, "p4")["plan"], first["plan"])
        self.assertEqual(len(made), 2)
        for begins in (True, False):
            with self.assertRaisesRegex(attnfuzz.Unsupported, "pages of one key"):
                life.tell({**told, "begins": begins, "setup": {}})

    def test_functions_that_write_caches_are_declared_whole(self):
        append, paged = lambda p, k, v, k_new, v_new, key_lengths: None, attnfuzz.Domain(features=("paged",))
        self.assertEqual(attnfuzz.target(append, operation="append").takes, {"p", "k", "v", "k_new", "v_new", "key_lengths"})
        with self.assertRaisesRegex(TypeError, "needs the parameters block_table and key_lengths"):
            attnfuzz.target(append, operation="append", domain=paged)
        with self.assertRaisesRegex(TypeError, "appends, and needs the parameter key_lengths"):
            attnfuzz.target(lambda p, k, v, k_new, v_new: None, operation="append")
        with self.assertRaisesRegex(ValueError, r"needs Domain\(features=\('paged',\)\)"):
            attnfuzz.target(lambda p, k, v, copies: None, operation="copy_pages")
        with self.assertRaisesRegex(ValueError, "a case holds no cache"):
            next(attnfuzz.cases(operation="append"))


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


class Declarations(unittest.TestCase):
    def test_a_known_failure_is_refused_until_it_is_asked_for(self):
        os.environ.pop("ATTNFUZZ_KNOWN", None)
        with self.assertRaisesRegex(attnfuzz.Unsupported, "known: rows apart"):
            attnfuzz.known("rows apart")
        with unittest.mock.patch.dict(os.environ, ATTNFUZZ_KNOWN="1"):
            attnfuzz.known("rows apart")
            self.assertTrue(attnfuzz.shows_known())

    def test_a_bias_may_be_of_the_inputs_format_alone(self):
        domain = attnfuzz.Domain(bias="own")
        self.assertEqual(domain.words(), "own_bias")
        problem = contract.Problem(dtype=contract.BF16, bias_dtype=contract.BF16, heads_q=1, heads_kv=1)
        self.assertIsNone(domain.outside(problem, contract.Tensors()))
        problem.bias_dtype = contract.F16
        self.assertEqual(domain.outside(problem, contract.Tensors()), "declared with own_bias")
        with self.assertRaisesRegex(ValueError, "bias='f32'"):
            attnfuzz.Domain(bias="f32")

    def test_rows_that_see_nothing_and_padding(self):
        class P:
            batch, heads_q, seq_q, seq_k = 1, 1, 3, 2
            causal, align, window_left, window_right = True, "bottom_right", -1, -1

        nothing = attnfuzz.masks.sees_nothing(P)
        self.assertEqual(nothing.tolist(), [[[True, False, False]]])
        bias = np.array([[[[0, 0], [-np.inf, 0], [0, 0]]]])
        self.assertEqual(attnfuzz.masks.sees_nothing(P, bias).tolist(), [[[True, True, False]]])
        padded = attnfuzz.masks.finite_padding(np.array([[[[np.nan], [np.nan], [np.inf], [1]]]], np.float16), [1])
        self.assertTrue(np.array_equal(padded[0, 0, :, 0], [np.nan, 0, 0, 1], equal_nan=True))


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


class Views(unittest.TestCase):
    def test_strides_are_as_given(self):
        a = np.arange(64, dtype=np.float16)
        t = Tensor(a.ctypes.data, (2, 1, 3, 4), (16, 1 << 60, 0, 2), "f16")
        view = numpy_view(t)
        self.assertEqual(view.strides[2], 0)
        self.assertEqual(view[1, 0, 2].tolist(), [16, 18, 20, 22])
        view[1, 0, 0, 0] = 5
        self.assertEqual(a[16], 5)

    def test_without_negative_strides_it_is_the_other_way_round(self):
        a = np.arange(24, dtype=np.float32)
        t = Tensor(a[11:].ctypes.data, (2, 3, 2), (12, -4, -1), "f32")
        self.assertEqual((t.forwards().strides, t.backwards()), ((12, 4, 1), [1, 2]))
        self.assertEqual(np.flip(numpy_view(t.forwards()), t.backwards()).tolist(), numpy_view(t).tolist())
        self.assertEqual(numpy_view(t)[1, 2, 1], a[11 + 12 - 8 - 1])
        self.assertEqual(t.forwards().backwards(), [])

    def test_rounding_to_bf16_is_to_nearest_even(self):
        values = np.array([1.0, 1.00390625, 1.01171875, np.inf, -0.0, 3.4e38], np.float32)
        self.assertEqual([hex(b) for b in to_bits_of_bf16(values)],
                         ["0x3f80", "0x3f80", "0x3f82", "0x7f80", "0x8000", "0x7f80"])
        self.assertTrue(to_bits_of_bf16(np.array([np.nan], np.float32))[0] & 0x7FFF > 0x7F80)


class Declarations(unittest.TestCase):
    def test_what_makes_no_sense_is_refused(self):
        with self.assertRaisesRegex(ValueError, "accumulator='fp8'"):
            attnfuzz.Errors(accumulator="fp8")
        with self.assertRaisesRegex(ValueError, "merging='bf16'"):
            attnfuzz.Errors(merging="bf16")
        with self.assertRaisesRegex(ValueError, "products='bf16'"):
            attnfuzz.Errors(products="bf16")
        with self.assertRaisesRegex(ValueError, "merge='max'"):
            attnfuzz.Errors(merge="max")
        with self.assertRaisesRegex(ValueError, "'f16', 'bf16' and 'f32'"):
            attnfuzz.Domain(dtypes=("f64",))
        with self.assertRaisesRegex(ValueError, "align='left'"):
            attnfuzz.Domain(align="left")
        for said, allowed in (({"layout": "x"}, "'dense', 'inner' or None"), ({"align_bytes": 24}, "a power of two up to 256"),
                              ({"lse_base": 10}, "'e' or 2"), ({"lse_dead": "nan"}, "'-inf', '\\+inf', '0' or 'any'")):
            with self.assertRaisesRegex(ValueError, allowed):
                attnfuzz.Domain(**said)
        with self.assertRaisesRegex(ValueError, "operation='decode'.*one of 'forward', 'merge', 'backward'"):
            attnfuzz.target(lambda p, q, k, v: q, operation="decode")
        with self.assertRaisesRegex(TypeError, r"operation backward is a function of \(p, q, k, v, dout, o, lse\), and of any of "
                                               "bias, mask, key_lengths, sink, cu_seqlens_q, cu_seqlens_k, dlse, dq, dk, dv, dbias, dsink, "
                                               "stream; <lambda> is one of"):
            attnfuzz.target(lambda p, q, k, v: q, operation="backward")
        with self.assertRaisesRegex(TypeError, r"operation selected is a function of \(p, q, k, v, indices\), and of any of "
                                               "key_lengths, cu_seqlens_q, cu_seqlens_k, out, lse, stream; <lambda> is one of"):
            attnfuzz.target(lambda p, q, k, v: q, operation="selected")
        with self.assertRaisesRegex(TypeError, r"operation selected_backward is a function of \(p, q, k, v, indices, dout, o, lse\), and of "
                                               "any of key_lengths, cu_seqlens_q, cu_seqlens_k, dlse, dq, dk, dv, stream; <lambda> is "
                                               "one of"):
            attnfuzz.target(lambda p, q, k, v: q, operation="selected_backward")
        with self.assertRaisesRegex(TypeError, r"operation nsa_score is a function of \(p, q, k, lse\), and of any of key_lengths, "
                                               "cu_seqlens_q, cu_seqlens_k, indices, scores, stream; <lambda> is one of"):
            attnfuzz.target(lambda p, q, k, v: q, operation="nsa_score")
        for word in "paged", "has_sink", "dbias", "dsink":
            with self.assertRaisesRegex(ValueError, f"operation='selected_backward': it has no '{word}' in Python; .*'dlse', 'packed', 'int32'$"):
                attnfuzz.cases(attnfuzz.Domain(features=(word,)), operation="selected_backward")
        for word in "has_alibi", "latent":
            with self.assertRaisesRegex(ValueError, f"operation='backward': it has no '{word}' in Python; .*'packed'"):
                next(attnfuzz.cases(attnfuzz.Domain(features=(word,)), operation="backward"))
            with self.assertRaisesRegex(ValueError, f"operation='backward': it has no '{word}' in Python; .*'packed'"):
                attnfuzz.target(lambda p, q, k, v, dout, o, lse: q, operation="backward", domain=attnfuzz.Domain(features=(word,)))
        for words, arguments in (("packed", "cu_seqlens_q and cu_seqlens_k"), ("has_sink", "sink"), ("has_alibi", "slopes")):
            with self.assertRaisesRegex(TypeError, f"has '{words}': the function needs the parameters {arguments}"):
                attnfuzz.target(lambda p, q, k, v: q, domain=attnfuzz.Domain(features=(words,)))
        for words, arguments in ((("dlse",), "dlse"), (("dbias",), "bias"), (("has_sink", "dsink"), "sink")):
            with self.assertRaisesRegex(TypeError, f"the function needs the parameters {arguments}$"):
                attnfuzz.target(lambda p, q, k, v, dout, o, lse: q, operation="backward", domain=attnfuzz.Domain(features=words))
            with self.assertRaisesRegex(ValueError, f"operation='forward': it has no '{words[-1]}'"):
                attnfuzz.target(lambda p, q, k, v, sink: q, domain=attnfuzz.Domain(features=words))
        for word in "has_sink", "dsink":
            with self.assertRaisesRegex(ValueError, "must have 'has_sink' and 'dsink' together"):
                attnfuzz.cases(attnfuzz.Domain(features=(word,)), operation="backward")
        with self.assertRaisesRegex(ValueError, "Domain.bias=False. with 'dbias'"):
            attnfuzz.target(lambda p, q, k, v, dout, o, lse, bias: q, operation="backward",
                            domain=attnfuzz.Domain(features="dbias", bias=False))
        with self.assertRaisesRegex(ValueError, "operation backward writes no LSE"):
            attnfuzz.target(lambda p, q, k, v, dout, o, lse: q, operation="backward", domain=attnfuzz.Domain(lse=False))
        integers = (*contract.TENSOR_SPECS["dk"][:1], "i64", *contract.TENSOR_SPECS["dk"][2:])
        with unittest.mock.patch.dict(contract.TENSOR_SPECS, dk=integers):
            with self.assertRaisesRegex(ValueError, "its output dk is i64"):
                attnfuzz.target(lambda p, q, k, v, dout, o, lse: q, operation="backward")
        with self.assertRaisesRegex(ValueError, "saved='own'.*'given', 'recomputed'"):
            attnfuzz.Errors(saved="own")
        with self.assertRaisesRegex(TypeError, r"function of \(p, q, k, v\)"):
            attnfuzz.target(lambda q, k, v: q)
        with self.assertRaisesRegex(ValueError, "a GPU"):
            attnfuzz.target(lambda p, q, k, v: q, device="cuda", arrays="numpy")

    def test_domains_in_words(self):
        domain = attnfuzz.Domain(dim={128, 64}, seq_k=range(1, 513), heads_q=4, bias=False, causal="only")
        self.assertEqual(domain.words(), "heads_q=4 seq_k>=1 seq_k<=512 dim_qk=64,128 dim_v=64,128 only_causal no_bias")
        self.assertEqual(attnfuzz.Domain(dtypes=("f32", "f16"), bias=False).words(), "f16 f32 no_bias")
        laid = attnfuzz.Domain(layout="inner", align_bytes=16, lse_base=2, lse_dead="+inf")
        self.assertEqual(laid.words(), "layout=inner align_bytes=16 lse_base=2 lse_dead=+inf")
        self.assertEqual((laid.struct().layout, laid.struct().align_bytes), (2, 16))

    def test_an_interpreter_without_the_arrays_package_is_refused(self):
        target = attnfuzz.target(lambda p, q, k, v: q, arrays="jax")
        with unittest.mock.patch.dict(sys.modules), unittest.mock.patch("importlib.util.find_spec", lambda name: None):
            sys.modules.pop("jax", None)
            self.assertRegex(worker.lacks(target), "arrays of jax, which .* has not: .* -m pip install jax")

    def test_bf16_is_left_out_where_numpy_has_none(self):
        with unittest.mock.patch("attnfuzz.worker.numpy_bfloat16", lambda: None):
            of = {bits: attnfuzz.target(lambda p, q, k, v: q, bf16=bits) for bits in ("ml_dtypes", "bits")}
            hosted = {bits: worker.host_of("f", target, __file__, "") for bits, target in of.items()}
            self.assertEqual(of["ml_dtypes"].domain.dtypes, ("f16",))
            self.assertIn(b"bf16 is left out", hosted["ml_dtypes"].note)
            self.assertEqual(of["bits"].domain.dtypes, ("f16", "bf16"))
            self.assertIsNone(hosted["bits"].note)
            alone = attnfuzz.target(lambda p, q, k, v: q, domain=attnfuzz.Domain(dtypes=("bf16",)))
            self.assertIn("declare bf16='bits'", worker.lacks(alone))

    def test_a_kind_of_problem_that_nobody_knows_is_refused(self):
        target = attnfuzz.target(lambda p, q, k, v: None, domain=attnfuzz.Domain(lse=False))
        hosted = kernel.Kernel("f", target, __file__)
        problem = contract.Problem(features=1 << 62, bias_dtype=contract.NONE)
        text = ctypes.create_string_buffer(512)
        pointers = map(ctypes.pointer, (problem, contract.Tensors(), contract.Environment(), contract.Plan()))
        status = hosted.plan(*pointers, ctypes.addressof(text), 512)
        self.assertEqual(status, contract.UNSUPPORTED)
        self.assertIn("attn_problem.features has the bits 0x4000000000000000", text.value.decode())

    def test_each_bit_is_known_or_refused_by_name(self):
        known = {contract.FEATURE_F32, contract.FEATURE_WIDE, *contract.FEATURE_BITS.values()}
        operations = {bit: name for name, bit in contract.OPERATIONS.items() if bit}
        missing = {"merge": "o1", "backward": "dout", "selected": "indices", "selected_backward": "dout", "append": "k_new",
                   "copy_pages": "copies", "nsa_score": "lse"}
        self.assertEqual(set(operations.values()), set(missing), "each operation has an input that a forward pass has not")
        hosted = kernel.Kernel("f", attnfuzz.target(lambda p, q, k, v: None, domain=attnfuzz.Domain(lse=False)), __file__)
        for bit in (1 << n for n in range(64)):
            problem = contract.Problem(features=bit, bias_dtype=contract.NONE, dtype=contract.F32 if bit == contract.FEATURE_F32 else 0)
            text = ctypes.create_string_buffer(512)
            pointers = map(ctypes.pointer, (problem, contract.Tensors(), contract.Environment(), contract.Plan()))
            status = hosted.plan(*pointers, ctypes.addressof(text), 512)
            due = ("" if bit in known else f"no parameter '{missing[operations[bit]]}'" if bit in operations
                   else f"attn_problem.features has the bits {bit:#x}")
            self.assertEqual(status, contract.UNSUPPORTED if due else contract.OK, hex(bit))
            self.assertIn(due, text.value.decode())

    def test_outputs_are_taken_by_name_or_in_order(self):
        backward, forward = ["dq", "dk", "dv", "dbias", "dsink"], ["out", "lse"]
        of = collections.namedtuple("Of", "dk dv dq")(dk=2, dv=3, dq=1)
        for given in ((1, 2, 3), {"dk": 2, "dq": 1, "dv": 3}, of):
            self.assertEqual(dict(sorted(kernel.by_name(given, backward[:3], backward).items())), {"dk": 2, "dq": 1, "dv": 3})
        more = {"dq": 1, "dk": 2, "dv": 3, "dsink": 5}
        asked = collections.namedtuple("Asked", [*more, "dbias"])(**more, dbias=None)
        for given in ((1, 2, 3, 5), more, asked):
            found = kernel.by_name(given, [*backward[:3], "dsink"], backward)
            self.assertEqual({name: value for name, value in found.items() if value is not None}, more)
        self.assertEqual([kernel.by_name(given, forward, forward) for given in (1, (1,), (1, 2), {"lse": 2, "out": 1})],
                         [{"out": 1}, {"out": 1}, {"out": 1, "lse": 2}, {"lse": 2, "out": 1}])
        lists = ["indices", "scores"]
        self.assertEqual([kernel.by_name(given, lists, lists) for given in (1, (1, 2), {"indices": 1})],
                         [{"indices": 1}, {"indices": 1, "scores": 2}, {"indices": 1}])
        for given, words in (((1, 2), "returned 2 arrays, and 3 are due: dq, dk, dv"), ([1, 2, 3], "returned a list"),
                             ({"out": 1}, "'out'.*one of dq, dk, dv"),
                             (1, "returned 1 arrays"), ((1, 2, 3, 4), "returned 4 arrays, and 3 are due"),
                             ({"dbias": 4}, "returned dbias, for which this call does not ask; it asks for dq, dk, dv$")):
            with self.assertRaisesRegex(TypeError, words):
                kernel.by_name(given, backward[:3], backward)
        with self.assertRaisesRegex(TypeError, "returned 3 arrays, and 4 are due: dq, dk, dv, dbias"):
            kernel.by_name(of, backward[:4], backward)
        with self.assertRaisesRegex(TypeError, "returned 3 arrays"):
            kernel.by_name((1, 2, 3), forward, forward)

    def test_o_is_the_name_of_out_too(self):
        forward = ["out", "lse"]
        self.assertEqual(kernel.by_name({"o": 1, "lse": 2}, forward, forward), {"out": 1, "lse": 2})
        for both in {"o": 1, "out": 2}, {"O": 1}:
            with self.assertRaisesRegex(TypeError, "the target returned '(o|O)'; an output is one of out, lse"):
                kernel.by_name(both, forward, forward)

    def test_any_callable_may_be_a_target(self):
        def spread(p, *arrays):
            return len(arrays)

        def named(p, **tensors):
            return sorted(tensors)

        def both(p, q, *arrays, bias=None, **tensors):
            return q, arrays, bias, tensors

        class Object:
            """an object"""

            def __call__(self, p, q, k, v):
                return p, q, k, v

        arrays = {"q": 1, "k": 2, "v": 3}
        self.assertEqual(attnfuzz.target(spread)(0, **arrays), 3)
        self.assertEqual(attnfuzz.target(spread).takes, {"p", "q", "k", "v"})
        self.assertEqual(attnfuzz.target(named)(0, mask=4, **arrays), ["k", "mask", "q", "v"])
        self.assertLessEqual({"bias", "mask", "key_lengths", "cu_seqlens_q"}, attnfuzz.target(named).takes)
        self.assertFalse({"out", "lse", "stream"} & attnfuzz.target(named).takes)
        self.assertEqual(attnfuzz.target(both)(0, bias=5, **arrays), (1, (), 5, {"k": 2, "v": 3}))
        made = attnfuzz.target(Object())
        self.assertEqual((made.__name__, made.description, made(0, **arrays)), ("Object", "an object", (0, 1, 2, 3)))
        self.assertEqual(made.file, __file__)
        part = attnfuzz.target(functools.partial(both, bias=7))
        self.assertEqual((part.__name__, part.file, part(0, **arrays)[2]), ("both", __file__, 7))
        with self.assertRaisesRegex(TypeError, "is one of .p, query, key."):
            attnfuzz.target(lambda p, query, key: 0)
        with self.assertRaisesRegex(ValueError, "has no name in .*, so no worker can import it"):
            attnfuzz.judge(Object())

    def test_wide_heads_are_for_those_that_say_so(self):
        for said, bits in (({}, 0), ({"dim": attnfuzz.at_most(256)}, 0), ({"dim_qk": 576}, contract.FEATURE_WIDE),
                           ({"dim": {64, 512}}, contract.FEATURE_WIDE), ({"dim": attnfuzz.multiple(8, most=320)}, contract.FEATURE_WIDE),
                           ({"features": ("has_sink", "sink_dtype")}, contract.FEATURE_BITS["has_sink"])):
            self.assertEqual(attnfuzz.Domain(**said).feature_bits(), bits, said)

    def test_an_alignment_holds_for_positions_of_blocks(self):
        step = contract.FEATURE_BITS["key_step"]
        for key_step, key_offset, seq_q, inside in ((0, 0, 6, True), (1, 0, 6, True), (2, 1, 6, False), (1, 3, 6, False),
                                                    (2, 1, 13, True), (1, 0, 7, False)):
            p = contract.Problem(features=step if key_step else 0, bias_dtype=contract.NONE, causal=1, align=contract.BOTTOM_RIGHT,
                                 window_left=-1, window_right=-1, batch=1, heads_q=1, heads_kv=1, seq_q=seq_q, seq_k=6, dim_qk=8,
                                 dim_v=8, key_step=key_step, key_offset=key_offset)
            said = {align: attnfuzz.Domain(align=align).outside(p, contract.Tensors()) for align in ("top_left", "bottom_right")}
            self.assertEqual(said, {"top_left": None if inside else "declared with top_left", "bottom_right": None}, (key_step, seq_q))

    def test_structs_are_as_long_as_in_c(self):
        for name, size in contract.STRUCT_BYTES.items():
            self.assertEqual(ctypes.sizeof(getattr(contract, name)), size, name)

    def test_a_call_has_each_field_of_the_problem(self):
        problem = contract.Problem(dtype=contract.BF16, bias_dtype=contract.NONE, align=contract.BOTTOM_RIGHT, causal=1,
                                   seq_k=7, num_splits=3)
        call = kernel.Call(problem, True, 132)
        self.assertEqual({name for name in contract.PROBLEM_FIELDS if not hasattr(call, name)}, set())
        left_out = {name for name, _ in contract.Problem._fields_} - set(contract.PROBLEM_FIELDS)
        self.assertEqual({name for name in left_out if not name.startswith("reserved")}, {"size"})
        self.assertEqual((call.dtype, call.bias_dtype, call.align, call.causal, call.seq_k, call.num_splits),
                         ("bf16", None, "bottom_right", True, 7, 3))

    def test_how_tensors_lie_is_looked_at(self):
        def laid(stride, data=4096):
            return contract.TensorView(data, (contract.c_int64 * 4)(*stride))

        p = contract.Problem(dtype=contract.F16, batch=2, heads_q=2, heads_kv=2, seq_q=3, seq_k=3, dim_qk=12, dim_v=12,
                             bias_dtype=contract.NONE)
        dense, padded, once = (72, 36, 12, 1), (96, 48, 16, 1), (0, 48, 16, 1)
        for layout, align, stride, inside in (("dense", None, dense, True), ("dense", 16, dense, True), ("dense", None, padded, False),
                                              ("inner", None, padded, True), ("inner", 16, padded, True), ("inner", 16, dense, False),
                                              ("inner", 16, once, True), ("dense", None, once, False), (None, 8, dense, True),
                                              ("inner", None, (96, 48, 32, 2), False), (None, 16, (192, 96, 32, 2), True)):
            tensors = contract.Tensors(q=laid(stride), k=laid(stride), v=laid(stride))
            self.assertEqual(attnfuzz.Domain(layout=layout, align_bytes=align).outside(p, tensors) is None, inside, (layout, align, stride))
        tensors = contract.Tensors(q=laid(dense), k=laid(dense, 4098), v=laid(dense))
        self.assertEqual(attnfuzz.Domain(layout="dense", align_bytes=4).outside(p, tensors), "declared with align_bytes=4")


if __name__ == "__main__":
    unittest.main()
