"""Makes mutants of sample.cc and oracle_sample.cc, and checks the output of each.

    generate_test.py SCRATCH clang++-19 FLAGS...
"""
import os
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True

import survey
from mutated import ROOMS
from generate import collect, drop_what_does_not_compile, number
from oracle_rules import OracleWalk
from schemata import File
from walk import Walk

RIGHT = "0 34 8 2 -2 0 11 0 6"
# name of a mutant -> its output. No other mutants may exist.
EXPECTED = {
    "less: a < b => a <= b": "1 34 8 2 -2 0 11 0 6",
    "less: a < b => a >= b": "1 34 8 2 -2 0 11 0 6",
    "weights: 10 * a + b => 10 * a - b": "0 26 8 2 -2 0 11 0 6",
    "weights: 10 * a + b => 10 * a": "0 30 8 2 -2 0 11 0 6",
    "weights: 10 * a + b => 10 * a + b + 1": "0 35 8 2 -2 0 11 0 6",
    "weights: 10 * a => 10 / a": "0 7 8 2 -2 0 11 0 6",
    "weights: 10 * a => 10": "0 14 8 2 -2 0 11 0 6",
    "weights: 10 => 11": "0 37 8 2 -2 0 11 0 6",
    "swapped: weights(a, b) => weights(a, b) + 1": "0 35 8 2 -2 0 11 0 6",
    "swapped: a, b => b, a": "0 43 8 2 -2 0 11 0 6",
    "length: r.end => r.end + 1": "0 34 9 2 -2 0 11 0 6",
    "length: r.end => r.begin": "0 34 5 2 -2 0 11 0 6",
    "largest: fmax(a, b) => min(a, b)": "0 34 8 1 -2 0 11 0 6",
    "largest: fmax(a, b) => a": "0 34 8 1 -2 0 11 0 6",
    "largest: fmax(a, b) => b": RIGHT,
    "opposite: -x => x": "0 34 8 2 2 0 11 0 6",
    "both: a => true && ..": RIGHT,
    "both: b => .. && true": "0 34 8 2 -2 1 11 0 6",
    "waits: cp_wait<1>() => dropped": "0 34 8 2 -2 0 1 0 6",
    "waits: cp_wait<1>() => cp_wait<2>()": "0 34 8 2 -2 0 21 0 6",
    "notes: note() => dropped": "0 34 8 2 -2 0 10 0 6",
    "guarded: y > 3 => true": "0 34 8 2 -2 0 11 3 6",
    "guarded: y > 3 => false": RIGHT,
    "guarded: y > 3 => y >= 3": "0 34 8 2 -2 0 11 3 6",
    "guarded: 3 => 4": RIGHT,
    "guarded: x => x + 1": "0 34 8 2 -2 0 11 3 6",
    "guarded: x => x + 1 #2": RIGHT,
    "guarded: 0 => 1": "0 34 8 2 -2 0 11 1 6",
    "shrunk: x => x + 1": "0 34 8 2 -2 0 11 0 9",
    "shrunk: y *= 3 => dropped": "0 34 8 2 -2 0 11 0 2",
    "shrunk: y *= 3 => y = 3": "0 34 8 2 -2 0 11 0 3",
    "shrunk: 3 => 4": "0 34 8 2 -2 0 11 0 8",
    "shrunk: y => y + 1": "0 34 8 2 -2 0 11 0 7",
}
ORACLE_RIGHT = "10 3 4"
OF_ORACLE = {
    "Half: x / 2 => x": "10 3 8",
    "Half: 2 => 3": "10 3 2.66667",
    "line: a * x + b => a * x - b": "2 3 4",
    "line: a * x + b => a * x": "6 3 4",
    "line: a * x => a": "6 3 4",
    "line: a * x => x": "7 3 4",
    "size: std::abs(x) => x": "10 -3 4",
}
# Functions at the beginning of the sample make mutants as well. They are not tested here.
HELPERS = ("note", "fmax", "cp_wait")


