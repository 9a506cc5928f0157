#include "reference/cuda/row_results.h"

#include <algorithm>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "reference/call/row_space.h"

namespace attnfuzz::cuda {

RowResults::RowResults(size_t rows, size_t columns, bool exact) {
  size_t next = 0;
  const auto take = [&](size_t count) { return std::exchange(next, next + count); };
  o = take(rows * columns * sizeof(double));
  o_bound = take(rows * columns * sizeof(double));
  o_exact = take(exact ? rows * columns * sizeof(double) : 0);
  lse = take(rows * sizeof(double));
  lse_bound = take(rows * sizeof(double));
  rule = take(rows * columns);
  state = take(rows);
  bytes = next;
}

RowsOutput output_at(Session& session, const RowResults& results) {
  std::byte* to = session.results.of(results.bytes);
  RowsOutput out;
  out.o = at<double>(to, results.o);
  out.o_bound = at<double>(to, results.o_bound);
  out.o_exact = results.o_exact < results.lse ? at<double>(to, results.o_exact) : nullptr;
  out.lse = at<double>(to, results.lse);
  out.lse_bound = at<double>(to, results.lse_bound);
  out.o_rule = at<uint8_t>(to, results.rule);
  out.state = at<uint8_t>(to, results.state);
  return out;
}

void relocate_rows(RowsInput& in, bool has_mask, std::byte* inputs) {
  relocate(in.facts, inputs);
  relocate(in.tasks, inputs);
  relocate(in.lengths, inputs);
  relocate(in.q, inputs);
  relocate(in.k, inputs);
  relocate(in.v, inputs);
  relocate(in.bias, inputs);
  if (has_mask)
    relocate(in.mask, inputs);
  else
    in.mask = nullptr;
}

namespace {

// Copies results from the returned block into the host oracle's arrays.
void take(Session& session, const ErrorNumbers& model, const std::vector<int64_t>& rows, bool all,
          const RowResults& results, Reference& reference) {
  std::byte* from = session.received.of(results.bytes);
  Expected &o = reference[TensorId::kO], &lse = reference[TensorId::kLse];
  const auto columns = static_cast<size_t>(o.columns), count = rows.size();
  // If all rows were evaluated, they are already in order.
  const auto copy = [&](auto& to, size_t offset, size_t width) {
    using Element = std::remove_reference_t<decltype(to[0])>;
    const Element* source = at<Element>(from, offset);
    if (all)
      to.assign(source, source + count * width);
    else
      for (size_t r = 0; r < count; ++r)
        std::copy_n(source + r * width, width, to.begin() + rows[r] * static_cast<int64_t>(width));
  };
  copy(o.value, results.o, columns);
  copy(o.bound, results.o_bound, columns);
  copy(o.rule, results.rule, columns);
  if (results.o_exact < results.lse) copy(o.exact, results.o_exact, columns);
  copy(lse.value, results.lse, 1);
  copy(lse.bound, results.lse_bound, 1);
  if (all) {
    reference.rows = static_cast<int64_t>(count);
    reference.state.resize(count);
    lse.rule.resize(count);
  }
  const uint8_t* states = at<uint8_t>(from, results.state);
  for (size_t r = 0; r < count; ++r) {
    const auto row = static_cast<size_t>(rows[r]);
    const auto state = static_cast<RowState>(states[r] & ~kAnyColumn);
    if (state > RowState::kNaN) throw std::runtime_error("the oracle on the GPU: a row that was not evaluated");
    reference.state[row] = state;
    lse.rule[row] = static_cast<uint8_t>(lse_due(model, state));
    ++reference.sampled;
    reference.dead += state == RowState::kDead;
    reference.uninformative += state == RowState::kUninformative;
    reference.unconstrained += state == RowState::kUnconstrained || (states[r] & kAnyColumn) != 0;
  }
}

}  // namespace

Reference taken(Session& session, const attn_problem& problem, const attn_tensors& host,
                const ErrorModel& model, const std::vector<int64_t>& rows, const std::vector<int64_t>& absent,
                const RowResults& results) {
  // Evaluating no row gives a result of the right shape. If all rows are evaluated, no shape is needed.
  const bool all = static_cast<int64_t>(rows.size()) == RowSpace(problem).count();
  attn_problem shape = problem;
  if (all) shape.batch = 0;
  Reference reference = evaluate_keys(shape, host, model, absent, 0, 0);
  take(session, model, rows, all, results, reference);
  return reference;
}

}  // namespace attnfuzz::cuda
