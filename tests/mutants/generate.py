"""Makes the copy of a folder that holds every mutant, and the list of mutants.

    generate.py --folder kernels --overlay shapes/kernels [--overlay ...] --out BUILD -- clang++-19 FLAGS...
    generate.py --folder reference --out BUILD -- clang++-19 FLAGS...
    generate.py --folder properties --room judge --out BUILD -- clang++-19 FLAGS...

BUILD/kernels (BUILD/reference, BUILD/properties) is then compiled like any kernel (the oracle, the judge), with
-include kernels/mutant.h. BUILD/mutants.json describes the mutant of each number in ATTNFUZZ_MUTANT. If a change
does not compile, its place is left unchanged, and counted.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

sys.dont_write_bytecode = True

from clang_tree import fields_by_id, parse
from mutated import ROOMS, kernels_of
from oracle_rules import OracleWalk
from schemata import File, site_at
from walk import Walk

ERROR = re.compile(r"^(.*?):(\d+):(\d+): (fatal error|error|note|warning): (.*)$")


def write_if_changed(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def collect(files, command, units, namespace, rules=Walk):
    """Sites of all `files` ({path: File}), from the syntax trees of `units`."""
    for unit in units:
        nodes = parse(command, str(unit), namespace)
        walk = rules(files, fields_by_id(nodes))
        before = {path: list(file.sites) for path, file in files.items()}
        for node in nodes:
            walk.visit(node)
        # Sites that an earlier unit found are already in the list.
        for path, file in files.items():
            known = {(s.begin, s.end, s.rank) for s in before[path]}
            file.sites = before[path] + [s for s in file.sites[len(before[path]):]
                                         if (s.begin, s.end, s.rank) not in known]


def number(files):
    """Numbers mutants in the order of the text, and counts the occurrences of mutants with the same text."""
    last, seen = 0, {}
    for file in files.values():
        for site in sorted(file.sites, key=lambda s: (s.begin, -s.end, -s.rank)):
            for mutant in site.mutants:
                last += 1
                mutant.id = last
                name = (mutant.file, mutant.function, mutant.original, mutant.mutated)
                seen[name] = mutant.occurrence = seen.get(name, 0) + 1
    return last


def drop_what_does_not_compile(files, out, compile_unit, units):
    """Writes the files and drops each site at which the compiler reports an error, until everything compiles."""
    dropped, left = 0, units
    for _ in range(60):
        spans = {}
        for path, file in files.items():
            text, marks = file.finished()
            target = out / file.name
            write_if_changed(target, text)
            spans[str(target.resolve())] = marks
        bad, unknown = set(), []
        # A unit that compiles also compiles with fewer changes.
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            failed = [(unit, done) for unit, done in zip(left, pool.map(compile_unit, left)) if done.returncode]
        left = [unit for unit, _ in failed]
        for unit, done in failed:
            group = []
            for line in [*done.stderr.splitlines(), None]:
                found = ERROR.match(line) if line is not None else None
                if line is None or (found and "error" in found[4]):
                    if group:
                        sites = [site_at(spans.get(str(pathlib.Path(g[1]).resolve()), []), int(g[2]), int(g[3]))
                                 for g in group]
                        site = next((s for s in sites if s), None)
                        if site:
                            bad.add(id(site))
                            site.dropped = True
                        elif group[0][5] != "too many errors emitted, stopping now":
                            unknown.append(group[0][0])
                    group = []
                if found:
                    group.append(found)
            if not bad and not unknown:
                sys.exit(f"{unit} does not compile, and no place is named:\n{done.stderr[:2000]}")
        if not bad and not unknown:
            return dropped
        if not bad:
            sys.exit("errors outside of every mutant:\n" + "\n".join(unknown[:10]))
        dropped += len(bad)
    sys.exit("the copy does not compile after 60 rounds")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="kernels, reference or properties")
    parser.add_argument("--room", help="which sources of it (mutated.py); default: the folder's name")
    parser.add_argument("--overlay", type=pathlib.Path, action="append", default=[],
                        help="files to lay over the copy, other tile shapes and more kernels; the first that has one")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("compiler", nargs="+")
    arguments = parser.parse_args()
    here = pathlib.Path(__file__).parent
    room = arguments.folder.resolve()
    tree, root = arguments.out / room.name, room.parent
    changed, units, namespace = ROOMS[arguments.room or room.name]
    sources = {}  # name below the room -> the file that is copied
    for folder in [*arguments.overlay, room]:
        folder = folder.resolve()
        for path in folder.rglob("*"):
            if path.suffix in (".h", ".cu", ".cuh", ".cc") and not {"executor", "cuda_source"} & set(path.relative_to(folder).parts):
                sources.setdefault(str(path.relative_to(folder)), path)
    for name, source in sources.items():
        if name not in changed:
            write_if_changed(tree / name, source.read_text())
    write_if_changed(tree / "mutant.h", (here / "mutant.h").read_text())

    overlay_roots = [f"-I{overlay.resolve().parent}" for overlay in arguments.overlay]
    command = [*arguments.compiler, "-x", "c++", *overlay_roots, f"-I{root}"]
    files = {str(room / name): File(name, (room / name).read_text()) for name in changed}
    collect(files, command, [sources[u] for u in units], namespace, Walk if room.name == "kernels" else OracleWalk)
    generated = number(files)

    includes = [f"-I{arguments.out.resolve()}", f"-I{root}", "-include", f"{room.name}/mutant.h"]
    def compile_unit(unit):
        return subprocess.run([*arguments.compiler, "-x", "c++", *includes, "-fsyntax-only", "-w",
                               "-Wno-c++11-narrowing", "-ferror-limit=0", "-fno-caret-diagnostics",
                               "-fno-color-diagnostics", str(tree / unit)], capture_output=True, text=True)
    dropped = drop_what_does_not_compile(files, tree, compile_unit, units)

    mutants = [dict(id=m.id, key=m.key(), file=m.file, line=m.line, function=m.function, operator=m.operator,
                    original=m.original, mutated=m.mutated,
                    kernels=kernels_of(m.file))
               for file in files.values() for s in file.sites if not s.dropped for m in s.mutants]
    mutants.sort(key=lambda m: m["id"])
    digest = hashlib.sha256()
    for path in sorted(tree.rglob("*.*")):
        digest.update(f"{path.relative_to(tree)}\n".encode() + path.read_bytes())
    if len({m["key"] for m in mutants}) != len(mutants):
        sys.exit("two mutants have one name")
    write_if_changed(arguments.out / "mutants.json", json.dumps(
        {"digest": digest.hexdigest()[:16], "generated": generated, "do_not_compile": generated - len(mutants),
         "mutants": mutants}, indent=1) + "\n")
    print(f"{len(mutants)} mutants compile; {generated - len(mutants)} more, at {dropped} places, do not")


if __name__ == "__main__":
    main()