def problems_of(name, rules, right, expected, scratch, compiler):
    """(problems of the mutants of one sample, the number of mutants)."""
    source = pathlib.Path(__file__).resolve().parent / name
    files = {str(source): File(name, source.read_text())}
    collect(files, [*compiler, "-x", "c++"], [source], "sample", rules)
    number(files)
    flags = [*compiler, "-w", "-include", str(source.parent / "mutant.h"), str(scratch / name)]
    drop_what_does_not_compile(files, scratch, lambda unit: subprocess.run(
        [*flags, "-fsyntax-only", "-fno-caret-diagnostics"], capture_output=True, text=True), [name])
    program = (scratch / name).with_suffix("")
    subprocess.run([*flags, "-O1", "-o", str(program)], check=True)

    def output(mutant):
        return subprocess.run([str(program)], env={**os.environ, "ATTNFUZZ_MUTANT": str(mutant)}, text=True,
                              capture_output=True).stdout.strip()

    problems = [] if output(0) == right else [f"without a mutant: {output(0)}"]
    mutants = {m.key().split(" ", 1)[1]: m for f in files.values() for s in f.sites if not s.dropped
               for m in s.mutants if m.function not in HELPERS}
    problems += [f"is not there: {name}" for name in expected if name not in mutants]
    for name, mutant in mutants.items():
        if name not in expected:
            problems.append(f"should not be there: {name}")
        elif output(mutant.id) != expected[name]:
            problems.append(f"{name}: {output(mutant.id)}, not {expected[name]}")
        if "// a constant" in source.read_text().splitlines()[mutant.line - 1]:
            problems.append(f"a constant is changed: {name}")
    return problems, len(mutants)


def main():
    scratch, compiler = pathlib.Path(sys.argv[1]), sys.argv[2:]
    scratch.mkdir(parents=True, exist_ok=True)
    problems, count = problems_of("sample.cc", Walk, RIGHT, EXPECTED, scratch, compiler)
    of_oracle, more = problems_of("oracle_sample.cc", OracleWalk, ORACLE_RIGHT, OF_ORACLE, scratch, compiler)
    problems += of_oracle + survey_problems() + absent_sources()
    print("\n".join(problems) or f"{count + more} mutants, each as it must be")
    return 1 if problems else 0


def absent_sources():
    """The sources of mutated.py that do not exist. Those of kernels may lie in a folder with small instantiations."""
    source = pathlib.Path(__file__).resolve().parents[2]
    kernels = [source / "kernels", *source.glob("tests/bugs/*/kernels"), source / "tests/mutants/shapes/kernels"]
    folders = {"kernels": kernels, "judge": [source / "properties"]}
    return [f"mutated.py: {room} has no {file}" for room, (changed, units, _) in ROOMS.items() for file in changed + units
            if not any((folder / file).exists() for folder in folders.get(room, [source / "reference"]))]


def survey_problems():
    """Checks the page of a fictitious run: two killed, one claimed, one unanswered, one wrong claim."""
    mutants = [dict(id=i, key=f"f.h f: {i} => x", file="f.h", line=i, function="f", operator="constant")
               for i in range(1, 5)]
    answers = [dict(id=1, end="killed", asked=100, lane="plain", kind="wrong", property="reference", cases=3),
               dict(id=2, end="killed", asked=100, lane="plain", kind="wrong", property="reference", cases=5),
               dict(id=2, end="survived", asked=50), dict(id=3, end="survived", asked=100), dict(id=4, end="undecided")]
    killers, lived = survey.verdicts(mutants, answers)
    claims = {"f.h f: 3 => x": "only the speed", "f.h f: 2 => x": "wrong"}
    text = survey.page({"generated": 5, "do_not_compile": 1}, mutants, killers, lived, claims)
    wanted = ["- killed: 2 of 4 (50.0 %)", "- claimed equivalent: 1 of 4 (25.0 %)", "- unanswered: 1",
              "only the speed", "**unanswered**"]
    problems = [f"the page lacks: {w}" for w in wanted if w not in text]
    killed = survey.killed_page(mutants, killers)
    if "f.h f: 1 => x" in text or "`f.h f: 1 => x` | constant | 1 | plain | reference" not in killed:
        problems.append("what killed a mutant belongs on the other page")
    return problems


if __name__ == "__main__":
    sys.exit(main())
