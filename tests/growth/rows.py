#!/usr/bin/env python3
"""Shows that the table of tensors may have 64 rows, on a scratch copy of the sources.

  tests/growth/rows.py SOURCE SCRATCH COMPILER EIGEN FEATURES

Adds outputs of the forward pass until there are 64 tensors: their members in the contract, their names and their rows
in the table. Then a program, built from the folders case, data and memory of properties/, lays a case out. Each tensor
must have a slot of its own, and a write beside the last one must be noticed; the arena must fit its fence. FEATURES is
the list of features that the build has made (properties/case/features.cc).
"""
import pathlib
import re
import shutil
import subprocess
import sys

from tensor import edit

ROWS = 64

PROGRAM = r"""
#include <cstdio>
#include "properties/memory/layout.h"
using namespace attnfuzz;

int failed = 0;
void expect(bool holds, const char* what) {
  if (holds) return;
  std::printf("it does not hold that %s\n", what);
  failed = 1;
}

int main() {
  static_assert(kTensorCount == ROWS);
  constexpr TensorId kLast = TensorId::kMoreLAST;
  Case c;
  c.problem.seq_q = 5;
  c.problem.dim_v = 3;
  Arena arena;
  const Arena fenced(arena.fd(), /*fenced=*/true);
  expect(fenced.slot_end(kTensors[ROWS - 1].id) == fenced.base() + Arena::kBytes - Arena::kPage, "a fenced arena has all slots");
  LaidOut laid(c, arena);
  auto* rows = static_cast<uint16_t*>(laid.tensors().moreLAST.data);
  expect(arena.slot(kLast) < reinterpret_cast<std::byte*>(rows) && reinterpret_cast<std::byte*>(rows) < arena.slot_end(kLast),
         "the last tensor lies in its slot");
  laid.before_call({});
  expect(!laid.check_memory(false), "a call that writes nothing is in order");
  rows[15] ^= 1;
  const auto fault = laid.check_memory(false);
  expect(fault && fault->tensor == kLast && fault->kind == MemoryFault::Kind::kRedzone, "its redzone is watched");
  return failed;
}
"""


def main():
    source, scratch = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    compiler, eigen, features = sys.argv[3:]
    shutil.rmtree(scratch, ignore_errors=True)
    for room in ("base", "kernels", "reference", "properties"):
        shutil.copytree(source / room, scratch / room)
    table = (scratch / "reference/call/tensor_spec.h").read_text()
    there = len(re.findall(r"^    \{k\w+, \"", table, re.M))
    more = range(ROWS - there)
    print(f"{there} rows, and {len(more)} more", flush=True)
    edit(scratch, "kernels/attention.h", "} attn_tensors;", "".join(f"  attn_tensor more{n};\n" for n in more))
    edit(scratch, "reference/call/tensor_spec.h", " };\n// clang-format on\n\n// The size of a dimension",
           "".join(f", kMore{n}" for n in more))
    edit(scratch, "reference/call/tensor_spec.h", "};\n// clang-format on\n}  // namespace tensor_table",
           "".join(f'    {{kMore{n}, "more{n}", {{kBatch, kHeadsQ, kSeqQ, kDimV}}, k16, kOut, ATTN_FIELD(T, more{n}), kMoved}},\n'
                   for n in more))
    (scratch / "main.cc").write_text(PROGRAM.replace("ROWS", str(ROWS)).replace("LAST", str(more[-1])))
    units = [unit for room in ("case", "data", "memory") for unit in sorted((scratch / "properties" / room).rglob("*.cc"))]
    units += [pathlib.Path(features)] + sorted((scratch / "base").glob("*.cc"))
    # -O1 as in tensor.py.
    command = [compiler, "-std=c++20", "-O1", "-w", "-I", scratch, "-isystem", eigen, scratch / "main.cc", *units,
               scratch / "reference/numbers/formats.cc", scratch / "reference/call/known_features.cc", "-lxxhash", "-o",
               scratch / "grown"]
    subprocess.run(command, check=True)
    sys.exit(subprocess.run([scratch / "grown"]).returncode)


main()
