"""The oracle with packed entries, pages, sinks and slopes."""

import unittest
import unittest.mock

import numpy as np

import attnfuzz
from attnfuzz import contract, kernel, oracle_call
from attnfuzz.tensor import Tensor
from attnfuzz.targets.numpy_reference import ERRORS, nsa_score
from plain_attention import inputs, plain


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

    def test_packed_entries_that_need_too_much_memory_are_refused(self):
        q, k, v = (a[0].swapaxes(0, 1) for a in inputs(1, 2, 2, 12, 30))
        how = {"cu_seqlens_q": [0, 4, 12], "cu_seqlens_k": [0, 10, 30], "errors": ERRORS}
        # 2 entries of 2 heads and 10 million queries, with 16 columns of O and one of the LSE, of 45 bytes each
        with self.assertRaisesRegex(MemoryError, r"cu_seqlens_q: 2 packed entries, .* max_seqlen_q = 10000000 rows, take 30.6 GB, and "
                                                 r"[0-9.]+ GB are free: judge fewer entries in a call"):
            with unittest.mock.patch("attnfuzz.oracle_call._free_bytes", lambda: 30e9):
                attnfuzz.oracle(q, k, v, lse=True, max_seqlen_q=10_000_000, **how)
        needed = 45 * 2 * 2 * 8 * 17
        with unittest.mock.patch("attnfuzz.oracle_call._free_bytes", lambda: needed):
            attnfuzz.oracle(q, k, v, **how)
        with unittest.mock.patch("attnfuzz.oracle_call._free_bytes", lambda: needed - 1), self.assertRaises(MemoryError):
            attnfuzz.oracle(q, k, v, **how)
        self.assertGreater(oracle_call._free_bytes(), 1e6)

    def test_a_number_of_keys_of_blocks_does_not_wrap(self):
        p = kernel.Call(contract.Problem(features=contract.FEATURE_BITS["key_step"], batch=4, seq_q=1, seq_k=10, key_step=2,
                                         key_offset=0), True, 1)
        for dtype in np.int32, np.int64:
            lengths = np.array([2**31 - 1, -(2**31), 3, 0], dtype)
            np.testing.assert_array_equal(attnfuzz.key_counts(p, lengths), [10, 0, 2, 0])

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
