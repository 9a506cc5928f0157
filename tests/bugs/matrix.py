#!/usr/bin/env python3
"""Checks every known bug from many seeds, and writes the results as a table.

    tests/bugs/matrix.py --attnfuzz build/full/bin/attnfuzz --libraries build/full/bugs --out DIR \\
                         --matrix tests/bugs/MATRIX.md

For each patch and each seed it runs `attnfuzz check LIBRARY --build BUILD --cases 1000
--jobs 1 --seed SEED` with all properties, and with the build and the options that the
head of the patch names. When a run ends, its line of JSON is added to
DIR/results.jsonl. If a matrix was interrupted, another call with the same programs
continues it. MATRIX.json, beside the table, has the row of each bug and the call that
measured it. With --matrix, a call for some bugs replaces their rows and keeps the others. Needs only Python 3.9, so it also runs on a machine that the programs and
libraries were copied to.

Exit status: 0 if every criterion holds, 1 if one does not, 2 for bad use.
"""
import argparse
import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import queue
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

CASES = 1000
FIND_SECONDS, REDUCE_SECONDS = 10, 30
MEDIAN_CASES = 100
AGREEING, SHARE_AGREEING = 0.95, 0.95  # this share of a bug's seeds agrees, for this share of the bugs
GUESSED, MISLED = 0.85, 0.04           # first guesses of the class of fault: the least share true, the most wrong
FIELDS = ["Kernel", "Build", "Options", "Sequence", "Class", "Fault", "Origin", "Symptom", "Found by", "Smallest"]


def bad_use(message):
    print(f"matrix.py: {message}", file=sys.stderr)
    sys.exit(2)


def head_of(patch):
    """The fields of a patch's head, by the rules of head.cmake, which has better messages."""
    head, last = {"Build": "plain", "Options": "", "Sequence": ""}, None
    for line in patch.read_text().split("\n"):
        if not line or line.startswith("--- "):
            break
        field, colon, value = line.partition(":")
        if line[0] in " \t" and last:
            head[last] += " " + line.strip()
        elif colon and field in FIELDS:
            head[field], last = value.strip(), field
        else:
            bad_use(f"{patch}: not a head's line: {line}")
    missing = [field for field in FIELDS if not head.get(field) and field not in ("Options", "Sequence")]
    if missing:
        bad_use(f"{patch}: the head has no '{missing[0]}: ...'")
    return head


def held_out(name):
    """Is this bug in the half that nobody looked at while writing the rules of fault_rules.cc (README.md)?"""
    return hashlib.sha256(name.encode()).digest()[0] >= 128


def seeds_of(text):
    seeds = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if not match:
            bad_use(f"--seeds {text}: write 1-20, or 1,2,7")
        seeds += range(int(match[1]), int(match[2] or match[1]) + 1)
    return seeds


def library_of(folder, name, build_kind):
    return folder / f"libattn_bug-{name}_cpu{'' if build_kind in ('plain', 'schedules') else '-' + build_kind}.so"


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def run_one(bug, seed, options):
    """One check of one bug from one seed, as a record."""
    with tempfile.TemporaryDirectory() as scratch:
        report = pathlib.Path(scratch, "check.json")
        command = [options.attnfuzz, "check", bug["library"], "--build", bug["lane"], "--cases", CASES, "--jobs", 1,
                   "--seed", seed, "--json", report, "--out", scratch] + bug["options"] + options.check_options
        start = time.monotonic()
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, errors="replace")
        if options.keep and report.exists():
            for file in pathlib.Path(scratch).glob("*.attn.json"):
                shutil.copyfile(file, options.keep / f"{bug['name']}-{seed}.attn.json")
        record = {"bug": bug["name"], "seed": seed, "build": bug["build"], "status": done.returncode,
                  "wall": time.monotonic() - start}
        # One line for each kernel of the library. If several kernels have the bug, the first one counts.
        checks = [json.loads(line) for line in report.read_text().splitlines()] if report.exists() else []
        check = next((c for c in checks if c.get("failure")), checks[0] if checks else {})
        failure, reduction = check.get("failure"), check.get("reduction")
        if done.returncode not in (0, 1) or not check:
            record["error"] = f"exit status {done.returncode}: {(done.stderr or done.stdout)[-2000:].strip()}"
        if failure:
            # `cases` is the number of cases that were run until the bug was found: index 0 took one.
            record.update(cases=failure["index"] + 1, property=failure["property"], kind=failure["kind"],
                          find=record["wall"] - (reduction["seconds"] if reduction else 0))
        if reduction:
            record.update(reduce=reduction["seconds"], evaluations=reduction["evaluations"],
                          complete=reduction["complete"], minimal=reduction["minimal"],
                          reduced_by=reduction["property"], reduced_kind=reduction["kind"],
                          guess=(reduction["guess"] or {}).get("class"))
        return record


