#!/usr/bin/env python3
"""Checks the order of the rooms: a file includes only rooms that come before its own in ROOMS.

    tests/arrows.py                      checks the includes between folders
    tests/arrows.py --headers BUILD_DIR  checks also that each header compiles alone (minutes)

A leaf is an optional room. Only its own files and the files that LEAVES names for it include it. No folder lies on a
circle of includes. Exit status 1: an include is wrong, or a folder is not in ROOMS.
"""
import collections
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOP = ("base", "kernels", "reference", "properties", "fuzz", "cli", "python", "cmake")

# The lowest room comes first. A folder that is not named here belongs to its nearest parent that is.
ROOMS = """
cmake
base
kernels
kernels/contract
kernels/executor
kernels/executor/arithmetic/device
kernels/executor/arithmetic
kernels/executor/threads
kernels/executor/hopper
kernels/primitives
kernels/forward
kernels/merge
kernels/fa1_backward
kernels/fa1_backward_fused
kernels/cache
kernels/nsa
kernels/nsa_select
kernels/nsa_score
kernels/nsa_compress
kernels/nsa_combine
kernels/nsa_backward
kernels/fa1/ampere
kernels/fa1/hopper
kernels/fa1
kernels/splitk/hopper
kernels/splitk
kernels/cuda_source/cuda
kernels/cuda_source/cuda/ptx
kernels/cuda_source
kernels/cuda_source/adapter
kernels/cuda_source/translate
reference/numbers
reference/model
reference/call
reference/rows
reference/warnings
reference
reference/gradients
reference/nsa
base/identity
properties/case
properties/case/places
properties/case/codec
properties/case/features
properties/axes
properties/data
properties/memory
properties/operations
properties/operations/forward
properties/judge/target
properties/judge/shape
properties/judge
properties/nsa
properties/train_step
properties/sequences/session
properties/sequences/run
properties/sequences/reduce
properties/sequences/draw
reference/emulator
reference/cuda
reference/calibrate
properties/operations/forward/relations
properties/draw
properties/reduce
properties/explain
properties/export
fuzz/batch
fuzz/host
fuzz/sandbox
fuzz/worker/memory
fuzz/worker
fuzz/bench
fuzz/check/takes
fuzz/check/counts
fuzz/check
fuzz/check/failure
fuzz/campaign/store
fuzz/campaign/store/jobs
fuzz/campaign/triage
fuzz/report
fuzz/campaign/run
fuzz/slurm
fuzz/targets
cli/terminal
cli/options
cli/entry
cli/open
cli/print
cli/check
cli/complete
cli/commands
cli
python/native
""".split()

# Each optional room, with the files that may include it besides its own.
LEAVES = {
    "kernels/cuda_source": ["kernels/adapter.h", "cli/entry/entry.cc"],
    "reference/calibrate": [],
    "reference/emulator": ["properties/operations/forward/relations/calls/bit_exact.cc"],
    "properties/export": ["cli/commands/export.cc"],
    "properties/sequences": ["cli/commands/sequence.cc", "cli/open/case_file.cc", "fuzz/campaign/run/explore_sequences.cc",
                             "fuzz/campaign/run/explore_sequences.h", "fuzz/campaign/triage/recheck.cc",
                             "fuzz/campaign/triage/sequence_crash.cc", "fuzz/campaign/triage/sequence_crash.h",
                             "fuzz/campaign/triage/files/sequence_files.cc", "fuzz/campaign/triage/files/sequence_files.h",
                             "fuzz/campaign/triage/sequences_explained.cc", "fuzz/campaign/triage/sequences_explained.h",
                             "fuzz/report/read.cc", "fuzz/targets/calls.cc", "fuzz/targets/files.cc"],
    "properties/train_step": ["cli/commands/train_step.cc", "cli/print/trained.h"],
    "properties/nsa": ["cli/commands/nsa.cc", "cli/commands/train_step.cc", "properties/train_step/sparse.h"],
    "fuzz/sandbox": ["fuzz/worker/hosted.cc", "fuzz/worker/work.h"],
    "fuzz/slurm": ["cli/commands/merge.cc"],
    "fuzz/bench": ["cli/commands/bench.cc"],
    "fuzz/targets": [],
    "cli/complete": [],
}
# A door is a header for outsiders. To include it counts as to include its room.
DOORS = {"kernels/adapter.h": "kernels/cuda_source/adapter", "reference/semantics.h": "reference/numbers"}


