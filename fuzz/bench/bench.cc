#include "fuzz/bench/bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <stdexcept>

#include "base/random.h"
#include "fuzz/bench/plain_attention.h"
#include "fuzz/bench/timed_target.h"
#include "properties/case/words.h"
#include "properties/judge/trial.h"

namespace attnfuzz {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

constexpr double BenchRow::* kStages[] = {&BenchRow::total_s,      &BenchRow::lay_out_s, &BenchRow::kernel_s,
                                          &BenchRow::round_trip_s, &BenchRow::oracle_s,  &BenchRow::judge_s};

// Judges one case, and times each part.
BenchRow judge_once(const BenchTarget& target, const Case& c) {
  TimedTarget timed(*target.target);
  const Clock::time_point start = Clock::now();
  const Verdict verdict = judge(c, *find_property("reference"), timed, target.calibration);
  BenchRow row;
  row.total_s = since(start);
  if (verdict.outcome != Outcome::kPass) {
    throw std::runtime_error(target.target->info().name +
                             " does not pass a benchmark's case: " + verdict.message);
  }
  row.lay_out_s = verdict.lay_out_s;
  row.kernel_s = timed.times().kernel_s;
  row.round_trip_s = timed.times().round_trip_s;
  row.oracle_s = verdict.oracle_s;
  row.judge_s = verdict.judge_s;
  return row;
}

BenchRow named_row(const BenchTarget& target, std::string shape) {
  BenchRow row;
  row.kernel = target.target->info().name;
  row.backend = target.target->info().backend;
  row.shape = std::move(shape);
  return row;
}

// The kernel and the yardstick round O separately. If the two differ by more than this, they did
// not do the same work.
constexpr float kSameWork = 0.05f;

RatioRow compare(Target& executor, const BenchShape& shape, int repeats) {
  const Case c = bench_case(shape);
  Execution e(c, executor);
  if (const std::string why = e.why_not(); !why.empty())
    throw std::runtime_error(describe(shape) + " cannot be run: " + why);
  LaidOut& laid = e.laid;
  if (!plain_attention_does(laid.problem(), laid.tensors())) {
    throw std::runtime_error("the yardstick does not do " + describe(shape));
  }
  const auto yardstick = [&](Exp2 exp2) {
    laid.before_call(c.calls[0]);
    const Clock::time_point start = Clock::now();
    plain_attention(laid.problem(), laid.tensors(), exp2);
    return since(start);
  };
  std::vector<double> kernel, plain, plain_inline;
  std::vector<float> of_kernel, of_plain;
  for (int n = 0; n <= repeats; ++n) {  // the first run warms up
    const RunReply reply = e.run(c.calls[0]);
    if (reply.status != ATTN_OK) throw std::runtime_error("the kernel did not run " + describe(shape));
    of_kernel = laid.read(e.operation.main());
    const double with_inline = yardstick(Exp2::kInline), with_library = yardstick(Exp2::kLibrary);
    of_plain = laid.read(e.operation.main());
    if (n == 0) continue;
    kernel.push_back(reply.seconds);
    plain.push_back(with_library);
    plain_inline.push_back(with_inline);
  }
  for (size_t i = 0; i < of_kernel.size(); ++i) {
    if (!(std::fabs(of_kernel[i] - of_plain[i]) <= kSameWork)) {
      throw std::runtime_error("kernel and yardstick disagree on " + describe(shape));
    }
  }
  return {describe(shape), median(kernel), median(plain), median(plain_inline)};
}

}  // namespace

std::vector<BenchShape> bench_shapes() {
  std::vector<BenchShape> shapes;
  for (const int32_t dtype : {ATTN_F16, ATTN_BF16}) {
    for (const bool causal : {false, true}) {
      shapes.push_back({1, 1, 65, 64, causal, dtype});
      shapes.push_back({2, 4, 257, 128, causal, dtype});
    }
  }
  return shapes;
}

std::string describe(const BenchShape& shape) {
  return std::to_string(shape.batch) + "x" + std::to_string(shape.heads) + "x" + std::to_string(shape.seq) +
         "x" + std::to_string(shape.dim) + (shape.causal ? " causal" : " full") +
         (shape.dtype == ATTN_F16 ? " f16" : " bf16");
}

Case bench_case(const BenchShape& shape) {
  Case c;
  Problem& p = c.problem;
  p.dtype = shape.dtype;
  p.batch = shape.batch;
  p.heads_q = p.heads_kv = shape.heads;
  p.seq_q = p.seq_k = shape.seq;
  p.dim_qk = p.dim_v = shape.dim;
  p.scale = 1 / std::sqrt(static_cast<float>(shape.dim));
  p.causal = shape.causal;
  c.q.kind = c.k.kind = c.v.kind = FillKind::kGaussian;
  c.q.seed = 1, c.k.seed = 2, c.v.seed = 3;
  return c;
}

