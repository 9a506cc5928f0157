#!/usr/bin/env python3
"""Runs `attnfuzz check` on every mutant, and reports what killed it and after how many cases.

    run.py --mutants DIR --attnfuzz BIN/attnfuzz [--jobs 2]     # all mutants, or those that are left
    run.py --mutants DIR --attnfuzz BIN/attnfuzz --kernels fa1h,splitkh --sample 500   # a sample of two kernels
    run.py --mutants DIR --report-only                          # the page from the present results

DIR holds mutants.json and libattn_mutants-KERNEL_cpu.so of each kernel, as the targets of
CMakeLists.txt make them. Neither a compiler nor sources are needed.
First each library without a mutant must pass every stage. Then the survivors run one
stage after the other, in order of cost. Each answer is a line of DIR/results.jsonl. An
interrupted run continues where it stopped; answers about other sources are not used.
Status 0: enough mutants are killed, few enough are claimed to be equivalent, none is
unanswered, and no claim is wrong.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True

import survey
from mutated import KERNELS, PATHS

# build : cases : seconds that one launch may take : multiply-adds that one case may
# cost. Early stages have low limits, so that the many mutants that fail at once, or
# hang, are found soon; larger sizes and grids come later.
# unit: the kernels' own tests (tests/kernels), for the choices and refusals of plan().
STAGES = ("plain:100:3:300000,unit:0:60:0,asan:300:60:300000,plain:1000:20:1000000,msan:300:60:300000,"
          "msan-O0:100:60:300000,tsan:300:60:300000,plain:3000:60:3000000,asan:3000:60:1000000,plain:30000:60:3000000")

Stage = collections.namedtuple("Stage", "build_kind cases watchdog work")


def parse_stages(text, build_kinds):
    stages = [Stage(build_kind, int(cases), float(watchdog), int(work))
              for build_kind, cases, watchdog, work in (part.split(":") for part in text.split(","))]
    return [s for s in stages if s.build_kind in build_kinds]


def check(arguments, library, kernel, stage, mutant, limit):
    """One check: a dict that says how it ended."""
    with tempfile.TemporaryDirectory(prefix="attnfuzz-mutant-") as folder:
        report = pathlib.Path(folder) / "report.json"
        command = [str(arguments.attnfuzz), "check", str(library), "--build", stage.build_kind, "--cases", str(stage.cases),
                   "--work", str(stage.work), "--watchdog", str(stage.watchdog), "--seed", str(arguments.seed),
                   "--jobs", "1", "--reduce-seconds", "0", "--allow-stale", "--out", folder, "--json", str(report),
                   *(["--path", PATHS[kernel]] if kernel in PATHS else [])]
        start = time.monotonic()
        try:
            done = subprocess.run(command, env={**os.environ, "ATTNFUZZ_MUTANT": str(mutant)}, cwd=folder,
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                                  timeout=limit)
        except subprocess.TimeoutExpired:
            return {"end": "undecided", "why": f"not done after {limit} s", "seconds": limit}
        answer = {"seconds": round(time.monotonic() - start, 2)}
        if done.returncode == 0:
            # If a kernel refuses too much, the command reports broken floors, and does not fail.
            broken = json.loads(report.read_text().splitlines()[0])["broken_floors"]
            if mutant and broken:
                return {**answer, "end": "killed", "property": "(floors of the draw)", "kind": "refuses too much",
                        "cases": stage.cases, "why": "; ".join(map(str, broken))[:300]}
            return {**answer, "end": "survived", "broken": broken}
        last = (done.stderr.strip().splitlines() or [""])[-1][:300]
        try:
            failure = json.loads(report.read_text().splitlines()[0])["failure"]
        except (OSError, LookupError, ValueError):
            if done.returncode in (1, 2):  # the command refuses what it was given, and says why
                return {**answer, "end": "killed", "property": "(refused)", "kind": "refused", "cases": 0, "why": last}
            return {**answer, "end": "undecided", "why": f"status {done.returncode}: {last}"}
        # A failure that does not repeat in a fresh worker depends on earlier cases. It counts as a failure.
        kind = "not again" if failure["kind"] == "none" else failure["kind"]
        return {**answer, "end": "killed", "property": failure["property"], "kind": kind,
                "cases": failure["index"] + 1, "why": failure["message"][:300]}


def unit_tests(arguments, libraries, kernel, mutant, limit):
    """Runs tests/kernels on this kernel's library, up to the first failure. The tests open the other libraries too."""
    start = time.monotonic()
    command = [str(arguments.unit_tests), f"--gtest_filter=*/{kernel}", "--gtest_fail_fast", "--gtest_brief=1"]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                              timeout=limit, env={**os.environ, "ATTNFUZZ_MUTANT": str(mutant),
                                   **{f"ATTNFUZZ_{k.upper()}_LIBRARY": str(path) for k, path in libraries.items()}})
    except subprocess.TimeoutExpired:
        return {"end": "killed", "property": "(kernels_test)", "kind": "hang", "cases": 0, "seconds": limit,
                "why": f"not done after {limit} s"}
    answer = {"seconds": round(time.monotonic() - start, 2)}
    if done.returncode == 0:
        return {**answer, "end": "survived"}
    failed = re.search(r"\[  FAILED  \] (\S+)", done.stdout)
    kind = "unit test" if failed else "crash"
    return {**answer, "end": "killed", "property": "(kernels_test)", "kind": kind, "cases": 0,
            "why": failed[1] if failed else f"status {done.returncode}"}


