#!/usr/bin/env python3
"""Shows which files must be touched to add an output or an operation, on a scratch copy of the sources.

  tests/growth/operation.py SOURCE SCRATCH [COMPILER]

OUTPUT adds `row_max` to the forward pass: the largest score of a row, for problems with a bit of their own.
OPERATION adds `count`, with a bit, an output of integers and a property: how many keys each query sees.
Then the rooms are built with CMake, and operation_shows.cc, with a kernel of its own, follows both through
oracle, judge, reducer, explanation, reproducer and replay; an exporter and Python refuse them by name.
Without COMPILER the script only tries the edits. The exit status is 1 if they take more files than allowed, or if
something does not work.
"""
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent

# (file, text that the file holds once, text to insert before it). If the second is None, the third is a new file.
OUTPUT_MOST = 3
OUTPUT = [
    ("kernels/attention.h", "/* The problem that a caller asks for. Sizes are counts",
     "#define ATTN_FEATURE_ROW_MAX ((uint64_t)1 << 40) /* attn_tensors.row_max is written */\n"),
    ("kernels/attention.h", "} attn_tensors;", "  attn_tensor row_max; /* (batch, heads_q, seq_q, 1), fp32 */\n"),
    ("reference/call/tensor_spec.h", "kWorkspace, kO1,", "kRowMax, "),
    ("reference/call/tensor_spec.h", "    {kWorkspace,",
     '    {kRowMax, "row_max", {kBatch, kHeadsQ, kSeqQ, kOne}, k32, kOut, ATTN_FIELD(T, row_max), kFixed, nullptr,\n'
     "     ATTN_FEATURE_ROW_MAX},\n"),
    ("properties/operations/forward/operation.cc", "#include <limits>\n",
     '#include "reference/numbers/formats.h"\n#include "reference/rows/visibility.h"\n#include "reference/semantics.h"\n'),
    ("properties/operations/forward/operation.cc", "}  // namespace\n\nconst Operation forward", r"""
double score_of(const attn_problem& p, const attn_tensors& t, const Row& at, int64_t j) {
  const auto n = static_cast<size_t>(p.dim_qk);
  std::vector<double> q(n), k(n);
  const int64_t g = at.h / (p.heads_q / p.heads_kv);
  decode_strided(p.dtype, t.q.data, offset_of(t.q, at.b, at.h, at.i, 0), t.q.stride[3], p.dim_qk, q.data());
  decode_strided(p.dtype, t.k.data, offset_of(t.k, at.b, g, j, 0), t.k.stride[3], p.dim_qk, k.data());
  double product = 0;
  for (size_t d = 0; d < n; ++d) product += q[d] * k[d];
  const bool biased = p.bias_dtype != ATTN_NONE;
  return score(p, product, biased ? decode(p.bias_dtype, t.bias.data, offset_of(t.bias, at.b, at.h, at.i, j)) : 0);
}

Reference with_row_max(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
                       const Calibration& calibration, RowSample sample, bool exact) {
  attn_problem plain = problem;
  plain.features &= ~ATTN_FEATURE_ROW_MAX;
  Reference due = evaluate(plain, host, plan, calibration, sample, exact);
  Expected& most = due.outputs.emplace_back();
  most.tensor = TensorId::kRowMax;
  most.columns = 1;
  if (plain.features == problem.features) return due;
  std::vector<int64_t> keys;
  for (int64_t row = 0; row < due.rows; ++row) {
    const Row at = RowSpace(problem).at(row);
    row_keys(problem, host, at.b, at.h, at.i, 0, problem.seq_k, &keys);
    double largest = -std::numeric_limits<double>::infinity();
    for (const int64_t j : keys) largest = std::max(largest, score_of(problem, host, at, j));
    most.value.push_back(keys.empty() ? 0 : largest);
    most.bound.push_back(1e-3 * std::abs(most.value.back()));
    most.rule.push_back(static_cast<uint8_t>(Due::kNumber));
  }
  return due;
}

"""),
    ("properties/operations/forward/operation.cc", "};\n\n\ndouble score_of", "    {.tensor = TensorId::kRowMax, .optional = true},\n"),
]
OUTPUT_REPLACED = [
    ("properties/operations/forward/operation.cc", ".evaluate = evaluate,", ".evaluate = with_row_max,"),
    ("properties/operations/forward/operation.cc", ".known = kOracleKnows",
     '.known = {"the oracle", kOracleKnows.bits | ATTN_FEATURE_ROW_MAX}'),
]

