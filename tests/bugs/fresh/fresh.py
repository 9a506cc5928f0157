#!/usr/bin/env python3
"""Checks the fresh bugs: at which case each is found, and whether its first lead is right.

    fresh.py --attnfuzz BUILD/bin/attnfuzz --build BUILD --out DIR [--seeds 1,2] [--bug NAME] ...

The target fresh-bugs of BUILD builds bugs of fa1 and splitk; `attnfuzz check FILE.cu --entry` builds those of
kernels/*.cu. The script prints a line for each bug and seed, and a summary with the required shares (README.md).

Exit status: 0 if all required shares are reached, 1 if not, 2 for bad use. Needs Python 3.9, cmake and patch.
"""
import argparse
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
CASES = {"ordinary": 1000, "conjunction": 3000}
FOUND, RIGHT, WRONG = 0.9, 0.85, 0.03  # shares: bugs found from each seed; right and wrong leads among all leads
FIELDS = {"Kernel", "Kind", "Length", "Leads", "Trigger"}


def bad_use(message):
    print(f"fresh.py: {message}", file=sys.stderr)
    sys.exit(2)


def head_of(patch):
    head = {}
    for line in patch.read_text().split("\n\n")[0].splitlines():
        field, _, value = line.partition(": ")
        if field not in FIELDS:
            bad_use(f"{patch}: not a line of a head: {line}")
        head[field] = value
    missing = FIELDS - {"Length"} - set(head)
    if missing or head["Kind"] not in CASES:
        bad_use(f"{patch}: the head lacks {', '.join(sorted(missing)) or 'a kind: ordinary or conjunction'}")
    return head


def must_run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode:
        bad_use(f"{' '.join(map(str, command))}:\n{(done.stdout + done.stderr)[-3000:]}")


def words_of(patch, head, build, folder):
    """The arguments of `attnfuzz check` for the bug: its library, or its source with --entry and --takes."""
    if head["Kernel"] in ("fa1", "splitk"):
        return [build / f"bugs/libattn_fresh-{patch.stem}_cpu.so"]
    source = folder / f"{head['Kernel']}.cu"
    original = HERE / "kernels" / source.name
    shutil.copyfile(original, source)
    must_run(["patch", "-p1", "--fuzz=0", "--batch", "--no-backup-if-mismatch", "-i", patch], cwd=folder)
    text = original.read_text()
    say = {key: re.search(rf"^// {key}: (.*)$", text, re.M)[1] for key in ("entry", "takes")}
    return [source, "--entry", say["entry"], "--takes", say["takes"]]


def check(patch, head, seed, words, options):
    folder = options.out / patch.stem
    report = folder / f"check-{seed}.json"
    report.unlink(missing_ok=True)
    command = [options.attnfuzz, "check", *words, "--cases", CASES[head["Kind"]], "--jobs", 1, "--seed", seed, "--json",
               report, "--out", folder / f"found-{seed}"] + shlex.split(options.check_options)
    shutil.rmtree(folder / f"found-{seed}", ignore_errors=True)  # check would try the failures of earlier runs first
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, errors="replace")
    (folder / f"log-{seed}").write_text(done.stdout + done.stderr)
    if done.returncode not in (0, 1) or not report.exists():
        bad_use(f"{patch.stem}: status {done.returncode}: {(done.stderr or done.stdout)[-2000:]}")
    answer = json.loads(report.read_text())
    failure, reduction = answer.get("failure"), answer.get("reduction") or {}
    lead = (reduction.get("guess") or {}).get("class") if failure else None
    verdict = "-" if not failure else "none" if not lead else "right" if lead in head["Leads"].split() else "WRONG"
    return {"bug": patch.stem, "kind": head["Kind"], "seed": seed, "case": failure["index"] + 1 if failure else None,
            "lead": lead, "verdict": verdict}


def summary(records, seeds):
    met = True
    for seed in seeds:
        of_seed = [r for r in records if r["seed"] == seed]
        found = sum(r["case"] is not None for r in of_seed)
        print(f"seed {seed}: {found} of {len(of_seed)} found")
        met = met and found >= FOUND * len(of_seed)
    leads = [r["verdict"] for r in records if r["case"] is not None]
    right, wrong = leads.count("right"), leads.count("WRONG")
    print(f"first leads: {right} of {len(leads)} right, {wrong} wrong, {len(leads) - right - wrong} none")
    return met and right >= RIGHT * len(leads) and wrong <= WRONG * len(leads)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attnfuzz", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--seeds", default="1,2")
    parser.add_argument("--bug", action="append", help="a name, or the beginning of several names")
    parser.add_argument("--check-options", default="", help="more words for `attnfuzz check`")
    options = parser.parse_args()
    options.attnfuzz, options.out = options.attnfuzz.resolve(), options.out.resolve()
    seeds = [int(seed) for seed in options.seeds.split(",")]
    patches = [p for p in sorted(HERE.glob("*/*.patch"))
               if not options.bug or any(p.stem.startswith(name) for name in options.bug)]
    if not patches:
        bad_use(f"no bug of that name in {HERE}")
    targets = [f"attn_fresh-{p.stem}_cpu" for p in patches if head_of(p)["Kernel"] in ("fa1", "splitk")]
    if targets:
        must_run(["cmake", "--build", options.build, "--target", *targets])
    records = []
    for patch in patches:
        head = head_of(patch)
        (options.out / patch.stem).mkdir(parents=True, exist_ok=True)
        words = words_of(patch, head, options.build.resolve(), options.out / patch.stem)
        for seed in seeds:
            r = check(patch, head, seed, words, options)
            records.append(r)
            found = f"case {r['case']}" if r["case"] else f"NOT FOUND in {CASES[r['kind']]}"
            print(f"{r['bug']:34} seed {seed}: {found:18} lead {r['lead'] or '-':12} {r['verdict']:6} due: {head['Leads']}",
                  flush=True)
    (options.out / "results.json").write_text(json.dumps(records, indent=1))
    return 0 if summary(records, seeds) else 1


if __name__ == "__main__":
    sys.exit(main())
