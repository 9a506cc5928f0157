#!/usr/bin/env python3
"""campaign_bugs.py ATTNFUZZ LIBRARIES DURATION TARGET=PATCH... -- known bugs, several in a kernel.

Runs one campaign of DURATION over LIBRARIES/libattn_composed-TARGET_cpu.so and
matches its findings with the patches' heads, by the smallest case (Smallest:).
Every bug is to be found once, reduced, and nothing else twice. Prints a table;
status 0 if all held. OUT in the environment keeps the campaign's folder.
"""
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile


def smallest(patch):
    return re.search(r"^Smallest: (.*)$", pathlib.Path(patch).read_text(), re.M).group(1)


def main():
    attnfuzz, libraries, duration = sys.argv[1:4]
    bugs = collections.defaultdict(dict)
    for word in sys.argv[4:]:
        target, patch = word.split("=", 1)
        bugs[target][pathlib.Path(patch).stem] = smallest(patch)
    with tempfile.TemporaryDirectory() as temporary:
        out = pathlib.Path(os.environ.get("OUT", temporary)) / "campaign"
        paths = [f"{libraries}/libattn_composed-{target}_cpu.so" for target in bugs]
        run = subprocess.run([attnfuzz, "campaign", *paths, "--for", duration, "--out", str(out), "--drain-seconds", "120"],
                             capture_output=True, text=True)
        if run.returncode != 1:
            print(run.stdout + run.stderr)
            print(f"the campaign ended with status {run.returncode}, 1 is due")
            return 1
        findings = json.loads((out / "findings.json").read_text())["findings"]
    wrong = 0
    named = collections.Counter()
    for f in findings:
        target = re.sub(r"^composed-(.*)\.cpu\.plain$", r"\1", f["target"])
        names = [bug for bug, case in bugs[target].items() if case == f["minimal"]]
        label = names[0] if names else "NO NAME"
        named[(target, label)] += 1
        print(f"{target:9} {label:24} x{f['count']:<4} after {f['t']:6.1f} s, {f['kind']:10} {f['minimal']}")
        if not names or not f["reduced"] or named[(target, label)] > 1:
            wrong += 1
            print(f"{'':9} ^ " + ("not reduced" if not f["reduced"] else "twice" if names else "of no known bug"))
    for target, of in bugs.items():
        for bug, case in of.items():
            if not named[(target, bug)]:
                wrong += 1
                print(f"{target:9} {bug:24} NOT REPORTED: {case}")
    total = sum(len(of) for of in bugs.values())
    print(f"{sum(1 for n in named if n[1] != 'NO NAME')} of {total} bugs reported by name, "
          f"{sum(n - 1 for key, n in named.items() if key[1] != 'NO NAME')} twice, "
          f"{sum(n for key, n in named.items() if key[1] == 'NO NAME')} finding(s) without a name")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
