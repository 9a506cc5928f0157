"""What a target declares: its domain, its errors, its outputs."""

import collections
import ctypes
import functools
import os
import sys
import types
import unittest
import unittest.mock

import numpy as np

import attnfuzz
from attnfuzz import contract, kernel, worker
from attnfuzz.targets.numpy_reference import nsa_score


class Declarations(unittest.TestCase):
    def test_a_known_failure_is_refused_until_it_is_asked_for(self):
        os.environ.pop("ATTNFUZZ_KNOWN", None)
        with self.assertRaisesRegex(attnfuzz.Unsupported, "known: rows apart"):
            attnfuzz.known("rows apart")
        with unittest.mock.patch.dict(os.environ, ATTNFUZZ_KNOWN="1"):
            attnfuzz.known("rows apart")
            self.assertTrue(attnfuzz.shows_known())

    def test_what_a_function_returns_cannot_be_read_from_a_gpu_through_dlpack(self):
        def declare(f, **more):
            return attnfuzz.target(f, device="cuda", arrays="dlpack", **more)

        for f, missing, more in (
                (lambda p, q, k, v: None, "out and lse to", {}),
                (lambda p, q, k, v, out: None, "parameters lse to", {}),
                (lambda p, q, k, v, **others: None, "out and lse to", {}),
                (lambda p, q, k, v, dout, o, lse, dq, dv: None, "parameters dk to", {"operation": "backward"}),
                (lambda p, q, k, v, dout, o, lse, dq, dk, dv, bias: None, "parameters dbias to",
                 {"operation": "backward", "domain": attnfuzz.Domain(features=("dbias",))})):
            with self.assertRaisesRegex(TypeError, missing):
                declare(f, **more)
        declare(lambda p, q, k, v, out: None, domain=attnfuzz.Domain(lse=False))
        declare(lambda p, q, k, v, dout, o, lse, dq, dk, dv: None, operation="backward")
        declare(lambda p, k, v, k_new, v_new, key_lengths: None, operation="append")

        class Array:  # lies on a GPU
            shape = (1, 1, 1, 1)

            def __array__(self, *_):
                raise TypeError("Implicit conversion to a NumPy array is not allowed")

        mine = kernel.Kernel("mine", declare(lambda p, q, k, v, out, lse: Array()), "mine.py")
        problem = contract.Problem(batch=1, heads_q=1, heads_kv=1, seq_q=1, seq_k=1, dim_qk=1, dim_v=1, window_left=-1,
                                   window_right=-1, bias_dtype=-1)
        with self.assertRaisesRegex(TypeError, "write into out and return nothing"):
            mine.call(problem, contract.Tensors(), contract.Environment())

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
            key_step, key_offset = 0, 0

        nothing = attnfuzz.masks.sees_nothing(P)
        self.assertEqual(nothing.tolist(), [[[True, False, False]]])
        bias = np.array([[[[0, 0], [-np.inf, 0], [0, 0]]]])
        self.assertEqual(attnfuzz.masks.sees_nothing(P, bias).tolist(), [[[True, True, False]]])
        padded = attnfuzz.masks.finite_padding(np.array([[[[np.nan], [np.nan], [np.inf], [1]]]], np.float16), [1])
        self.assertTrue(np.array_equal(padded[0, 0, :, 0], [np.nan, 0, 0, 1], equal_nan=True))

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
        self.assertNotIn("bias", part.takes)  # it is given already
        option = attnfuzz.target(functools.partial(lambda p, q, k, v, impl="a": impl, impl="b"))
        self.assertEqual((option(0, **arrays), option.takes), ("b", {"p", "q", "k", "v"}))
        with self.assertRaisesRegex(TypeError, "is one of .p, q, bias, arrays."):
            attnfuzz.target(lambda p, q, bias=None, *arrays: 0)
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