def run_all(bugs, options):
    """Every record, those of an earlier call included."""
    results = options.out / "results.jsonl"
    records = {}
    if results.exists():
        for line in results.read_text().splitlines():
            try:
                record = json.loads(line)
                records[record["bug"], record["seed"], record["build"]] = record
            except (ValueError, KeyError):
                pass  # the line that was being written when it was interrupted
    wanted = [(bug, seed) for bug in bugs for seed in options.seeds]
    missing = [(bug, seed) for bug, seed in wanted if (bug["name"], seed, bug["build"]) not in records]
    if options.report_only and missing:
        bad_use(f"{len(missing)} runs of these programs are not in {results}")
    print(f"{len(bugs)} bugs, {len(options.seeds)} seeds: {len(wanted) - len(missing)} runs are there, "
          f"{len(missing)} to do, {options.jobs} at a time", flush=True)
    done = 0
    cores = queue.SimpleQueue()
    for i in range(options.jobs):
        cores.put(sorted(os.sched_getaffinity(0))[i % len(os.sched_getaffinity(0))])

    def stay_on_a_core():
        # The affinity holds for this thread and its children, so a run and its worker share one core.
        os.sched_setaffinity(0, {cores.get()})

    with results.open("a") as out, concurrent.futures.ThreadPoolExecutor(options.jobs,
                                                                         initializer=stay_on_a_core) as pool:
        out.write("\n" if results.stat().st_size else "")  # ends a half-written line, if there is one
        for future in concurrent.futures.as_completed([pool.submit(run_one, *run, options) for run in missing]):
            record = future.result()
            if "error" in record:
                # The error comes from the call or the machine and says nothing about the bug.
                pool.shutdown(wait=False, cancel_futures=True)
                bad_use(f"{record['bug']}, seed {record['seed']}: {record['error']}\nOther results are kept")
            done += 1
            records[record["bug"], record["seed"], record["build"]] = record
            out.write(json.dumps(record) + "\n")
            out.flush()
            print(f"[{done}/{len(missing)}] {record['bug']} seed {record['seed']}: "
                  + (f"case {record['cases']} by {record['property']}, {record['find']:.1f} s; "
                     f"{record.get('minimal', 'not reduced')}, {record.get('reduce', 0):.1f} s"
                     if "cases" in record else "NOT FOUND"), flush=True)
    return [[records[bug["name"], seed, bug["build"]] for seed in options.seeds] for bug in bugs]


def summarise(bug, runs):
    """One row of the table."""
    found = [run for run in runs if "cases" in run]
    minima = collections.Counter(run["minimal"] for run in found if "minimal" in run)
    guesses = collections.Counter(run["guess"] for run in found if "guess" in run)
    guess = guesses.most_common(1)[0][0] if guesses else None
    minimal, agreeing = minima.most_common(1)[0] if minima else (None, 0)
    # A bug that fails in two kinds has a smallest case for each kind, because the reducer keeps the kind.
    expected = bug["head"]["Smallest"].split(" or ")
    if minimal in expected:
        agreeing = sum(minima[case] for case in expected)
    return {
        "name": bug["name"], "lane": bug["lane"], "kernel": bug["head"]["Kernel"], "class": bug["head"]["Class"],
        "call": 0,
        "runs": len(runs), "found": len(found), "minimal": minimal, "agreeing": agreeing, "minima": minima,
        "expected": expected,
        "fault": bug["head"]["Fault"], "guess": guess,
        "guessed": "silent" if guess is None else "true" if guess == bug["head"]["Fault"] else "wrong",
        "properties": collections.Counter(run["property"] for run in found),
        # A seed that does not find the bug counts as CASES + 1 cases.
        "median": statistics.median(run.get("cases", CASES + 1) for run in runs),
        "worst": max(run.get("cases", CASES + 1) for run in runs),
        "find": max((run["find"] for run in found), default=None),
        "reduce": max((run["reduce"] for run in found if "reduce" in run), default=None),
        "evaluations": statistics.median([run["evaluations"] for run in found if "evaluations" in run] or [0]),
        "cut": sum(1 for run in found if not run.get("complete", False)),
    }


