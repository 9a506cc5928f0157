#!/usr/bin/env python3
"""campaign_bugs.py ATTNFUZZ COMPOSED SINGLE DURATION TARGET=PATCH... -- known bugs, several in a kernel.

Runs one campaign of DURATION over COMPOSED/libattn_composed-TARGET_cpu.so. Then it
runs each finding's reduced case on the kernels that have only one of the target's
bugs, SINGLE/libattn_bug-PATCH_cpu.so: the bug whose kernel fails owns the finding.
Every bug must own one finding, reduced, and every finding must have one owner. Prints
a table, in which = marks a case that is the patch's Smallest: word for word. The exit
status is 0 if all this holds.

In the environment: OUT keeps the campaign's folder, MORE has further options of
attnfuzz campaign ("--seed 2").
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
    return re.search(r"^Smallest: (.*)$", pathlib.Path(patch).read_text(), re.M).group(1).split(" or ")


def fails_on(attnfuzz, library, file):
    """Does the reduced case of the file fail on the library, a kernel with one bug?"""
    run = subprocess.run([attnfuzz, "replay", str(file), "--kernel", library], capture_output=True, text=True)
    if run.returncode not in (0, 1):
        sys.exit(f"{library} cannot be judged:\n{run.stdout}{run.stderr}")
    return run.returncode == 1


def main():
    attnfuzz, composed, single, duration = sys.argv[1:5]
    bugs = collections.defaultdict(dict)
    for word in sys.argv[5:]:
        target, patch = word.split("=", 1)
        bugs[target][pathlib.Path(patch).stem] = smallest(patch)
    wrong = 0
    named = collections.Counter()
    extras = 0
    with tempfile.TemporaryDirectory() as temporary:
        out = pathlib.Path(os.environ.get("OUT", temporary)) / "campaign"
        paths = [f"{composed}/libattn_composed-{target}_cpu.so" for target in bugs]
        run = subprocess.run([attnfuzz, "campaign", *paths, "--for", duration, "--out", str(out), "--drain-seconds", "300",
                              *os.environ.get("MORE", "").split()], capture_output=True, text=True)
        if run.returncode != 1:
            print(run.stdout + run.stderr)
            print(f"the campaign ended with status {run.returncode}, 1 is due")
            return 1
        for f in json.loads((out / "findings.json").read_text())["findings"]:
            target = re.sub(r"^composed-(.*)\.cpu\.plain$", r"\1", f["target"])
            file = out / "findings" / f"{f['name']}.attn.json"
            owners = [bug for bug in bugs[target] if fails_on(attnfuzz, f"{single}/libattn_bug-{bug}_cpu.so", file)]
            is_named = [bug for bug, cases in bugs[target].items() if f["minimal"] in cases]
            trouble = []
            if not f["reduced"]:
                trouble.append("not reduced")
            if len(owners) != 1:
                extras += 1
                trouble.append("fails with none of the bugs alone" if not owners else "fails with several bugs alone")
            else:
                named[(target, owners[0])] += 1
                if named[(target, owners[0])] > 1:
                    trouble.append("twice")
            print(f"{target:9} {' + '.join(owners) or '?':24} x{f['count']:<4} after {f['t']:6.1f} s, {f['kind']:10} "
                  f"{'=' if is_named == owners and owners else ' '} {f['minimal']}")
            if trouble:
                wrong += 1
                print(f"{'':9} ^ {', '.join(trouble)}; {f['name']}, found as {f['found']}")
    for target, of in bugs.items():
        for bug, case in of.items():
            if not named[(target, bug)]:
                wrong += 1
                print(f"{target:9} {bug:24} NOT REPORTED: {case}")
    total = sum(len(of) for of in bugs.values())
    print(f"{len(named)} of {total} bugs reported by name, {sum(n > 1 for n in named.values())} of them more than once "
          f"({sum(named.values()) - len(named)} finding(s) more), {extras} finding(s) that are not one bug's")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