BenchShape drawn_shape(uint64_t index) {
  SplitMix64 random{index * 0x2545F4914F6CDD1Du};
  BenchShape shape = {};
  shape.batch = 1 + random.below(3);
  shape.heads = 1 + random.below(4);
  shape.seq = 1 + random.below(300);
  shape.dim = 16 << (1 + random.below(3));
  shape.causal = random.below(2) == 0;
  shape.dtype = random.below(2) == 0 ? ATTN_F16 : ATTN_BF16;
  return shape;
}

std::vector<BenchRow> bench_cases(const std::vector<BenchTarget>& targets,
                                  const std::vector<BenchShape>& shapes, int repeats) {
  std::vector<BenchRow> rows;
  for (const BenchShape& shape : shapes) {
    const Case c = bench_case(shape);
    std::vector<std::vector<BenchRow>> samples(targets.size());
    for (int n = 0; n <= repeats; ++n) {  // the first run warms up
      for (size_t i = 0; i < targets.size(); ++i) {
        const BenchRow sample = judge_once(targets[i], c);
        if (n > 0) samples[i].push_back(sample);
      }
    }
    for (size_t i = 0; i < targets.size(); ++i) {
      BenchRow row = named_row(targets[i], describe(shape));
      row.repeats = repeats;
      for (const auto stage : kStages) {
        std::vector<double> values;
        for (const BenchRow& sample : samples[i]) values.push_back(sample.*stage);
        row.*stage = median(values);
      }
      row.cases_per_s = 1 / row.total_s;
      rows.push_back(row);
    }
  }
  return rows;
}

std::vector<BenchRow> bench_drawn(const std::vector<BenchTarget>& targets, double seconds) {
  std::vector<BenchRow> rows;
  for (const BenchTarget& target : targets) {
    rows.push_back(named_row(target, "drawn, up to 3x4x300x128"));
    judge_once(target, bench_case(drawn_shape(0)));
  }
  // Every target judges each case in turn, until all have had their time.
  const double all = seconds * static_cast<double>(targets.size());
  const Clock::time_point start = Clock::now();
  for (uint64_t index = 1; since(start) < all; ++index) {
    const Case c = bench_case(drawn_shape(index));
    for (size_t i = 0; i < targets.size(); ++i) {
      const BenchRow sample = judge_once(targets[i], c);
      for (const auto stage : kStages) rows[i].*stage += sample.*stage;
      ++rows[i].repeats;
    }
  }
  for (BenchRow& row : rows) {
    for (const auto stage : kStages) row.*stage /= row.repeats;
    row.cases_per_s = 1 / row.total_s;
  }
  return rows;
}

std::vector<BatchRow> bench_batches(BatchTarget& batch_target, const BenchTarget& target,
                                    const std::vector<BenchShape>& shapes, uint32_t batch, int repeats,
                                    double drawn_seconds, const BatchJudge::Open& open, int threads) {
  std::vector<BatchRow> rows;
  uint64_t seed = 0;
  const auto passes = [&](const Verdict& v) {
    if (v.outcome != Outcome::kPass)
      throw std::runtime_error(target.target->info().name + " does not pass a benchmark's case: " + v.message);
  };
  const auto all_held = [&](BatchJudge& batch_judge, bool all) {
    for (const Deferred& deferred : batch_judge.deferred(all)) passes(deferred.verdict);
  };
  const auto run = [&](const std::string& shape, auto next, auto more) {
    BatchRow row;
    row.shape = shape;
    BatchJudge batch_judge(batch_target, *target.target, target.calibration, 1, open, threads);
    std::vector<BatchCase> asked;
    const Property* reference = find_property("reference");
    // The first batch warms up; it contains the first case that is judged both ways.
    BatchUse before;
    Clock::time_point start = Clock::now();
    for (bool warm = false; !warm || more(row, since(start)); warm = true) {
      asked.clear();
      for (uint32_t n = 0; n < batch; ++n) {
        Case& c = asked.emplace_back(bench_case(next()), reference).c;
        c.q.seed = ++seed, c.k.seed = ++seed, c.v.seed = ++seed;
      }
      for (const Verdict& v : batch_judge.judge(asked)) passes(v);
      if (warm) {
        row.cases += batch;
        continue;
      }
      all_held(batch_judge, true);
      before = batch_judge.use();
      start = Clock::now();
    }
    all_held(batch_judge, true);
    row.seconds = since(start);
    row.use = batch_judge.use();
    row.use.take(before);
    rows.push_back(row);
  };
  for (const BenchShape& shape : shapes)
    run(
        describe(shape), [&] { return shape; },
        [&](const BatchRow& row, double) { return row.cases < static_cast<uint64_t>(batch) * repeats; });
  uint64_t index = 0;
  if (drawn_seconds > 0)
    run(
        "drawn, up to 3x4x300x128", [&] { return drawn_shape(++index); },
        [&](const BatchRow&, double seconds) { return seconds < drawn_seconds; });
  return rows;
}

std::vector<RatioRow> executor_ratio(Target& executor, const std::vector<BenchShape>& shapes, int repeats) {
  std::vector<RatioRow> rows;
  for (const BenchShape& shape : shapes) rows.push_back(compare(executor, shape, repeats));
  return rows;
}

}  // namespace attnfuzz
