"""The targets that the package brings, and targets that are classes of a cache."""

import os
import sys
import unittest
import unittest.mock

import attnfuzz
import attnfuzz.targets
from attnfuzz import contract, worker
from attnfuzz.cache import Life
from attnfuzz.targets.numpy_reference import nsa_score


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