def room_of(path):
    """The nearest folder of ROOMS that holds the file, or None."""
    if path in DOORS:
        return DOORS[path]
    # Every operation has the same folders as the forward pass.
    path = re.sub(r"^properties/operations/[^/]+/", "properties/operations/forward/", path)
    folder = path.rpartition("/")[0]
    while folder and folder not in ROOMS:
        folder = folder.rpartition("/")[0]
    return folder or None


def sources():
    """The product's C++ and CUDA files, without the stand-ins for CUDA's own headers."""
    for path in sorted(file.relative_to(ROOT).as_posix() for top in TOP for file in (ROOT / top).rglob("*")):
        if re.search(r"\.(h|c|cc|cu|cuh|cc\.in)$", path) and "/include/" not in path and "/every_path/" not in path:
            yield path


def includes(path):
    """The files of this repository that the file includes."""
    for name in re.findall(r'^\s*#\s*include "([^"]+)"', (ROOT / path).read_text(), re.M):
        if (ROOT / name).is_file():
            yield name


def circle(edges):
    """The folders of one circle of includes, or None."""
    state = {}

    def visit(room, trail):
        state[room] = "open"
        for other in sorted(edges[room]):
            if state.get(other) == "open":
                return [*trail[trail.index(other):], other] if other in trail else [room, other]
            if other not in state and (found := visit(other, [*trail, other])):
                return found
        state[room] = "done"
        return None

    for room in sorted(edges):
        if room not in state and (found := visit(room, [room])):
            return found
    return None


def wrong_arrows():
    """One sentence for each include that runs the wrong way."""
    edges = collections.defaultdict(set)
    for path in sources():
        room = room_of(path)
        if room is None:
            yield f"{path}: its folder is not in ROOMS of tests/arrows.py"
            continue
        for included in includes(path):
            other = room_of(included)
            if other is None or other == room:
                continue
            edges[room].add(other)
            if ROOMS.index(other) > ROOMS.index(room):
                yield f"{path} includes {included}: {other} comes after {room} in ROOMS of tests/arrows.py"
            for leaf, doors in LEAVES.items():
                inside = (room + "/").startswith(leaf + "/")
                if (other + "/").startswith(leaf + "/") and not inside and path not in doors:
                    yield f"{path} includes {included}: {leaf} is a leaf, and its LEAVES entry does not name {path}"
    if found := circle(edges):
        yield "a circle of folders: " + " -> ".join(found)


def lonely_headers(build):
    """One sentence for each header that does not compile alone. The flags are those of a source in the same folder."""
    commands = json.loads((pathlib.Path(build) / "compile_commands.json").read_text())
    flags = {}
    for command in commands:
        if command["file"].endswith(".cc"):
            words = [w for w in command["command"].split() if re.match(r"-(I|D|std|isystem|march|f)", w)]
            flags.setdefault(room_of(str(pathlib.Path(command["file"]).relative_to(ROOT)))
                             if command["file"].startswith(str(ROOT)) else None, words)
    for path in sources():
        if not path.endswith(".h"):
            continue
        words = flags.get(room_of(path), next(iter(flags.values())))
        run = subprocess.run(["clang++-19", "-std=c++20", "-fsyntax-only", "-x", "c++", f"-I{ROOT}", *words, path],
                             cwd=ROOT, capture_output=True, text=True)
        if run.returncode:
            yield f"{path} does not compile alone: " + (run.stderr.splitlines() or ["no message"])[0]


def main():
    faults = list(wrong_arrows())
    if "--headers" in sys.argv:
        faults += lonely_headers(sys.argv[sys.argv.index("--headers") + 1])
    for fault in faults:
        print(fault)
    print(f"{len(list(sources()))} files, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