OPERATION_MOST = 8
OPERATION = [
    ("kernels/attention.h", "/* The problem that a caller asks for. Sizes are counts",
     "#define ATTN_FEATURE_COUNT ((uint64_t)1 << 41) /* an operation: attn_tensors.count is written */\n"),
    ("kernels/attention.h", "} attn_tensors;", "  attn_tensor count; /* (batch, heads_q, seq_q, 1), int64 */\n"),
    ("reference/call/tensor_spec.h", "kWorkspace, kO1,", "kCount, "),
    ("reference/call/tensor_spec.h", "    {kWorkspace,",
     '    {kCount, "count", {kBatch, kHeadsQ, kSeqQ, kOne}, Element::kInt64, kOut, ATTN_FIELD(T, count), kFixed, nullptr,\n'
     "     ATTN_FEATURE_COUNT, ATTN_FEATURE_COUNT},\n"),
    ("properties/operations/CMakeLists.txt", "\nset(ATTNFUZZ_OPERATION_DECLARATIONS)", "list(APPEND ATTNFUZZ_OPERATIONS count)\n"),
    ("properties/operations/forward/relations/CMakeLists.txt", "\nset_property(GLOBAL PROPERTY ATTNFUZZ_PROPERTIES",
     "list(APPEND ATTNFUZZ_NAMED_PROPERTIES keys_counted)\n"),
    ("properties/operations/count/operation.cc", None, r"""// How many keys each query sees.
#include "properties/case/case.h"
#include "properties/operations/operation.h"
#include "reference/rows/visibility.h"

namespace attnfuzz::operations {
namespace {

constexpr TensorId kInputsOfCount[] = {TensorId::kBias, TensorId::kMask, TensorId::kKeyLengths};
constexpr Output kOutputsOfCount[] = {{.tensor = TensorId::kCount, .kind = OutputKind::kExact}};

Reference evaluate_count(const attn_problem& problem, const attn_tensors& host, const attn_plan&, const Calibration&,
                         RowSample, bool) {
  const RowSpace rows(problem);
  Reference due;
  due.rows = due.sampled = rows.count();
  Expected& count = due.outputs.emplace_back();
  count.tensor = TensorId::kCount;
  count.columns = 1;
  std::vector<int64_t> keys;
  for (int64_t row = 0; row < due.rows; ++row) {
    const Row at = rows.at(row);
    row_keys(problem, host, at.b, at.h, at.i, 0, problem.seq_k, &keys);
    count.integer.push_back(static_cast<int64_t>(keys.size()));
    count.rule.push_back(static_cast<uint8_t>(Due::kNumber));
    due.state.push_back(keys.empty() ? RowState::kDead : RowState::kBounded);
    due.dead += keys.empty();
  }
  return due;
}

}  // namespace

extern const Operation count = {.name = "count",
                                .feature = ATTN_FEATURE_COUNT,
                                .inputs = kInputsOfCount,
                                .outputs = kOutputsOfCount,
                                .evaluate = evaluate_count,
                                .known = {"the count", ATTN_FEATURE_F32 | ATTN_FEATURE_COUNT},
                                .shape = [](Case& c, uint64_t) { c.problem.features |= ATTN_FEATURE_COUNT; }};

}  // namespace attnfuzz::operations
"""),
    ("properties/operations/count/relations/keys_counted.cc", None, r"""// A query sees no more keys than there are.
#include "properties/judge/judge.h"
#include "properties/judge/property.h"
#include "properties/judge/trial.h"

namespace attnfuzz::operations {
extern const Operation count;
}

namespace attnfuzz::relations {
namespace {

bool adapt_keys_counted(Case&, const KernelInfo&, std::string*) { return true; }
void check_keys_counted(Trial& trial) { trial.run(trial.base()); }

}  // namespace

extern const Property keys_counted = {"keys_counted", "the count of keys is exact", adapt_keys_counted, check_keys_counted,
                                      /*needs_stages=*/false, /*asks_target=*/false, /*compares=*/false,
                                      /*operation=*/&operations::count};

}  // namespace attnfuzz::relations
"""),
]
OPERATION_REPLACED = [
    ("reference/call/tensor_spec.h", '{"nsa_score", ATTN_FEATURE_NSA_SCORE}}',
     '{"nsa_score", ATTN_FEATURE_NSA_SCORE}, {"count", ATTN_FEATURE_COUNT}}'),
    ("reference/call/tensor_spec.h", "kAttend = kOfForward | kBackward;",
     "kAttend = kOfForward | kBackward | ATTN_FEATURE_COUNT;"),
]