def judge(rows, times):
    """(criterion, measured, whether it holds, or None if it is not judged) for each criterion."""
    count = len(rows)
    late = [row for row in rows if row["find"] is None or row["find"] > FIND_SECONDS]
    slow = [row for row in rows if row["reduce"] is None or row["reduce"] > REDUCE_SECONDS or row["cut"]]
    unfound = [row["name"] for row in rows if row["found"] < row["runs"]]
    agreed = [row for row in rows if row["agreeing"] >= AGREEING * row["runs"]]
    named = [row for row in rows if row["expected"] != ["?"]]  # the other heads say that no two seeds agree
    other = [row["name"] for row in named if row["minimal"] not in row["expected"]]
    median = statistics.median(row["median"] for row in rows)
    fault = {word: [row["name"] for row in rows if row["guessed"] == word] for word in ("true", "wrong", "silent")}
    halves = "; ".join(f"{label} {sum(held_out(name) == out for name in fault['true'])} true, "
                       f"{sum(held_out(name) == out for name in fault['wrong'])} wrong of "
                       f"{sum(held_out(row['name']) == out for row in rows)}"
                       for label, out in (("seen first", False), ("seen later", True)))
    longest = lambda key: max((row[key] for row in rows if row[key] is not None), default=0)
    name = lambda some: ", ".join(some) if some else ""
    return [
        ("every bug is found from every seed",
         f"{count - len(unfound)} of {count}" + (f"; not: {name(unfound)}" if unfound else ""), not unfound),
        (f"median of the medians of cases < {MEDIAN_CASES}", f"{median:g}", median < MEDIAN_CASES),
        (f"each is found within {FIND_SECONDS} s on one core",
         f"longest {longest('find'):.1f} s" + (f"; not: {name(row['name'] for row in late)}" if late else ""),
         not late if times else None),
        (f"each is reduced within {REDUCE_SECONDS} s on one core",
         f"longest {longest('reduce'):.1f} s" + (f"; not: {name(row['name'] for row in slow)}" if slow else ""),
         not slow if times else None),
        (f"the same minimal case from {AGREEING:.0%} of the seeds, for {SHARE_AGREEING:.0%} of the bugs",
         f"{len(agreed)} of {count} bugs ({len(agreed) / count:.1%})", len(agreed) >= SHARE_AGREEING * count),
        ("the minimal case of most seeds is in the patch's head",
         f"{len(named) - len(other)} of {len(named)}" + (f"; not: {name(other)}" if other else "")
         + (f"; {count - len(named)} heads name none" if len(named) < count else ""), not other),
        (f"the first guess of the class of fault is true for {GUESSED:.0%} of the bugs",
         f"{len(fault['true'])} of {count} ({halves})", len(fault["true"]) >= GUESSED * count),
        (f"and wrong for {MISLED:.0%} at most",
         f"{len(fault['wrong'])} of {count}" + (f": {name(fault['wrong'])}" if fault["wrong"] else ""),
         len(fault["wrong"]) <= MISLED * count),
    ]


def known_bugs(folder):
    """The patches below the folder, by name."""
    patches = {}
    for patch in sorted(folder.rglob("*.patch"), key=lambda patch: patch.name):
        if patch.stem in patches:
            bad_use(f"{patch} and {patches[patch.stem]} have one name")
        patches[patch.stem] = patch
    return patches


def add_to(path, rows, call, patches, adds):
    """Writes the rows of this call to the file, and returns all its calls and rows. With `adds`, other rows of the file
    stay, except those whose patch is gone or has another smallest case or class of fault than when it was measured."""
    old = json.loads(path.read_text()) if adds and path.exists() else {"calls": [], "rows": []}
    measured = {row["name"] for row in rows}
    kept = []
    for row in old["rows"]:
        if row["name"] in measured or row["name"] not in patches:
            continue
        head = head_of(patches[row["name"]])
        if (head["Smallest"].split(" or "), head["Fault"]) == (row["expected"], row["fault"]):
            kept.append(row)
        else:
            print(f"{row['name']}: its head has changed since it was measured; its row is dropped")
    used = sorted({row["call"] for row in kept})
    kept = [row | {"call": used.index(row["call"])} for row in kept]
    rows = sorted(kept + [row | {"call": len(used)} for row in rows], key=lambda row: row["name"])
    calls = [old["calls"][n] for n in used] + [call]
    lines = ",\n".join(json.dumps(row) for row in rows)
    path.write_text(f'{{"calls": {json.dumps(calls, indent=1)},\n"rows": [\n{lines}\n]}}\n')
    return calls, rows


