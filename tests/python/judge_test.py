"""check() and judge() with the command. judge_test.py, with PYTHONPATH; needs NumPy."""

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
from dataclasses import replace

from attnfuzz import Domain, Errors, home, target
from attnfuzz.judge import redeclared, smallest_detectable

HEAD = """
    import sys
    import attnfuzz
    from attnfuzz.targets.numpy_reference import attention as right

    def compute(p, q, k, v):
        return right.function(p, q, k, v)
"""


class Script(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.addCleanup(self.end_all)

    def run_program(self, *command):
        """The exit status of a program in the test's folder, and what it printed."""
        ran = subprocess.run(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60,
                             env=dict(os.environ, ATTNFUZZ_PYTHON=sys.executable))
        return ran.returncode, ran.stdout

    def run_script(self, *texts, words=()):
        path = os.path.join(self.folder, "mine.py")
        with open(path, "w") as f:
            f.writelines(map(textwrap.dedent, (HEAD, *texts)))
        return self.run_program(sys.executable, path, *words)

    def still_running(self):
        """The processes that the test's folder is an argument of."""
        named = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline") as f:
                    named += [pid] if self.folder in f.read() and int(pid) != os.getpid() else []
            except OSError:
                pass  # it has ended
        return named

    def end_all(self):
        while pids := self.still_running():
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)


class AtTheTop(Script):
    """A script that checks its own function without asking whether it is the main program."""

    def refuses(self, call):
        status, said = self.run_script(call)
        self.assertNotEqual(status, 0)
        self.assertIn("write them under if __name__ == '__main__':", said)
        end = time.monotonic() + 5
        while self.still_running() and time.monotonic() < end:
            time.sleep(0.1)
        self.assertEqual(self.still_running(), [])

    def test_a_target(self):
        self.refuses("mine = attnfuzz.target(compute)\nattnfuzz.judge(mine, seconds=1)")

    def test_a_plain_function(self):
        self.refuses("attnfuzz.check(compute, cases=10)")


WRONG = """
    def wrong(p, q, k, v):
        o, lse = right.function(p, q, k, v)
        return o, lse + (p.seq_k > 64)

    declared = attnfuzz.target(wrong)
"""
NARROW = "domain=attnfuzz.Domain(dtypes={'f16', 'f32'}, bias=False, mask=False, key_lengths=False)"


class Reproducers(Script):
    """A function that needs a file of its own, because it is no target or gets another declaration."""

    def stays_found(self, function):
        call = f"""
            if __name__ == "__main__":
                attnfuzz.check({function}, {NARROW}, cases=int(sys.argv[1]), out="kept")
        """
        status, said = self.run_script(WRONG, call, words=["100"])
        self.assertEqual(status, 1, said)
        replay = re.search(r"^replay: attnfuzz (.*)$", said, re.MULTILINE)
        self.assertTrue(replay, said)
        ran = self.run_program(home.command(), *shlex.split(replay[1]))
        self.assertEqual(ran[0], 1, ran[1])
        self.assertIn("lse(b=0", ran[1])
        status, said = self.run_script(WRONG, call, words=["0"])
        self.assertEqual(status, 1, said)
        self.assertIn("found before, and still there", said)

    def test_of_a_plain_function(self):
        self.stays_found("wrong")

    def test_of_a_target_with_another_domain(self):
        self.stays_found("declared")


class ByName(Script):
    """judge() of a function that this process does not import."""

    def verdict(self, function, declaration="", more=""):
        text = f"""
            @attnfuzz.target({declaration})
            def mine(p, q, k, v):
                assert not p.softcap and p.window_left < 0 and p.window_right < 0
                return compute(p, q, k, v)

            if __name__ == "__main__":
                import json

                print("VERDICT", json.dumps(attnfuzz.judge({function}, seconds=2{more})))
        """
        status, said = self.run_script(text)
        self.assertEqual(status, 0, said)
        return json.loads(said.split("VERDICT ")[1])

    OWN = "domain=attnfuzz.Domain(window=False, softcap=False, align='bottom_right'), bf16='bits'"

    def test_its_own_declaration_counts(self):
        by_name, itself = (self.verdict(function, self.OWN) for function in ("__file__ + ':mine'", "mine"))
        self.assertEqual((by_name["verdict"], by_name["failure"]), ("held", None))
        self.assertEqual(by_name.keys(), itself.keys())
        self.assertEqual(by_name["verdict"], itself["verdict"])

    def test_what_is_given_overrides_it(self):
        verdict = self.verdict("__file__ + ':mine'", self.OWN, ", domain=attnfuzz.Domain(dtypes=('f16',), window=False)")
        self.assertEqual(verdict["verdict"], "failed", verdict)
        self.assertIn("AssertionError", verdict["failure"]["message"])

    def test_it_keeps_all_that_is_not_given(self):
        own = target(lambda p, q, k, v: q, device="cuda", tiles=(16, 32), errors=Errors(p="input"), domain=Domain(gqa=False),
                     compiles=("dim",), bf16="bits", path="mine")
        other = redeclared(own, "f.py", "mine", {"errors": Errors(p="fp32")})
        self.assertEqual(other, replace(own, errors=Errors(p="fp32")))
        self.assertEqual(redeclared(own.function, "f.py", "mine", {"device": "cuda"}).arrays, "torch")

    def test_bf16_alone_has_a_figure_of_its_own(self):
        half = smallest_detectable(dtype="f16")
        bf16 = smallest_detectable(dtype="bf16")
        self.assertGreater(bf16, 4 * half)
        only = self.verdict("mine", "domain=attnfuzz.Domain(dtypes='bf16', window=False, softcap=False), bf16='bits'")
        self.assertEqual(only["smallest_detectable"], bf16)


if __name__ == "__main__":
    unittest.main()
