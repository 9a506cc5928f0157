#include "fuzz/batch/given.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "reference/cuda/rows.h"

namespace attnfuzz::batch {
namespace {

// The rows that exist: a packed entry may have fewer queries than the longest.
int64_t rows_present(const Call& call) {
  const attn_problem& p = call.problem;
  return call.packed_q != 0 ? call.recipe.borders_q[p.batch] * p.heads_q : RowSpace(p).count();
}

// Takes the values that were read back. False if an oracle cannot have written them.
bool take(const Call& call, std::span<const std::byte> readback, GivenRun& given) {
  const attn_problem& p = call.problem;
  const auto rows = static_cast<size_t>(RowSpace(p).count()), columns = static_cast<size_t>(p.dim_v);
  const Readback places(call);
  if (call.readback_at > readback.size() || readback.size() - call.readback_at < places.sent()) return false;
  const std::byte* readback_from = readback.data() + call.readback_at;
  const auto copy = [&](auto& to, uint64_t at, size_t count) {
    to.resize(count);
    std::memcpy(to.data(), readback_from + (at - places.from), count * sizeof to[0]);
  };
  Reference& reference = given.run.reference;
  reference.rows = static_cast<int64_t>(rows);
  reference.sampled = given.sampled;
  reference.dead = given.dead;
  reference.uninformative = given.uninformative;
  reference.unconstrained = given.unconstrained;
  reference.outputs.resize(2);
  Expected &o = reference.outputs[0], &lse = reference.outputs[1];
  o.tensor = TensorId::kO;
  o.columns = p.dim_v;
  o.overflow = call.overflow;
  if (call.readback_all) {
    copy(o.value, places.o, rows * columns);
    if (call.model.p_predicted != ATTN_NONE) copy(o.exact, places.o_exact, rows * columns);
    copy(lse.value, places.lse, rows);
  }
  copy(o.bound, places.o_bound, rows * columns);
  copy(o.rule, places.rule, rows * columns);
  lse.tensor = TensorId::kLse;
  lse.columns = 1;
  lse.logarithm = true;
  lse.unit = call.model.log_unit;
  lse.overflow = call.model.log_overflow;
  copy(lse.bound, places.lse_bound, rows);
  Outputs& got = given.run.calls.emplace_back();
  copy(got[TensorId::kO], places.got, rows * columns);
  if (call.tensor[kLse].end > 0) copy(got[TensorId::kLse], places.got_lse, rows);

  std::vector<uint8_t> states;
  copy(states, places.state, rows);
  reference.state.reserve(rows);
  lse.rule.reserve(rows);
  constexpr auto kLastState = static_cast<uint8_t>(RowState::kNaN),
                 kLastRule = static_cast<uint8_t>(Due::kAnything);
  for (const uint8_t bits : states) {
    const auto state = static_cast<RowState>(bits & ~cuda::kAnyColumn);
    if (static_cast<uint8_t>(state) > kLastState && state != RowState::kAbsent) return false;
    reference.state.push_back(state);
    lse.rule.push_back(static_cast<uint8_t>(cuda::lse_due(call.model, state)));
  }
  return std::ranges::all_of(o.rule, [](uint8_t rule) { return rule <= kLastRule; });
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
