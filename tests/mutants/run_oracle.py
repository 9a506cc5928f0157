#!/usr/bin/env python3
"""Runs the oracle's own tests on every mutant of the oracle, and reports which test killed it.

    run_oracle.py --mutants DIR                      # all mutants, or those that are left
    run_oracle.py --mutants DIR --sample 600         # a sample, drawn by --seed
    run_oracle.py --mutants DIR --report-only        # reports the present results

DIR holds mutants.json and reference_mutants, a program with the oracle, every mutant and the tests of
tests/reference, as the target reference-mutants makes them. Nothing else is needed. A mutant is killed if an
assertion fails, or if the program crashes or hangs. Mutants that survive the quick tests run the slow ones,
which draw thousands of kernels or check every property on right kernels. Each answer is a line of
DIR/results.jsonl; an interrupted run continues where it stopped. Status 0: every survivor has a reason in
REFERENCE.md (--survivors), and no killed mutant has one.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import re
import resource
import subprocess
import sys
import time

sys.dont_write_bytecode = True

import survey
from run import Results, Stage, survivors

SLOW = "NoFalseAlarm.*:Detection.*:*.HoldsOfA*"
# name, tests, and the seconds that a mutant may take beyond four times the oracle's own time
STAGES = (("quick", f"*:-{SLOW}", 5), ("slow", SLOW, 20))


def ask(program, mutant, tests, limit):
    """Runs the tests on one mutant, up to the first assertion that fails."""
    start = time.monotonic()
    command = [str(program), f"--gtest_filter={tests}", "--gtest_break_on_failure", "--gtest_color=no"]
    answer = {"property": "", "cases": 0}
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                              timeout=limit, env={**os.environ, "ATTNFUZZ_MUTANT": str(mutant)})
        output, status = done.stdout, done.returncode
    except subprocess.TimeoutExpired as ended:
        output, status = (ended.stdout or b"").decode(errors="replace"), None
    answer["seconds"] = round(time.monotonic() - start, 2)
    if status == 0:
        return {**answer, "end": "survived"}
    ran = re.findall(r"^\[ RUN      \] (\S+)", output, re.M)
    failed = re.search(r"^\S+:\d+: Failure$", output, re.M)
    kind = "hang" if status is None else "assertion" if failed else "crash"
    return {**answer, "end": "killed", "property": ran[-1] if ran else "(start)", "kind": kind,
            "why": output[failed.start():][:300] if failed else f"status {status}"}


def run(arguments, mutants, results):
    program = arguments.mutants / "reference_mutants"
    living = list(mutants)
    for name, tests, beyond in STAGES[:1] if arguments.quick else STAGES:
        stage = Stage(name, 0, 0, 0)
        right = ask(program, 0, tests, 3600)
        if right["end"] != "survived":
            sys.exit(f"without a mutant the {name} tests do not pass: {right}")
        limit = 4 * right["seconds"] + beyond

        def kills(mutant):
            answer = results.get(mutant["id"], stage, "oracle")
            if answer is None:
                answer = ask(program, mutant["id"], tests, limit)
                # On a busy machine a slow mutant may look like a hang, so it runs once more.
                if answer.get("kind") == "hang":
                    answer = ask(program, mutant["id"], tests, 10 * limit)
                results.put(mutant["id"], stage, "oracle", answer)
            return answer["end"] == "killed"

        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            living = survivors(pool, kills, living, f"{name} tests")


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mutants", type=pathlib.Path, required=True, help="folder of mutants.json and the program")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", help="mutants with this in their name")
    parser.add_argument("--sample", type=int, help="as many mutants, drawn by --seed; default: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=pathlib.Path, help="default: results.jsonl beside mutants.json")
    parser.add_argument("--survivors", type=pathlib.Path, default=here / "REFERENCE.md")
    parser.add_argument("--page", type=pathlib.Path,
                        help="write the whole table there, and what killed each beside it (killed.md)")
    parser.add_argument("--quick", action="store_true", help="without the slow tests")
    parser.add_argument("--report-only", action="store_true")
    arguments = parser.parse_args()
    arguments.mutants = arguments.mutants.resolve()
    if not (arguments.mutants / "mutants.json").exists():
        sys.exit(f"{arguments.mutants}/mutants.json is not there: build the target `reference-mutants`")
    listing = json.loads((arguments.mutants / "mutants.json").read_text())
    mutants = [m for m in listing["mutants"] if not arguments.only or arguments.only in m["key"]]
    if not mutants:
        sys.exit(f"no mutant has '{arguments.only}' in its name")
    # A smaller sample is part of a larger one.
    random.Random(arguments.seed).shuffle(mutants)
    mutants = mutants[:arguments.sample]
    results = Results(arguments.results or arguments.mutants / "results.jsonl", listing["digest"])
    if not arguments.report_only:
        # Limits the memory of mutants that allocate without end, and writes no core files. Memory that is only reserved,
        # such as guarded memory, does not count.
        resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, 4 << 30))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        run(arguments, mutants, results)
    return survey.report(listing, mutants, results.known.values(), arguments.survivors, arguments.page,
                         killed_at_least=0, claimed_at_most=1, head=[
                             "Written by `tests/mutants/run_oracle.py --page`. One change to the oracle's sources each;",
                             "killed: one of the tests of tests/reference fails. What killed each is in `killed.md`."])


if __name__ == "__main__":
    sys.exit(main())
