"""cases_test.py ATTNFUZZ: attnfuzz.cases(), the generator by itself. With PYTHONPATH."""

import collections
import itertools
import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import warnings

import numpy as np

import attnfuzz
import attnfuzz.targets
from attnfuzz.cases import Stream
from attnfuzz.targets.numpy_reference import attention, backward, backward_recomputed, listed, selected, selected_backward

COMMAND = sys.argv.pop(1)


def drawn(domain=None, count=60, **more):
    return list(attnfuzz.cases(domain, count=count, work=300_000, bf16="bits", **more))


def same(a, b):
    return a.json == b.json and all(np.array_equal(x.view(np.uint8) if x.size else x, y.view(np.uint8) if y.size else y)
                                    for x, y in ((np.ascontiguousarray(a.q), np.ascontiguousarray(b.q)),
                                                 (np.ascontiguousarray(a.v), np.ascontiguousarray(b.v))))


class Cases(unittest.TestCase):
    def test_what_is_right_holds_and_what_is_wrong_does_not(self):
        told = []
        for case in drawn(count=200):
            out, lse = case.call(attention)
            self.assertLessEqual(case.assert_within(out, lse), 1)
            try:  # a huge LSE has a bound above 1, and one of NaN is NaN
                case.assert_within(out, lse + np.float32(1))
            except AssertionError as e:
                told.append(str(e))
        self.assertGreater(len(told), 100)
        self.assertRegex(told[0], r"(?s)^lse\(b=.*error/bound.*case: B=\d")

    def test_a_result_that_is_missing_does_not_pass(self):
        with_lse = next(case for case in drawn(count=60) if case.p.want_lse)
        without = next(case for case in drawn(attnfuzz.Domain(lse=False), count=60))
        for case in with_lse, without:
            with self.assertRaisesRegex(ValueError, "out is None"):
                case.assert_within(case.call(lambda p, q, k, v, **more: None))
        out, lse = with_lse.call(attention)
        with self.assertRaisesRegex(ValueError, "asks for an LSE .*lse=False"):
            with_lse.assert_within(out)
        self.assertLessEqual(with_lse.assert_within(out, lse=False), 1)
        self.assertLessEqual(without.assert_within(without.call(attention)[0]), 1)
        backward_case = drawn(count=1, operation="backward")[0]
        with self.assertRaisesRegex(ValueError, "out is None: the function has to return dq, dk, dv"):
            backward_case.assert_within(backward_case.call(lambda p, **more: None))
        q = np.ones((1, 1, 2, 4), np.float16)
        with self.assertRaisesRegex(ValueError, "out is None"):
            attnfuzz.assert_within(None, None, q, q, q)
        with self.assertRaisesRegex(ValueError, "got is None"):
            attnfuzz.assert_gradients_within(None, q, q, q, q)

    def test_bounds_that_any_result_meets_are_told(self):
        rng = np.random.default_rng(1)
        q, k, v = (rng.standard_normal((1, 1, n, 8)).astype(np.float16) for n in (4, 9, 9))
        with self.assertWarnsRegex(attnfuzz.NotJudged, "nearly any result would pass") as told:
            attnfuzz.assert_within(np.zeros((1, 1, 4, 8)), None, q, k, v, scale=1e8)
        self.assertEqual(told.filename, __file__)
        o, lse = (a.astype(np.float32) for a in attnfuzz.oracle(q, k, v, lse=True)[::2])
        with warnings.catch_warnings():
            warnings.simplefilter("error", attnfuzz.NotJudged)
            attnfuzz.assert_within(o, lse, q, k, v)
        q[...] = np.inf
        with self.assertWarnsRegex(attnfuzz.NotJudged, "nearly any result would pass"):
            attnfuzz.assert_within(o, None, q, k, v)
        with self.assertWarnsRegex(attnfuzz.NotJudged, "nearly any result would pass"):
            attnfuzz.assert_gradients_within((np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)), q, k, v, o.astype(np.float16))

    def test_a_case_is_its_seeds_and_its_numbers_alone(self):
        cases = drawn(seed=7, count=12)
        self.assertTrue(same(cases[9], drawn(seed=7, first=9, count=1)[0]))
        self.assertFalse(same(cases[9], drawn(seed=8, first=9, count=1)[0]))
        self.assertEqual(len(list(itertools.islice(attnfuzz.cases("f16"), 3))), 3)  # without an end

    def test_arrays_are_the_callers_own(self):
        first, second = itertools.islice(attnfuzz.cases("f16", seed=3), 2)
        was = first.k.copy()
        first.q[...] = second.q.flat[0] if second.q.size else 1
        for _ in drawn("f16", count=5):
            pass
        self.assertTrue(np.array_equal(first.k, was, equal_nan=True))

    def test_all_stay_inside_the_domain(self):
        for case in drawn("dim=64,128 seq_k=100..300 f32 no_bias no_mask no_window only_causal no_gqa no_key_lengths finite layout=dense no_lse"):
            p = case.p
            self.assertTrue({p.dim_qk, p.dim_v} <= {64, 128} and 100 <= p.seq_k <= 300 and p.dtype == "f32", case)
            self.assertTrue(p.causal and p.window_left < 0 and p.window_right < 0 and p.heads_q == p.heads_kv, case)
            self.assertTrue(case.bias is None and case.mask is None and not p.want_lse, case)
            self.assertTrue(all(np.isfinite(a).all() for a in (case.q, case.k, case.v)), case)
            self.assertTrue(not case.q.size or case.q.flags.c_contiguous, case)
        self.assertEqual([c.words for c in drawn("dim=64 no_bias", count=5)],
                         [c.words for c in drawn(attnfuzz.Domain(dim=64, bias=False), count=5)])

    def test_an_alignment_holds_for_keys_of_blocks(self):
        from attnfuzz.operations import most_positions

        for align, operation in itertools.product(("top_left", "bottom_right"), ("forward", "backward")):
            domain, equal = attnfuzz.Domain(align=align, causal="only", key_lengths=False, equal_lengths=True, features="key_step"), 0
            for case in drawn(domain, count=80, operation=operation):
                p = case.p
                equal += p.key_step > 0 and p.seq_q == p.seq_k > 0
                self.assertTrue(p.align == align or p.seq_q == most_positions(p), case)
            self.assertGreater(equal, 3)

    def test_strides_are_those_of_the_case(self):
        cases = drawn(count=400)
        self.assertTrue(any(0 in case.k.strides and case.k.size for case in cases))
        self.assertTrue(any(min(case.q.strides) < 0 for case in cases))
        self.assertTrue(any(case.p.has_key_lengths for case in cases))
        bits = [case for case in cases if case.p.dtype == "bf16"]
        self.assertTrue(bits and all(case.q.itemsize == 2 for case in bits))

    def test_a_case_can_be_narrowed(self):
        stream = Stream("seq_k>=100 f16")
        small = stream.draw(1, 4, "seq_k<=120 dim<=3 no_bias no_mask")
        self.assertTrue(100 <= small.p.seq_k <= 120 and small.p.dim_qk <= 3 and small.bias is None, small)
        with self.assertRaisesRegex(ValueError, "seq_k"):
            stream.draw(1, 4, "seq_k<=50")

    def test_bad_use_is_told(self):
        for arguments, words in (({"domain": "dims=64"}, "domain 'dims=64': there are .* did you mean"),
                                 ({"domain": "seq_k>=10 seq_k<=5"}, "no size is left"),
                                 ({"tiles": (0, 64)}, "tiles and work")):
            with self.assertRaisesRegex(ValueError, words):
                attnfuzz.cases(bf16="bits", **arguments)
        with self.assertRaisesRegex(ValueError, "bf16='uint16'"):
            attnfuzz.cases(bf16="uint16")

    def test_bf16_is_left_out_where_numpy_has_none(self):
        with unittest.mock.patch("attnfuzz.cases.numpy_bfloat16", lambda: None):
            with self.assertWarnsRegex(UserWarning, "bf16 is left out"):
                cases = list(attnfuzz.cases(count=20))
            self.assertEqual({case.p.dtype for case in cases}, {"f16"})
            with self.assertRaisesRegex(ValueError, "of bf16 alone"):
                attnfuzz.cases("no_f16")
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                self.assertEqual({c.p.dtype for c in attnfuzz.cases("f32", count=5)}, {"f32"})

    def test_a_saved_case_is_replayed(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "case.json")
            drawn("seq_k>=3 f16", first=11, count=1)[0].save(path)
            kernel = attnfuzz.targets.path("numpy_reference") + ":attention"
            ran = subprocess.run([COMMAND, "replay", path, "--kernel", kernel], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 text=True, env=dict(os.environ, ATTNFUZZ_PYTHON=sys.executable))
            self.assertEqual(ran.returncode, 0, ran.stdout)
            self.assertIn("passed (reference)", ran.stdout)

    def test_a_backward_pass_has_its_own_arrays_and_bound(self):
        told = 0
        for case in drawn(count=60, operation="backward"):
            self.assertEqual((case.dout.shape, case.o.shape, case.lse.shape), (case.o.shape, case.o.shape, case.o.shape[:3]))
            self.assertLessEqual(case.assert_within(case.call(backward), errors=backward.errors), 1)
            own = case.call(backward_recomputed)
            self.assertLessEqual(case.assert_within(own, errors=backward_recomputed.errors), 1)
            try:
                same = own["dk"].shape == own["dq"].shape
                case.assert_within({"dq": own["dk"] if same else None, "dk": None, "dv": own["dv"] if same else own["dv"] + 1})
            except AssertionError as e:
                told += str(e).startswith(("dq(", "dv(")) and "\n  case: " in str(e)
        self.assertGreater(told, 30)
        base_2 = drawn("lse_base=2 f16", count=20, operation="backward")
        self.assertTrue(all(np.isneginf(case.lse[~np.isfinite(case.lse)]).all() or np.isnan(case.lse).any() for case in base_2))
        for unknown in "decode", "nsa_select", "nsa_score":
            with self.assertRaisesRegex(ValueError, f"operation='{unknown}': one of 'forward', 'merge', 'backward', 'selected', 'selected_backward'$"):
                attnfuzz.cases(operation=unknown)
        for domain in "seq_k=64", "seq_q=8 dim_qk=16", attnfuzz.Domain(seq_k=64):
            with self.assertRaisesRegex(ValueError, "domain: merge has no (seq_k|dim_qk); leave "):
                attnfuzz.cases(domain, operation="merge")
        with self.assertRaisesRegex(ValueError, "cases are drawn by heads_q and group"):
            attnfuzz.cases(attnfuzz.Domain(heads_kv=2))
        for of_another in "select_first", "kv_dtype":
            with self.assertRaisesRegex(ValueError, of_another):
                attnfuzz.Domain(features=(of_another,))

    def test_the_bits_of_the_reference_do_not_depend_on_strides(self):
        for case in drawn(attnfuzz.Domain(features=("dbias", "has_sink", "dsink")), count=150, operation="backward"):
            rows, columns = ({name: order(array) for name, array in case._given.items()}
                             for order in (np.ascontiguousarray, np.asfortranarray))
            for target in (backward,) if case.p.has_sink or case.p.dbias_shape else (backward, backward_recomputed):
                for name, array in target.function(case.p, **rows).items():
                    self.assertEqual(target.function(case.p, **columns)[name].tobytes(), array.tobytes(), (name, case))

    def test_a_backward_pass_of_packed_entries_is_judged(self):
        told, kinds = 0, set()
        for case in drawn(attnfuzz.Domain(features=("packed", "int32")), count=100, operation="backward"):
            p, got = case.p, case.call(backward)
            kinds.add(p.ragged)
            self.assertEqual(got["dq"].shape, case.q.shape)
            self.assertEqual((case.dout.shape[:-1], case.o.shape[:-1]), (case.q.shape[:-1], case.q.shape[:-1]))
            self.assertEqual(case.lse.shape, (p.heads_q, p.total_q) if p.ragged & 1 else case.q.shape[:3])
            self.assertLessEqual(case.assert_within(got, errors=backward.errors), 1)
            try:
                case.assert_within({**got, "dk": got["dk"] + 1}, errors=backward.errors)
            except AssertionError as e:
                told += p.ragged & 2 and str(e).startswith("dk(k=")
        self.assertEqual(kinds, {0, 1, 2, 3})
        self.assertGreater(told, 10)

    def test_a_backward_pass_has_more_inputs_and_gradients_if_the_domain_names_them(self):
        features = ("dlse", "dbias", "has_sink", "dsink", "packed")
        found, told = collections.Counter(), collections.Counter()
        for case in drawn(attnfuzz.Domain(features=features), count=250, operation="backward"):
            got = {name: value for name, value in case.call(backward).items() if value is not None}
            found.update([*got, *["dlse"] * (case.dlse is not None), *["sum"] * (0 in case.bias.strides if "dbias" in got else 0)])
            if "dbias" in got:
                self.assertEqual(got["dbias"].shape, case.p.dbias_shape)
            self.assertLessEqual(case.assert_within(got, errors=backward.errors), 1)
            self.assertLessEqual(case.assert_within(tuple(got.values()), errors=backward.errors), 1)
            last = list(got)[-1]
            for fewer in {name: got[name] for name in got if name != last}, tuple(got.values())[:-1]:
                with self.assertRaisesRegex(ValueError, f"give {last} too, or None"):
                    case.assert_within(fewer)
            self.assertEqual(set(case.oracle(errors=backward.errors)), set(got))
            wrong = {name: {**got, name: got[name] + np.float32(0.5)} for name in ("dbias", "dsink") if name in got}
            if case.dlse is not None:
                wrong["dlse"] = case.call(lambda p, dlse, **more: backward.function(p, **more))
            for name, instead in wrong.items():
                try:
                    case.assert_within(instead, errors=backward.errors)
                except AssertionError as e:
                    told[name] += name == "dlse" or str(e).startswith(f"{name}(")
        self.assertTrue(min(found[name] for name in ("dlse", "dbias", "dsink", "sum")) > 5, found)
        self.assertTrue(min(told[name] for name in ("dlse", "dbias", "dsink")) > 5, told)
        plain = drawn(count=40, operation="backward")
        self.assertTrue(all(c.dlse is None and c.sink is None and c.p.dbias_shape is None for c in plain))

    def test_listed_blocks_are_judged_as_a_mask(self):
        def none_is_block_0(p, q, k, v, indices, key_lengths=None):
            return selected.function(p, q, k, v, np.where(np.asarray(indices) < 0, 0, indices), key_lengths)

        told = 0
        for case in drawn(count=60, operation="selected"):
            p, seen = case.p, np.repeat(listed(case.p, case.indices), case.p.heads_q // case.p.heads_kv, axis=1)
            how = dict(causal=p.causal, align=p.align, scale=p.scale, softcap=p.softcap, mask=seen, key_lengths=case.key_lengths,
                       errors=selected.errors)
            self.assertLessEqual(attnfuzz.assert_within(*case.call(selected), case.q, case.k, case.v, **how), 1)
            try:
                attnfuzz.assert_within(*case.call(none_is_block_0), case.q, case.k, case.v, **how)
            except AssertionError:
                told += 1
        self.assertGreater(told, 5)

    def test_lists_of_packed_entries_are_judged_as_a_mask(self):
        def from_the_first_key(p, q, k, v, indices, key_lengths=None, cu_seqlens_q=None, cu_seqlens_k=None):
            for b in range(p.batch if p.ragged == 3 else 0):
                indices[cu_seqlens_q[b]:cu_seqlens_q[b + 1]] -= cu_seqlens_k[b] // p.block
            return selected.function(p, q, k, v, indices, key_lengths, cu_seqlens_q, cu_seqlens_k)

        def mask_of(case):
            p = case.p
            seen = np.zeros((p.batch, p.heads_kv, p.seq_q, p.seq_k), bool)
            for b in range(p.batch):
                rows = slice(*case.cu_seqlens_q[b : b + 2]) if p.ragged & 1 else None
                lists = case.indices[b] if rows is None else case.indices[rows].swapaxes(0, 1)
                seen[b, :, : lists.shape[1]] = (lists[..., None] == np.arange(p.seq_k) // p.block).any(axis=-2)
            return np.repeat(seen, p.heads_q // p.heads_kv, axis=1)

        kinds, told = collections.Counter(), 0
        for case in drawn(attnfuzz.Domain(features=("packed", "int32")), count=150, operation="selected"):
            p = case.p
            kinds[p.ragged] += 1
            self.assertEqual(case.indices.shape[-1], p.select)
            self.assertEqual(case.indices.shape[0], p.total_q if p.ragged & 1 else p.batch)
            how = dict(causal=p.causal, align=p.align, scale=p.scale, softcap=p.softcap, mask=mask_of(case),
                       key_lengths=case.key_lengths, errors=selected.errors)
            if p.ragged:
                how.update(cu_seqlens_q=case.cu_seqlens_q, cu_seqlens_k=case.cu_seqlens_k,
                           max_seqlen_q=p.seq_q if p.ragged & 1 else None, max_seqlen_k=p.seq_k if p.ragged & 2 else None)
            self.assertLessEqual(attnfuzz.assert_within(*case.call(selected), case.q, case.k, case.v, **how), 1)
            try:
                attnfuzz.assert_within(*case.call(from_the_first_key), case.q, case.k, case.v, **how)
            except AssertionError:
                told += 1
        self.assertEqual(set(kinds), {0, 1, 2, 3}, kinds)
        self.assertGreater(told, 3)

    def test_listed_blocks_are_drawn_too(self):
        for case in drawn(count=20, operation="selected"):
            self.assertEqual(case.indices.shape, (case.p.batch, case.p.heads_kv, case.p.seq_q, case.p.select))
            self.assertGreaterEqual(case.p.block, 1)
            self.assertIsNone(case.mask)
            o, lse = case.call(selected)
            self.assertEqual(lse.shape, (case.p.batch, case.p.heads_q, case.p.seq_q))
        with self.assertRaisesRegex(TypeError, "listed blocks has no oracle here"):
            case.assert_within(o)

    def test_gradients_over_listed_blocks_are_judged_as_those_of_a_mask(self):
        told = 0
        for case in drawn(attnfuzz.Domain(features=("dlse", "int32")), count=80, operation="selected_backward"):
            p, seen = case.p, np.repeat(listed(case.p, case.indices), case.p.heads_q // case.p.heads_kv, axis=1)
            how = dict(causal=p.causal, align=p.align, scale=p.scale, softcap=p.softcap, mask=seen, key_lengths=case.key_lengths,
                       dlse=case.dlse, errors=backward.errors)
            got, given = case.call(selected_backward), (case.q, case.k, case.v, case.dout, case.o, case.lse)
            self.assertLessEqual(attnfuzz.assert_gradients_within(got, *given, **how), 1)
            with self.assertRaisesRegex(TypeError, "listed blocks has no oracle here"):
                case.assert_within(got)
            try:
                case.indices[...] = 0
                attnfuzz.assert_gradients_within(case.call(selected_backward), *given, **how)
            except AssertionError:
                told += 1
        self.assertGreater(told, 10)

    def test_a_merge_is_drawn_too(self):
        case = drawn(count=1, operation="merge")[0]
        self.assertEqual(case.call(lambda p, o1, o2, lse1, lse2: o1.shape == o2.shape), True)
        with self.assertRaisesRegex(TypeError, "a merge has no oracle here"):
            case.assert_within(case.o1)

    def test_sinks_and_slopes_are_for_a_domain_that_names_them(self):
        domain = attnfuzz.Domain(features=("has_sink", "has_alibi"))
        cases = list(attnfuzz.cases(domain, count=60, work=300_000, bf16="bits"))
        self.assertTrue(any(c.sink is not None for c in cases) and any(c.slopes is not None for c in cases))
        for case in cases:
            self.assertLessEqual(case.assert_within(*case.call(attention)), 1)
        self.assertTrue(all(c.sink is None and c.slopes is None for c in drawn(count=60)))

    def test_a_domain_limits_the_heads_of_a_group(self):
        groups = {case.p.heads_q // case.p.heads_kv for case in drawn(attnfuzz.Domain(group={2, 3}), count=40)}
        self.assertEqual(groups, {2, 3})
        groups = {case.p.heads_q // case.p.heads_kv for case in drawn("group=5", count=20)}
        self.assertEqual(groups, {5})
        with self.assertRaisesRegex(ValueError, "no_gqa means group=1"):
            drawn("group=5 no_gqa")

    def test_packed_keys_become_pages_of_one_slot(self):
        tested = 0
        for case in attnfuzz.cases(attnfuzz.Domain(features=("packed", "int32")), count=80, work=300_000, bf16="bits"):
            if case.cu_seqlens_k is None:
                continue
            tested += 1
            k, v, table, lengths = attnfuzz.paged(case.p, case.k, case.v, None, case.key_lengths, cu_seqlens_k=case.cu_seqlens_k)
            self.assertEqual((k.shape[2], table.shape), (1, (case.p.batch, case.p.seq_k)))
            for b, (first, end) in enumerate(zip(case.cu_seqlens_k, case.cu_seqlens_k[1:])):
                most = end - first if case.key_lengths is None else min(end - first, max(case.key_lengths[b], 0))
                self.assertEqual(lengths[b], most)
                self.assertTrue(np.array_equal(table[b, :most], np.arange(first, first + most)))
                self.assertFalse(table[b, most:].any())
        self.assertGreater(tested, 5)

    def test_packed_entries_are_for_a_domain_that_names_them(self):
        domain = attnfuzz.Domain(features=("packed", "int32"))
        told, kinds, types = 0, set(), set()
        for case in attnfuzz.cases(domain, count=150, work=300_000, bf16="bits"):
            kinds.add(case.p.ragged)
            self.assertEqual([case.cu_seqlens_q is not None, case.cu_seqlens_k is not None],
                             [bool(case.p.ragged & 1), bool(case.p.ragged & 2)])
            if case.cu_seqlens_q is not None:
                types.add(case.cu_seqlens_q.dtype.name)
                self.assertEqual(case.q.shape, (case.p.total_q, case.p.heads_q, case.p.dim_qk))
            out, lse = case.call(attention)
            self.assertEqual(lse.shape, (case.p.heads_q, case.p.total_q) if case.p.ragged & 1 else out.shape[:3])
            self.assertLessEqual(case.assert_within(out, lse), 1)
            try:
                case.assert_within(out, lse + np.float32(1))
            except AssertionError as e:
                told += case.p.ragged & 1 and str(e).startswith("lse(h=")
        self.assertEqual(kinds, {0, 1, 2, 3})
        self.assertEqual(types, {"int32", "int64"})
        self.assertGreater(told, 10)
        self.assertTrue(all(c.cu_seqlens_q is None and c.cu_seqlens_k is None for c in drawn(count=60)))

    def test_keys_in_pages_are_for_a_domain_that_names_them(self):
        domain = attnfuzz.Domain(features=("paged", "packed", "int32"))
        paged, both, types = 0, 0, set()
        for case in attnfuzz.cases(domain, count=150, work=300_000, bf16="bits"):
            p = case.p
            self.assertEqual(case.block_table is not None, p.page_size > 0)
            if p.page_size:
                paged, both = paged + 1, both + (p.ragged & 1)
                types.add(case.block_table.dtype.name)
                self.assertEqual(case.block_table.shape, (p.batch, p.pages_per_seq))
                self.assertEqual(case.k.shape, (p.pages, p.heads_kv, p.page_size, p.dim_qk))
            self.assertLessEqual(case.assert_within(*case.call(attention)), 1)
        self.assertGreater(paged, 20)
        self.assertGreater(both, 3)
        self.assertEqual(types, {"int32", "int64"})
        self.assertTrue(all(c.block_table is None for c in drawn(count=60)))

    def test_keys_that_stand_for_blocks_are_for_a_domain_that_names_them(self):
        domain = attnfuzz.Domain(features=("key_step", "paged"))
        blocks, lengths, told = 0, 0, 0
        for case in attnfuzz.cases(domain, count=150, work=300_000, bf16="bits"):
            out, lse = case.call(attention)
            self.assertLessEqual(case.assert_within(out, lse), 1)
            if not case.p.key_step:
                continue
            blocks, lengths = blocks + 1, lengths + (case.key_lengths is not None)
            case.p.key_offset += 1
            other, _ = case.call(attention)
            case.p.key_offset -= 1
            try:
                case.assert_within(other, lse=False)
            except AssertionError:
                told += 1
        self.assertGreater(blocks, 8)
        self.assertGreater(lengths, 3)
        self.assertGreater(told, 2)
        self.assertTrue(all(c.p.key_step == 0 for c in drawn(count=60)))

    def test_a_saved_case_of_a_backward_pass_is_replayed(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "case.json")
            drawn("seq_k>=3 f16", first=11, count=1, operation="backward")[0].save(path)
            kernel = attnfuzz.targets.path("numpy_reference") + ":backward"
            ran = subprocess.run([COMMAND, "replay", path, "--kernel", kernel], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 text=True, env=dict(os.environ, ATTNFUZZ_PYTHON=sys.executable))
            self.assertEqual(ran.returncode, 0, ran.stdout)

    def test_a_strategy_without_hypothesis_says_what_to_install(self):
        from attnfuzz import strategies

        with unittest.mock.patch.dict(sys.modules, {"hypothesis": None}):
            with self.assertRaisesRegex(ImportError, "pip install hypothesis"):
                strategies.cases("dim=64")


if __name__ == "__main__":
    unittest.main()