def edit(root, name, there, text, replaces=False):
    path = root / name
    if there is None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return
    source = path.read_text()
    if source.count(there) != 1:
        sys.exit(f"{name} holds {there!r} {source.count(there)} times, must once: this example is out of date")
    path.write_text(source.replace(there, text if replaces else text + there))


def grow(root, what, inserted, replaced, most):
    for name, there, text in inserted:
        edit(root, name, there, text)
    for name, there, text in replaced:
        edit(root, name, there, text, replaces=True)
    touched = sorted({name for name, _, _ in inserted + replaced})
    print(f"{what}: {len(touched)} files: {', '.join(touched)}", flush=True)
    if len(touched) > most:
        sys.exit(f"more than {most} files")


def main():
    source, scratch = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    tree, build = scratch / "tree", scratch / "build"
    shutil.rmtree(scratch, ignore_errors=True)
    listed = subprocess.run(["git", "-C", source, "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True,
                            check=True).stdout.split("\n")
    for name in listed:
        if name and (source / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, tree / name)
    grow(tree, "an output", OUTPUT, OUTPUT_REPLACED, OUTPUT_MOST)
    grow(tree, "an operation", OPERATION, OPERATION_REPLACED, OPERATION_MOST)
    arrows = subprocess.run([sys.executable, tree / "tests/arrows.py"], capture_output=True, text=True)
    if "properties/operations" in arrows.stdout:
        sys.exit(arrows.stdout)
    if len(sys.argv) == 3:
        return
    # The program is added to the tests of the judge, which link all that it needs.
    shutil.copy(HERE / "operation_shows.cc", tree / "tests/properties/operation_shows.cc")
    with open(tree / "tests/properties/CMakeLists.txt", "a") as tests:
        tests.write("add_executable(operation_shows operation_shows.cc ${PROJECT_SOURCE_DIR}/python/native/oracle.cc)\n"
                    "target_link_libraries(operation_shows PRIVATE attn_fakes attn_relations attn_explain attn_export "
                    "attn_draw)\n")
    configure = ["cmake", "-S", tree, "-B", build, "-G", "Ninja", f"-DCMAKE_CXX_COMPILER={sys.argv[3]}",
                 "-DATTNFUZZ_CUDA=OFF"]
    for command in (configure, ["cmake", "--build", build, "--target", "operation_shows"]):
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode:
            sys.exit(run.stdout[-4000:] + run.stderr[-4000:])
    program = next(path for path in build.rglob("operation_shows") if path.is_file())
    sys.exit(subprocess.run([program]).returncode)


main()