def table(calls, rows, verdicts, links):
    def cell(text):
        return str(text).replace("|", "\\|")

    def seconds(value):
        return "-" if value is None else f"{value:.1f}"

    words = {True: "holds", False: "**FAILS**", None: "not judged"}
    text = "# Known bugs: what finds each, how fast, and what is left of it\n\n"
    text += "Written by `tests/bugs/matrix.py`; see [README.md](README.md). Do not edit.\n\n"
    text += f"{len(rows)} bugs. All properties on, at most {CASES} cases a seed, nothing set for a bug. Measured by:\n\n"
    for n, call in enumerate(calls):
        count = sum(row["call"] == n for row in rows)
        text += f"    {call['command']}\n\n{count} bugs, seeds {call['seeds']}, {call['jobs']} at a time, {call['machine']}.\n\n"
    text += "| criterion | measured | |\n|-|-|-|\n"
    for criterion, measured, holds in verdicts:
        text += f"| {cell(criterion)} | {cell(measured)} | {words[holds]} |\n"
    text += "\n`found by`: the properties that found the bug first, each with its number of seeds, most frequent\n"
    text += "first. `cases`: cases until the bug was found, median and worst over the seeds. `find`, `reduce`: wall\n"
    text += "clock in seconds, the longest of any seed. `eval.`: evaluations of the reduction, median. `same`: seeds\n"
    text += "that end in the minimal case shown, or in another that the patch's head names. `fault`: the class in the\n"
    text += "patch's head. If the first guess of most seeds is another class, it follows as **not CLASS**; `silent`:\n"
    text += "no guess.\n"
    text += "`*` marks a bug of the half that nobody looked at while writing the rules of the guess.\n\n"
    text += "| bug | kernel | build | found by | cases | find | reduce | eval. | same | minimal case | fault |\n"
    text += "|-|-|-|-|-:|-:|-:|-:|-:|-|-|\n"
    for row in rows:
        by = ", ".join(f"{name} {n}" for name, n in most_common(row["properties"])) or "**NOT FOUND**"
        text += (f"| [{row['name']}]({links[row['name']]}) | {row['kernel']} | {row['lane']} | {by} "
                 f"| {row['median']:g}, {row['worst']} | {seconds(row['find'])} | {seconds(row['reduce'])} "
                 f"| {row['evaluations']:g} | {row['agreeing']}/{row['runs']} | {cell(row['minimal'] or '-')} "
                 f"| {row['fault']}{'*' if held_out(row['name']) else ''}"
                 f"{'' if row['guessed'] == 'true' else ', silent' if row['guess'] is None else ', **not ' + row['guess'] + '**'} |\n")
    stray = [row for row in rows if len(row["minima"]) > 1]
    if stray:
        text += "\nOther minimal cases:\n\n"
        for row in stray:
            for minimal, n in most_common(row["minima"])[1:]:
                text += f"- {row['name']}, {n}: `{minimal}`\n"
    classes = collections.Counter(row["class"] for row in rows)
    text += "\n| class | bugs |\n|-|-:|\n"
    for name, n in sorted(classes.items()):
        text += f"| {cell(name)} | {n} |\n"
    return text


def most_common(counts):
    return collections.Counter(counts).most_common()


def machine():
    model = ""
    try:
        match = re.search(r"model name\s*:\s*(.*)", pathlib.Path("/proc/cpuinfo").read_text())
        model = match[1] if match else ""
    except OSError:
        pass
    return f"{os.cpu_count()} cores" + (f" of {model}" if model else "")


