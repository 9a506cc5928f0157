#!/usr/bin/env python3
"""Shows which files must be touched to add a tensor, on a scratch copy of the sources.

  tests/growth/tensor.py SOURCE SCRATCH [COMPILER EIGEN FEATURES]

The edits below, and no others, add `earlier`, an input as large as O: its place
in the contract, its row in the table, its fill and that fill's name in files. Then
a program made of the rooms case, data and memory lays a case out. `earlier` must be
filled, guarded, hashed and in reach of a worker, and a write to it must be noticed. The draw and the properties must
move it, spread it and plant values in it. The batch on a GPU must have a place for it. A target in Python must get it.
FEATURES is the list of features that the build has made (properties/case/features.cc).
Without COMPILER the script only tries the edits. The exit status is 1 if they take more
files than MOST, or if something does not work.
"""
import pathlib
import shutil
import subprocess
import sys

MOST = 4  # and a row of docs/case-format.md
DOCS = "docs/case-format.md"

# (file, text that the file holds once, text to insert before it)
EDITS = [
    ("kernels/attention.h", "} attn_tensors;", "  attn_tensor earlier; /* (batch, heads_q, seq_q, dim_v): one more input */\n"),
    ("reference/call/tensor_spec.h", "kWorkspace, kO1,", "kEarlier, "),
    ("reference/call/tensor_spec.h", "    {kWorkspace,",
     '    {kEarlier, "earlier", {kBatch, kHeadsQ, kSeqQ, kDimV}, k16, kIn, ATTN_FIELD(T, earlier),\n'
     "     {.moved = true, .spread = true, .planted = true, .finite = true}, nullptr},\n"),
    ("properties/case/case.h", "  Fill o1, o2, lse1, lse2;", "  Fill earlier;\n"),
    ("properties/case/case.h", "    default:\n      return nullptr;", "    case TensorId::kEarlier:\n      return &Case::earlier;\n"),
    (DOCS, "| `planted` | array of", "| `earlier` | [a fill](#a-fill) | all defaults | values of the tensor |\n"),
    (DOCS, "`bias` or `scores` (the codec", "`earlier`, "),
    ("properties/case/codec/codec_fields.h", '    field("env", &Case::env),', '    field("earlier", &Case::earlier),\n'),
]

PROGRAM = r"""
#include <cstdio>
#include <cstring>
#include <variant>
#include "fuzz/batch/device/call.h"
#include "fuzz/host/wire.h"
#include "properties/case/codec/codec.h"
#include "properties/memory/layout.h"
using namespace attnfuzz;

int failed = 0;
void expect(bool holds, const char* what) {
  if (holds) return;
  std::printf("it does not hold that %s\n", what);
  failed = 1;
}

int main() {
  const auto has = [](const auto& ids) { return std::ranges::find(ids, TensorId::kEarlier) != ids.end(); };
  expect(has(kMovedTensors) && has(kSpreadTensors) && has(kPlantedTensors) && has(kFiniteTensors),
         "whatever varies tensors varies it");
  expect(has(batch::kIds), "a batch on a GPU has a place for it");
  Case c;
  c.problem.seq_q = 5;
  c.problem.dim_v = 3;
  c.layout[static_cast<size_t>(TensorId::kEarlier)].row_gap = 2;
  c.earlier.kind = FillKind::kGaussian;
  const auto read = decode(encode(c));
  expect(std::holds_alternative<Case>(read) && std::get<Case>(read) == c, "a file keeps its fill and layout");
  Arena arena;
  LaidOut laid(c, arena);
  auto* rows = static_cast<uint16_t*>(laid.tensors().earlier.data);
  expect(rows && laid.tensors().earlier.stride[2] == 5, "the kernel is given it as laid out");
  expect(laid.digests()[static_cast<size_t>(TensorId::kEarlier)] != 0, "a reproducer knows its bytes");
  wire::Request request = {};
  request.tensors[static_cast<size_t>(TensorId::kEarlier)].offset =
      arena.offset(view_of(laid.tensors(), spec_of(TensorId::kEarlier)).data);
  expect(request.tensors[static_cast<size_t>(TensorId::kEarlier)].offset < Arena::kBytes, "a worker reaches it");
  bool reached = false;
  for (const MemoryRange& range : laid.ranges()) reached |= range.tensor == TensorId::kEarlier;
  expect(reached, "a device gets its bytes");
  laid.before_call({});
  rows[3] ^= 1;
  auto fault = laid.check_memory(false);
  expect(fault && fault->tensor == TensorId::kEarlier && fault->kind == MemoryFault::Kind::kGap, "its gaps are watched");
  rows[3] ^= 1;
  rows[5] ^= 1;
  fault = laid.check_memory(false);
  expect(fault && fault->kind == MemoryFault::Kind::kInputChanged && fault->index[2] == 1, "it may not be written");
  return failed;
}
"""


def edit(root, name, before, text):
    path = root / name
    source = path.read_text()
    if source.count(before) != 1:
        sys.exit(f"{name} holds {before!r} {source.count(before)} times, must once: this example is out of date")
    path.write_text(source.replace(before, text + before))


def main():
    source, scratch = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    shutil.rmtree(scratch, ignore_errors=True)
    for room in ("base", "kernels", "reference", "properties", "fuzz/host", "fuzz/batch", "python", "docs", "tests/docs"):
        shutil.copytree(source / room, scratch / room)
    for name, before, text in EDITS:
        edit(scratch, name, before, text)
    touched = sorted({name for name, _, _ in EDITS} - {DOCS})
    print(f"an input tensor: {len(touched)} files and a row of {DOCS}: {', '.join(touched)}", flush=True)
    subprocess.run([sys.executable, scratch / "tests/docs/case_format.py", scratch], check=True)
    if len(sys.argv) == 3:
        sys.exit(0 if len(touched) <= MOST else 1)
    compiler = sys.argv[3]
    (scratch / "main.cc").write_text(PROGRAM)
    units = [unit for room in ("case", "data", "memory") for unit in sorted((scratch / "properties" / room).rglob("*.cc"))]
    units += [pathlib.Path(sys.argv[5])] + sorted((scratch / "base").glob("*.cc"))
    # Optimised, as every build of these rooms is: clang 19 gives lambdas that are template arguments (feature.h) the
    # same symbol in all files. If they are not inlined, the linker keeps only one file's.
    command = [compiler, "-std=c++20", "-O1", "-w", "-I", scratch, "-isystem", sys.argv[4], scratch / "main.cc", *units,
               scratch / "reference/numbers/formats.cc", scratch / "reference/call/known_features.cc", "-lxxhash", "-o", scratch / "grown"]
    subprocess.run(command, check=True)
    works = subprocess.run([scratch / "grown"]).returncode == 0
    subprocess.run([compiler, "-std=c++20", "-w", "-I", scratch, scratch / "python/native/print_contract.cc", "-o",
                    scratch / "print_contract"], check=True)
    subprocess.run([scratch / "print_contract", scratch / "python/contract.py.in", scratch / "python/attnfuzz/contract.py"],
                   check=True)
    given = "from attnfuzz import contract, operations; assert 'earlier' in operations.INPUTS and contract.Tensors.earlier"
    subprocess.run([sys.executable, "-c", given], check=True, env={"PYTHONPATH": str(scratch / "python")})
    sys.exit(0 if works and len(touched) <= MOST else 1)


if __name__ == "__main__":
    main()
