"""Submissions in the form of two public harnesses, written for this: right and wrong. harness_test.py [torch], with PYTHONPATH.

In NumPy; with `torch` in PyTorch on the CPU, where that is installed.
"""

import json
import os
import sys
import tempfile
import textwrap
import unittest
import unittest.mock

import numpy

from attnfuzz import Domain, Errors, harness

LIBRARY = sys.argv.pop(1) if len(sys.argv) > 1 else "numpy"
WHERE = dict(device="cpu", arrays=LIBRARY, errors=Errors(accumulator="ffma", p="fp32"))
# The same words in both libraries.
HEAD = {"numpy": "import numpy as np\n", "torch": "import torch as np\nnp.set_num_threads(1)\n"}[LIBRARY]
WIDE = {"numpy": "astype(np.float32)", "torch": "float()"}[LIBRARY]
SOFTMAX = textwrap.dedent(f"""
    def softmax(s):
        m = s.max(-1)[..., None] if not isinstance(s.max(-1), tuple) else s.max(-1)[0][..., None]
        e = np.exp(s - m)
        return e, e.sum(-1), m[..., 0]
""")

MODEL = HEAD + SOFTMAX + textwrap.dedent("""
    class ModelNew:
        def forward(self, Q, K, V):
            e, l, _ = softmax(Q @ K.swapaxes(2, 3) * K.shape[3] ** -0.5)
            return (e @ V / l[..., None])CUT
""")

# Computes one request after the other.
RUN = HEAD + SOFTMAX + textwrap.dedent(f"""
    def one(q, k, v, scale, causal):
        k, v = k.repeat(GROUP, AXIS), v.repeat(GROUP, AXIS)
        s = (q.swapaxes(0, 1) @ k.swapaxes(0, 1).swapaxes(1, 2)) * scale
        if causal:
            ahead = np.arange(k.shape[0])[None, :] > np.arange(q.shape[0])[:, None] + (k.shape[0] - q.shape[0])
            s[:, ahead] = -np.inf
        o = np.zeros((q.shape[0], q.shape[1], q.shape[2]))
        lse = np.full((q.shape[0], q.shape[1]), -np.inf)
        e, l, m = softmax(s)
        o[:] = (e @ v.swapaxes(0, 1) / l[..., None]).swapaxes(0, 1)
        lse[:] = ((np.log(l) + m) / 0.6931471805599453).swapaxes(0, 1)
        return o, lse
""").replace("GROUP, AXIS", {"numpy": "2, 1", "torch": "1, 2, 1"}[LIBRARY]).replace(
    "k.repeat(1, 2, 1)", "k.repeat_interleave(2, 1)").replace("v.repeat(1, 2, 1)", "v.repeat_interleave(2, 1)")

RAGGED = RUN + textwrap.dedent(f"""
    def run(q, k, v, qo_indptr, kv_indptr, sm_scale, output, lse):
        for b in range(len(qo_indptr) - 1):
            rows, keys = slice(qo_indptr[b], qo_indptr[b + 1]), slice(kv_indptr[b], kv_indptr[b + 1])
            output[rows], lse[rows] = 0, -np.inf
            n = keys.stop - keys.start
            first = max(rows.stop - rows.start - int(n), 0)  # rows before it see nothing
            if n and first < rows.stop - rows.start:
                rows = slice(rows.start + first, rows.stop)
                output[rows], lse[rows] = one(q[rows].{WIDE}, k[keys].{WIDE}, v[keys].{WIDE}, sm_scale, True)
""")

DECODE = RUN + textwrap.dedent(f"""
    def run(q, k_cache, v_cache, kv_indptr, kv_indices, kv_last_page_len, sm_scale):
        output, lse = q * 0, np.zeros((q.shape[0], q.shape[1]))
        for b in range(q.shape[0]):
            pages = kv_indices[kv_indptr[b] : kv_indptr[b + 1]]
            if len(pages) == 0:
                lse[b] = -np.inf
                continue
            n = int((len(pages) - 1) * k_cache.shape[1] + kv_last_page_len[b])FULL
            k, v = (c[pages].reshape(-1, c.shape[2], c.shape[3])[:n].{WIDE} for c in (k_cache, v_cache))
            o, l = one(q[b : b + 1].{WIDE}, k, v, sm_scale, False)
            output[b], lse[b] = o[0], l[0]
        return output, lse
""")


def of_const(value):
    return {"type": "const", "value": value}


AXES = {"num_qo_heads": of_const(4), "num_kv_heads": of_const(2), "head_dim": of_const(16), "total_q": {"type": "var"}}
OUTPUTS = {"output": {"dtype": "float16"}, "lse": {"dtype": "float32"}}