class Results:
    """The answers so far, one for each (mutant, stage, kernel), in memory and on disk."""

    def __init__(self, path, digest):
        self.path, self.digest, self.lock, self.known = path, digest, threading.Lock(), {}
        other = 0
        if path.exists():
            for line in path.read_text().splitlines():
                try:
                    answer = json.loads(line)
                except ValueError:
                    continue  # cut off while it was written
                if answer["digest"] == digest:
                    self.known[answer["id"], answer["lane"], answer["asked"], answer["kernel"]] = answer
                else:
                    other += 1
        if other:
            print(f"{path}: {other} answers about other sources are not used")

    def get(self, mutant, stage, kernel):
        return self.known.get((mutant, stage.build_kind, stage.cases, kernel))

    def put(self, mutant, stage, kernel, answer):
        answer = {"digest": self.digest, "id": mutant, "lane": stage.build_kind, "asked": stage.cases, "kernel": kernel,
                  **answer}
        with self.lock:
            self.known[mutant, stage.build_kind, stage.cases, kernel] = answer
            with self.path.open("a") as out:
                out.write(json.dumps(answer) + "\n")
        return answer


def survivors(pool, kills, living, stage):
    """The mutants of `living` for which `kills` returns False. Prints its progress."""
    start, left = time.monotonic(), []
    for done, (mutant, dead) in enumerate(zip(living, pool.map(kills, living)), 1):
        if not dead:
            left.append(mutant)
        if done % 50 == 0 or done == len(living):
            print(f"{stage}: {done} of {len(living)} mutants, {done - len(left)} killed, "
                  f"{time.monotonic() - start:.0f} s", flush=True)
    return left


