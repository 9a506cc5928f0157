#!/usr/bin/env python3
"""Checks on a GPU that each planted threshold is found, and that nothing is found in the unchanged kernels.

    thresholds.py --attnfuzz BUILD/bin/attnfuzz --library BUILD/bugs/libattn_thresholds_cuda.so --out DIR
                  [--seeds 1,2] [--cases 3000] [--jobs 8] [--name NAME] ...

Prints a line for each threshold and seed, with the number of the case that shows it. Exit status: 0 if all thresholds
were found and the unchanged kernels passed, 1 if not, 2 for bad use.
"""
import argparse
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
AS_IT_IS = ["fa1-as-it-is", "splitk-as-it-is"]


def bad_use(message):
    print(f"thresholds.py: {message}", file=sys.stderr)
    sys.exit(2)


def names():
    text = (HERE / "thresholds.h").read_text()
    return re.findall(r'^    \{"([a-z0-9-]+)", "(?:fa1|splitk)"', text, re.M) + AS_IT_IS


def check(name, seed, options):
    folder = options.out / f"{name}-{seed}"
    shutil.rmtree(folder, ignore_errors=True)  # check would try the failures of earlier runs first
    folder.mkdir(parents=True)
    report = folder / "check.json"
    command = [options.attnfuzz, "check", f"{options.library}:{name}", "--backend", "cuda", "--batch", "64", "--oracle", "cuda",
               "--cases", options.cases, "--jobs", options.jobs, "--seed", seed, "--json", report, "--out", folder,
               "--reduce-seconds", options.reduce_seconds] + shlex.split(options.check_options)
    begun = time.monotonic()
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, errors="replace")
    (folder / "log").write_text(done.stdout + done.stderr)
    if done.returncode not in (0, 1) or not report.exists():
        bad_use(f"{name}: status {done.returncode}: {(done.stderr or done.stdout)[-2000:]}")
    failure = json.loads(report.read_text()).get("failure")
    return {"name": name, "seed": seed, "case": failure["index"] + 1 if failure else None,
            "says": failure and failure.get("message", ""), "seconds": round(time.monotonic() - begun, 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attnfuzz", type=pathlib.Path, required=True)
    parser.add_argument("--library", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--cases", type=int, default=3000)
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--reduce-seconds", type=float, default=0)
    parser.add_argument("--name", action="append", help="a threshold, or the beginning of several names")
    parser.add_argument("--check-options", default="", help="more words for `attnfuzz check`")
    options = parser.parse_args()
    options.attnfuzz, options.library, options.out = (p.resolve() for p in (options.attnfuzz, options.library, options.out))
    chosen = [name for name in names() if not options.name or any(name.startswith(n) for n in options.name)]
    if not chosen:
        bad_use("no threshold of that name")
    records = []
    for seed in map(int, options.seeds.split(",")):
        for name in chosen:
            r = check(name, seed, options)
            records.append(r)
            found = f"case {r['case']}" if r["case"] else f"none in {options.cases}"
            print(f"{name:26} seed {seed}: {found:14} {r['seconds']:6.1f} s  {(r['says'] or '')[:90]}", flush=True)
    (options.out / "results.json").write_text(json.dumps(records, indent=1))
    missed = [r for r in records if r["name"] not in AS_IT_IS and r["case"] is None]
    alarms = [r for r in records if r["name"] in AS_IT_IS and r["case"] is not None]
    planted = [r for r in records if r["name"] not in AS_IT_IS]
    print(f"{len(planted) - len(missed)} of {len(planted)} found; {len(alarms)} failures where nothing is planted")
    return 1 if missed or alarms else 0


if __name__ == "__main__":
    sys.exit(main())