def definition(name, inputs, **axes):
    return {"name": name, "axes": dict(AXES, **axes), "outputs": OUTPUTS,
            "inputs": {n: {"dtype": "float16" if n[0] in "qkv" and "ptr" not in n else "int32"} for n in inputs}}


def solution(text, passes=True):
    return {"spec": {"language": "python", "entry_point": "a/main.py::run", "destination_passing_style": passes},
            "sources": [{"path": "a/main.py", "content": text}]}


GQA = definition("gqa_ragged_prefill_causal_h4_kv2_d16", ["q", "k", "v", "qo_indptr", "kv_indptr", "sm_scale"])
PAGES = definition("gqa_paged_decode_h4_kv2_d16_ps4",
                   ["q", "k_cache", "v_cache", "kv_indptr", "kv_indices", "kv_last_page_len", "sm_scale"],
                   page_size=of_const(4))


PARAMETERS = """
class ModelNew:
    def to(self, device, dtype):
        self.dtype = dtype
        return self
    def eval(self):
        return self
    def forward(self, Q, K, V):
        assert Q.dtype == self.dtype, "expected all arrays to have one format"
        return str(Q.dtype)
"""


class Placed(numpy.ndarray):
    """a NumPy array that says where it lies, as PyTorch's do"""

    device = "cpu"


class Harness(unittest.TestCase):
    def model(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "new_model.py")
            with open(path, "w") as f:
                f.write(text)
            return harness.kernelbench(path, domain=Domain(dtypes=("f32",), seq=range(1, 200), dim={32, 64}), seconds=3,
                                       **WHERE)

    def held(self, verdict):
        self.assertEqual(verdict["verdict"], "held", json.dumps(verdict, indent=1))
        self.assertGreater(verdict["judged"], 0.8)
        self.assertEqual(verdict["untrusted"]["confined"][0], "process")

    def test_a_model(self):
        self.held(self.model(MODEL.replace("CUT", "")))

    def test_a_model_that_rounds(self):
        cut = {"numpy": ".astype(np.float16).astype(np.float32)", "torch": ".half().float()"}[LIBRARY]
        verdict = self.model(MODEL.replace("CUT", cut))
        self.assertEqual(verdict["verdict"], "failed", verdict)

    def test_a_ragged_prefill(self):
        self.held(harness.flashinfer_bench(solution(RAGGED), GQA, seconds=3, **WHERE))

    def test_a_paged_decode_that_takes_the_last_page_for_full(self):
        self.held(harness.flashinfer_bench(solution(DECODE.replace("FULL", ""), False), PAGES, seconds=3, **WHERE))
        full = DECODE.replace("FULL", "\n        n = len(pages) * k_cache.shape[1]")
        verdict = harness.flashinfer_bench(solution(full, False), PAGES, seconds=3, **WHERE)
        self.assertEqual(verdict["verdict"], "failed", verdict)
        self.assertIn("S=1/1 ", verdict["failure"]["case"])

    def test_the_domain_and_the_seed_are_the_callers(self):
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(harness, "verdict_on") as asked:
            path = os.path.join(folder, "new_model.py")
            with open(path, "w") as f:
                f.write(MODEL.replace("CUT", ""))
            for given, due in (({16}, "batch=16"), (None, "batch>=1"), ({0, 4}, "batch=4"), (range(0, 9), "batch<=8")):
                harness.kernelbench(path, domain=Domain(dtypes=("f32",), batch=given, dim={64}), **WHERE)
                _, _, seed, _, domain, _, _ = asked.call_args.args
                self.assertIn(due, domain.words().split())
                self.assertNotIn("batch>=0", domain.words().split())
                self.assertIsNone(seed)
            harness.flashinfer_bench(solution(RAGGED), GQA, **WHERE)
            self.assertIsNone(asked.call_args.args[2], "everybody would know the cases")

    def test_a_model_with_parameters_is_made_for_each_format(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "new_model.py")
            with open(path, "w") as f:
                f.write(PARAMETERS)
            model = harness.model_of(path, "ModelNew")
            for dtype in ("float16", "float32", "float16"):
                q = numpy.ones((1, 1, 1, 1), dtype).view(Placed)
                self.assertEqual(model(None, q, q, q), dtype)

    def test_what_is_of_another_kind_is_refused(self):
        with self.assertRaisesRegex(ValueError, "neither gqa_ragged nor gqa_paged"):
            harness.flashinfer_bench(solution(""), definition("gemm", ["a", "b"]), seconds=1)
        cuda = solution("")
        cuda["spec"]["language"] = "cuda"
        with self.assertRaisesRegex(ValueError, "a solution in cuda"):
            harness.flashinfer_bench(cuda, GQA, seconds=1)


if __name__ == "__main__":
    unittest.main()
