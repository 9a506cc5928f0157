#include "fuzz/batch/given.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "fuzz/batch/device/readback.h"
#include "reference/cuda/rows.h"

namespace attnfuzz::batch {
namespace {

// The rows that exist: a packed entry may have fewer queries than the longest.
int64_t rows_present(const Call& call) {
  const attn_problem& p = call.problem;
  return call.packed_q != 0 ? call.recipe.borders_q[p.batch] * p.heads_q : RowSpace(p).count();
}

// The expectation of an output before the numbers that were read back are filled in.
Expected unset(const Call& call, TensorId tensor, int64_t columns) {
  Expected due;
  due.tensor = tensor;
  due.columns = columns;
  due.overflow = tensor == TensorId::kDsink   ? call.dsink_overflow
                 : tensor == TensorId::kDbias ? call.dbias_overflow
                                              : call.overflow;
  if (tensor != TensorId::kLse) return due;
  due.logarithm = true;
  due.unit = call.model.log_unit;
  due.overflow = call.model.log_overflow;
  return due;
}

// Takes the rows' states, and the rules of the LSE that follow from them. False if an oracle cannot have
// written them.
bool take_states(const Call& call, const std::vector<uint8_t>& states, Reference& reference) {
  constexpr auto kLast = static_cast<uint8_t>(RowState::kNaN);
  for (const uint8_t bits : states) {
    const auto state = static_cast<RowState>(bits & ~cuda::kAnyColumn);
    if (static_cast<uint8_t>(state) > kLast && state != RowState::kAbsent) return false;
    reference.state.push_back(state);
    if (!is_backward(call))
      reference.outputs[1].rule.push_back(static_cast<uint8_t>(cuda::lse_due(call.model, state)));
  }
  return true;
}

// Takes the values that were read back. False if an oracle cannot have written them.
bool take(const Call& call, std::span<const std::byte> readback, GivenRun& given) {
  const Readback places(call);
  if (call.readback_at > readback.size() || readback.size() - call.readback_at < places.sent()) return false;
  const std::byte* readback_from = readback.data() + call.readback_at;
  const auto copy = [&](auto& to, uint64_t at, size_t count) {
    to.resize(count);
    std::memcpy(to.data(), readback_from + (at - places.from), count * sizeof to[0]);
  };
  Reference& reference = given.run.reference;
  reference.rows = RowSpace(call.problem).count();
  reference.sampled = given.sampled;
  reference.dead = given.dead;
  reference.uninformative = given.uninformative;
  reference.unconstrained = given.unconstrained;
  Outputs& got = given.run.calls.emplace_back();
  const std::span<const Tensor> outputs = outputs_of(call, is_backward(call));
  for (size_t n = 0; n < outputs.size(); ++n) {
    const Readback::Part& part = places.part[n];
    const TensorId tensor = kIds[part.tensor];
    Expected& due = reference.outputs.emplace_back(unset(call, tensor, static_cast<int64_t>(part.columns)));
    if (call.readback_all) copy(due.value, part.value, part.elements);
    copy(due.bound, part.bound, part.elements);
    if (!due.logarithm) copy(due.rule, part.rule, part.elements);
    if (call.tensor[part.tensor].end > 0) copy(got[tensor], part.got, part.elements);
  }
  if (call.readback_all && predicts_p(call))
    copy(reference.outputs[0].exact, places.exact, places.part[0].elements);
  std::vector<uint8_t> states;
  copy(states, places.state, static_cast<size_t>(reference.rows));
  const auto is_rule = [](uint8_t rule) { return rule <= static_cast<uint8_t>(Due::kAnything); };
  return take_states(call, states, reference) &&
         std::ranges::all_of(reference.outputs,
                             [&](const Expected& due) { return std::ranges::all_of(due.rule, is_rule); });
}

}  // namespace

std::unique_ptr<GivenRun> given_run(const Case& c, const Call& call, const Result& result,
                                    std::vector<Assumption> assumptions, std::span<const std::byte> readback) {
  auto given = std::make_unique<GivenRun>();
  given->run.c = c;
  given->run.plan = call.plan;
  given->worst = std::bit_cast<double>(result.counts.worst);
  given->sampled = rows_present(call);
  given->dead = result.counts.dead;
  given->uninformative = result.counts.uninformative;
  given->unconstrained = result.counts.unconstrained;
  given->assumptions = std::move(assumptions);
  if (call.readback_at != kNoReadback && !take(call, readback, *given)) return nullptr;
  return given;
}

}  // namespace attnfuzz::batch