def run(arguments, mutants, results, stages):
    libraries = {k: arguments.mutants / f"libattn_mutants-{k}_cpu.so" for k in arguments.kernels}

    def ask(mutant, stage, kernel, limit):
        answer = results.get(mutant, stage, kernel)
        if answer is None:
            if stage.build_kind == "unit":
                answer = unit_tests(arguments, libraries, kernel, mutant, stage.watchdog)
            else:
                answer = check(arguments, libraries[kernel], kernel, stage, mutant, limit)
            results.put(mutant, stage, kernel, answer)
        return answer

    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        limits = {}
        pairs = [(s, k) for s in stages for k in libraries]
        for (stage, kernel), answer in zip(pairs, pool.map(lambda p: ask(0, *p, 7200), pairs)):
            if answer["end"] != "survived" or answer.get("broken"):
                sys.exit(f"{kernel} without a mutant does not hold stage {stage.build_kind}:{stage.cases}: {answer}")
            # A mutant that takes longer than this is undecided.
            limits[stage, kernel] = 60 + 3 * stage.watchdog + 10 * answer["seconds"]

        living = list(mutants)
        for stage in stages:
            def kills(mutant, stage=stage):
                for kernel in mutant["kernels"]:
                    if ask(mutant["id"], stage, kernel, limits[stage, kernel])["end"] == "killed":
                        return True
                return False

            living = survivors(pool, kills, living, f"{stage.build_kind} {stage.cases} cases")


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mutants", type=pathlib.Path, required=True, help="folder of mutants.json and the libraries")
    parser.add_argument("--attnfuzz", type=pathlib.Path, help="the command, its workers beside it")
    parser.add_argument("--unit-tests", type=pathlib.Path, help="kernels_test; without it that stage is left out")
    parser.add_argument("--builds", default="plain", help="plain,asan,...; `all`: those there are libraries for")
    parser.add_argument("--stages", default=STAGES, help="build:cases:watchdog:work,... (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="mutants with this in their name")
    parser.add_argument("--kernels", default=",".join(KERNELS), help="mutants of these: %(default)s")
    parser.add_argument("--sample", type=int, help="as many mutants, drawn by --seed; default: all")
    parser.add_argument("--results", type=pathlib.Path, help="default: results.jsonl beside mutants.json")
    parser.add_argument("--survivors", type=pathlib.Path, default=here / "SURVIVORS.md")
    parser.add_argument("--page", type=pathlib.Path, help="write the summary there (MUTANTS.md), and what killed each beside it (killed.md)")
    parser.add_argument("--report-only", action="store_true")
    arguments = parser.parse_args()
    arguments.mutants = arguments.mutants.resolve()
    if not (arguments.mutants / "mutants.json").exists():
        sys.exit(f"{arguments.mutants}/mutants.json is not there: build the target `mutants`")
    listing = json.loads((arguments.mutants / "mutants.json").read_text())
    arguments.kernels = arguments.kernels.split(",")
    if unknown := set(arguments.kernels) - set(KERNELS):
        sys.exit(f"there is no kernel {' or '.join(sorted(unknown))} with mutants: {', '.join(KERNELS)}")
    mutants = [m for m in listing["mutants"] if (not arguments.only or arguments.only in m["key"])
               and set(m["kernels"]) <= set(arguments.kernels)]
    if not mutants:
        sys.exit(f"no mutant has '{arguments.only}' in its name" if arguments.only else "there are no mutants")
    if arguments.sample and arguments.sample < len(mutants):
        mutants = sorted(random.Random(arguments.seed).sample(mutants, arguments.sample), key=lambda m: m["id"])
    results = Results(arguments.results or arguments.mutants / "results.jsonl", listing["digest"])
    if not arguments.report_only:
        if not arguments.attnfuzz:
            sys.exit("--attnfuzz says where the command is")
        arguments.attnfuzz = arguments.attnfuzz.resolve()
        build_kinds = arguments.builds.split(",")
        if build_kinds == ["all"]:
            build_kinds = ["plain", *(build_kind for build_kind in ("asan", "msan", "msan-O0", "tsan") if all(
                (arguments.mutants / f"libattn_mutants-{k}_cpu-{build_kind}.so").exists() for k in arguments.kernels))]
        missing = [k for k in arguments.kernels if not (arguments.mutants / f"libattn_mutants-{k}_cpu.so").exists()]
        if missing:
            sys.exit(f"{arguments.mutants} has no library of {' and '.join(missing)}: build the target `mutants`")
        if arguments.unit_tests:
            arguments.unit_tests = arguments.unit_tests.resolve()
            build_kinds.append("unit")
        run(arguments, mutants, results, parse_stages(arguments.stages, build_kinds))
    return survey.report(listing, mutants, results.known.values(), arguments.survivors, arguments.page)


if __name__ == "__main__":
    sys.exit(main())
