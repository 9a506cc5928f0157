"""check() and judge() with the command. judge_test.py, with PYTHONPATH; needs NumPy."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

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

    def run_script(self, text, name="mine.py"):
        """The exit status of a script in the test's folder, and what it printed."""
        path = os.path.join(self.folder, name)
        with open(path, "w") as f:
            f.write(textwrap.dedent(HEAD) + textwrap.dedent(text))
        ran = subprocess.run([sys.executable, path], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             text=True, timeout=60)
        return ran.returncode, ran.stdout

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


if __name__ == "__main__":
    unittest.main()
