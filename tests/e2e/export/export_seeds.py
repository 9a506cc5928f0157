#!/usr/bin/env python3
"""export_seeds.py ATTNFUZZ LIBRARY KERNEL SEEDS

Exports every case of the corpus as a Python program and runs it: the program's reference and layout must agree with
those that the case is judged by. The programs run in this process, one after the other, because each would otherwise
load NumPy again.
"""
import contextlib
import io
import pathlib
import runpy
import subprocess
import sys
import tempfile
import traceback
import warnings


def status_of(program, library, log):
    """Runs the program as a script and returns its exit status, 1 if it raises."""
    sys.argv = [str(program), library]
    with contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
        try:
            runpy.run_path(str(program), run_name="__main__")
        except SystemExit as end:
            if isinstance(end.code, str):
                print(end.code)
            return end.code if isinstance(end.code, int) else int(end.code is not None)
        except Exception:  # whatever the program raises is its failure
            traceback.print_exc()
            return 1
    return 0


def main():
    attnfuzz, library, kernel, seeds = sys.argv[1:]
    try:
        import numpy  # noqa: F401, the programs need it
    except ImportError:
        print("SKIPPED: no Python with NumPy here (python3-numpy)")
        return 77
    with contextlib.suppress(ImportError):
        import torch  # noqa: F401, the programs fork, and each child would load it
    warnings.simplefilter("error")
    tried = bad = 0
    with tempfile.TemporaryDirectory() as out:
        program = pathlib.Path(out) / "seed.py"
        for seed in sorted(pathlib.Path(seeds).glob("*.case.json")):
            log = io.StringIO()
            export = subprocess.run([attnfuzz, "export", seed, "--kernel", kernel, "--python", "--out", program],
                                    stderr=subprocess.PIPE, text=True)
            status = export.returncode or status_of(program, library, log)
            if status != 0:
                print(seed, f"(status {status})", (export.stderr + log.getvalue())[:2000], sep="\n")
                bad += 1
            tried += 1
    print(f"{tried} programs, {bad} bad")
    return 0 if tried > 0 and bad == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