def arguments():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description="Checks every known bug from many seeds and writes MATRIX.md.")
    parser.add_argument("--attnfuzz", type=pathlib.Path, required=True, help="the command, its workers beside it")
    parser.add_argument("--libraries", type=pathlib.Path, required=True, help="folder of libattn_bug-NAME_cpu*.so")
    parser.add_argument("--patches", type=pathlib.Path, default=here / "known", help="folder with NAME.patch in its folders (default: known/ beside this script)")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for results.jsonl")
    parser.add_argument("--matrix", type=pathlib.Path, help="the table to write (default: MATRIX.md in --out)")
    parser.add_argument("--bug", nargs="+", default=[], metavar="NAME", help="only these")
    parser.add_argument("--build", nargs="+", default=[], help="only bugs of these builds")
    parser.add_argument("--seeds", default="1-20", help="1-20, or 1,2,7 (default: 1-20)")
    parser.add_argument("--quick", action="store_true", help="seeds 1-3, and times are not judged")
    parser.add_argument("--no-times", action="store_true", help="report times, do not judge them")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, each on one core (default: 1)")
    parser.add_argument("--check-options", default="", metavar="'...'", help="passed on to attnfuzz check")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the reproducers, NAME-SEED.attn.json")
    parser.add_argument("--report-only", action="store_true", help="run nothing: write the table from results.jsonl")
    options = parser.parse_args()
    if options.quick:
        options.seeds = "1-3"
    options.seed_text, options.seeds = options.seeds, seeds_of(options.seeds)
    options.times = not (options.quick or options.no_times)
    options.check_options = shlex.split(options.check_options)
    if options.jobs < 1:
        bad_use("--jobs must be 1 or more")
    if not os.access(options.attnfuzz, os.X_OK) or options.attnfuzz.is_dir():
        bad_use(f"{options.attnfuzz} is no program: build it, or say where it is with --attnfuzz")
    options.attnfuzz = options.attnfuzz.resolve()
    options.adds = True
    if not options.matrix:
        options.matrix, options.adds = options.out / "MATRIX.md", False
    # The table shows the command with relative paths, because absolute paths hold only on this machine.
    words = [os.path.relpath(word) if os.path.isabs(word) else word for word in sys.argv[1:]]
    options.shown = "tests/bugs/matrix.py " + " ".join(shlex.quote(word) for word in words)
    options.machine = machine()
    return options


def bugs_of(options):
    bugs, missing, of_sequences = [], [], []
    patches = options.known = known_bugs(options.patches)
    for name in options.bug:
        if name not in patches:
            bad_use(f"--bug {name}: there is no {name}.patch in {options.patches}")
    for name, patch in patches.items():
        head = head_of(patch)
        if options.bug and name not in options.bug or options.build and head["Build"] not in options.build:
            continue
        if head["Sequence"]:
            of_sequences.append(name)
            continue
        library = library_of(options.libraries, name, head["Build"])
        if not library.exists():
            missing.append(str(library))
            continue
        # The digests of the programs are part of a result: other programs do not reuse it.
        bugs.append({"name": name, "head": head, "lane": head["Build"], "options": head["Options"].split(),
                     "library": library.resolve(), "build": digest(library)})
    if of_sequences:
        print(f"left to bug_seeds.sh, which asks attnfuzz sequence: {', '.join(of_sequences)}")
    if missing:
        bad_use(f"not built: {', '.join(missing[:5])}{' ...' if len(missing) > 5 else ''} ({len(missing)} in all); "
                "build the target 'bugs', or name others with --bug")
    if not bugs:
        bad_use("there is no bug to check")
    programs = b"".join(digest(program).encode() for program in sorted(options.attnfuzz.parent.glob("attnfuzz*")))
    for bug in bugs:
        bug["build"] = hashlib.sha256(programs + bug["build"].encode()).hexdigest()[:16]
    return bugs


def main():
    options = arguments()
    bugs = bugs_of(options)
    options.out.mkdir(parents=True, exist_ok=True)
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    runs = run_all(bugs, options)
    rows = [summarise(bug, of) for bug, of in zip(bugs, runs)]
    call = {"command": options.shown, "seeds": options.seed_text, "jobs": options.jobs, "machine": options.machine}
    calls, rows = add_to(options.matrix.with_suffix(".json"), rows, call, options.known, options.adds)
    verdicts = judge(rows, options.times)
    links = {name: os.path.relpath(patch, options.matrix.resolve().parent) for name, patch in options.known.items()}
    options.matrix.write_text(table(calls, rows, verdicts, links))
    print()
    for criterion, measured, holds in verdicts:
        print(f"{'not judged' if holds is None else 'holds' if holds else 'FAILS':10}  {criterion}: {measured}")
    print(f"\n{options.matrix}")
    return 1 if any(holds is False for _, _, holds in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
