#include "reference/nsa/choice.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "reference/call/row_space.h"
#include "reference/call/sequences.h"
#include "reference/rows/visibility.h"

namespace attnfuzz {
namespace {

// The scores of the first `count` blocks.
std::vector<double> scores_of(const attn_problem& problem, const attn_tensors& host, const Row& at, int64_t count) {
  std::vector<double> scores(static_cast<size_t>(count));
  const auto* data = static_cast<const float*>(host.scores.data);
  const StoredRow from = Sequences(problem, host).query_row(at.b, at.i);
  for (int64_t j = 0; j < count; ++j) {
    float score;
    std::memcpy(&score, data + offset_of(host.scores, from.entry, at.h, from.row, j), sizeof score);
    scores[static_cast<size_t>(j)] = score;
  }
  return scores;
}

}  // namespace

std::vector<int64_t> chosen_blocks(const attn_problem& problem, std::span<const double> scores) {
  const auto count = static_cast<int64_t>(scores.size()), most = std::min(problem.select, count);
  std::vector<int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto forced = [&](int64_t j) { return j < problem.select_first || j >= count - problem.select_last; };
  // -0 and +0 compare as equal.
  std::ranges::sort(order, [&](int64_t a, int64_t b) {
    if (forced(a) != forced(b)) return forced(a);
    const double x = scores[static_cast<size_t>(a)], y = scores[static_cast<size_t>(b)];
    return !forced(a) && x != y ? x > y : a < b;
  });
  order.resize(static_cast<size_t>(most));
  std::ranges::sort(order);
  return order;
}

int64_t keys_of_query(const attn_problem& problem, const attn_tensors& host, int64_t b, int64_t i) {
  return key_range(problem, host, b, i).last;
}

Reference evaluate_choice(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
                          const Calibration&, RowSample sample, bool) {
  require_known(kChoiceKnows, problem.features);
  const RowSpace rows(problem);
  Reference due;
  due.rows = rows.count();
  due.state.assign(static_cast<size_t>(due.rows), RowState::kSkipped);
  Expected& out = due.outputs.emplace_back();
  out.tensor = TensorId::kChosen;
  out.columns = problem.select;
  out.integer.assign(static_cast<size_t>(due.rows * problem.select), -1);
  out.rule.assign(out.integer.size(), static_cast<uint8_t>(Due::kAnything));
  std::vector<int64_t> judged = sampled_rows(problem, host, plan.tile_q, sample);
  for (const int64_t row : take_absent(problem, host, &judged)) due.state[static_cast<size_t>(row)] = RowState::kAbsent;
  for (const int64_t row : judged) {
    const Row at = rows.at(row);
    const int64_t keys = keys_of_query(problem, host, at.b, at.i);
    const std::vector<double> scores = scores_of(problem, host, at, (keys + problem.block - 1) / problem.block);
    const auto n = static_cast<size_t>(row);
    ++due.sampled;
    due.dead += scores.empty();
    due.state[n] = scores.empty() ? RowState::kDead : RowState::kBounded;
    if (std::ranges::any_of(scores, [](double x) { return std::isnan(x); })) {
      due.state[n] = RowState::kUnconstrained;
      ++due.unconstrained;
      continue;
    }
    const std::vector<int64_t> blocks = chosen_blocks(problem, scores);
    std::ranges::copy(blocks, out.integer.begin() + row * problem.select);
    std::fill_n(out.rule.begin() + row * problem.select, problem.select, static_cast<uint8_t>(Due::kNumber));
  }
  return due;
}

}  // namespace attnfuzz
