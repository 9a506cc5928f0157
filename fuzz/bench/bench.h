// Measures how fast cases are judged, where the time goes, and how slow the executor is.
//
//   std::vector<BenchTarget> targets = {{fa1.get(), executor()}, {splitk.get(), executor()}};
//   for (const BenchRow& row : bench_cases(targets, bench_shapes(), 20)) ...
//   for (const RatioRow& row : executor_ratio(*fa1, bench_shapes(), 20)) ...
//
// Figures are medians over the repeats. In each repeat every target has its turn, so that a slow moment of
// the machine affects all of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fuzz/batch/batch_judge.h"
#include "properties/case/case.h"
#include "properties/judge/target/target.h"
#include "reference/model/calibration.h"

namespace attnfuzz {

// One problem: Gaussian Q, K and V, self-attention, scale 1/sqrt(dim).
struct BenchShape {
  int64_t batch, heads, seq, dim;
  bool causal;
  int32_t dtype;
};
// (1,1,65,64) and (2,4,257,128), full and causal, f16 and bf16.
std::vector<BenchShape> bench_shapes();
std::string describe(const BenchShape& shape);  // "1x1x65x64 causal f16"
Case bench_case(const BenchShape& shape);

// The small problems of a plain fuzzing loop, like those of fuzz/bench/plain_loop.py: batch 1..3, heads
// 1..4, 1..300 positions, dimension 32, 64 or 128.
BenchShape drawn_shape(uint64_t index);

struct BenchTarget {
  Target* target;
  Calibration calibration;
};

struct BenchRow {
  std::string kernel, shape;
  int32_t backend = ATTN_CPU;
  int repeats = 0;
  double cases_per_s = 0;  // of one process
  // Seconds per case.
  double total_s = 0, lay_out_s = 0, kernel_s = 0, round_trip_s = 0, oracle_s = 0, judge_s = 0;
};

// Measures judge() with the property `reference`. Throws std::runtime_error if a case does not pass,
// because the time of a wrong result means nothing.
std::vector<BenchRow> bench_cases(const std::vector<BenchTarget>& targets,
                                  const std::vector<BenchShape>& shapes, int repeats);
// Drawn shapes one after another, for `seconds` on each target. Figures are means.
std::vector<BenchRow> bench_drawn(const std::vector<BenchTarget>& targets, double seconds);

// The same problems, many at once on the device (fuzz/batch): `batch` of one shape, or of drawn shapes,
// each with its own data. `open` and `threads`: see BatchJudge.
struct BatchRow {
  std::string shape;
  uint64_t cases = 0;
  double seconds = 0;
  BatchUse use;
};
std::vector<BatchRow> bench_batches(BatchTarget& batch_target, const BenchTarget& target,
                                    const std::vector<BenchShape>& shapes, uint32_t batch, int repeats,
                                    double drawn_seconds, const BatchJudge::Open& open, int threads);

struct RatioRow {
  std::string shape;
  double kernel_s = 0, plain_s = 0, plain_inline_s = 0;  // medians; the yardstick with either exp2
  double ratio() const { return kernel_s / plain_s; }
};

// Compares a kernel's time on the executor with plain_attention()'s on the same bytes, in turn. `executor`
// must be a kernel on the CPU; its 64x64 variant is used.
std::vector<RatioRow> executor_ratio(Target& executor, const std::vector<BenchShape>& shapes, int repeats);

}  // namespace attnfuzz
