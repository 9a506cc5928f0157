#include "properties/judge/given_call.h"

#include <cstring>

#include "properties/case/codec_fields.h"
#include "properties/case/geometry.h"
#include "properties/case/packed.h"
#include "properties/data/recipe.h"
#include "properties/judge/judge.h"
#include "properties/judge/trial.h"
#include "reference/numbers/stored_bytes.h"

namespace attnfuzz {
namespace {

std::vector<std::byte> bytes_of_integers(const Case& c, const GivenInput& input) {
  const auto bytes = static_cast<size_t>(element_bytes(c.problem, input.tensor));
  std::vector<std::byte> out(input.integers.size() * bytes);
  for (size_t n = 0; n < input.integers.size(); ++n)
    std::memcpy(&out[n * bytes], &input.integers[n], bytes);  // little-endian
  return out;
}

std::vector<std::byte> bytes_of(const Case& c, const GivenInput& input) {
  if (!input.integers.empty()) return bytes_of_integers(c, input);
  return stored_bytes(dtype_of(c.problem, input.tensor), input.elements);
}

class Judging {
 public:
  Judging(const Case& c, Target& target, const Calibration& calibration, bool exact)
      : e_(c, target), calibration_(calibration), exact_(exact) {
    Verdict& v = result_.verdict;
    v.property = "given";
    result_.plan = v.plan = e_.plan;
    if (!accept_plan(e_.planned, v)) return;
    if (const std::string why = e_.no_room(); !why.empty()) {
      v.outcome = Outcome::kRefused;
      v.message = why;
    } else if (e_.written_by_plan) {
      accept_memory(e_.written_by_plan, c.problem, e_.plan, v);
    }
  }

  GivenCall run(std::span<const GivenInput> inputs, Before before, std::span<const std::byte> left) {
    if (!going()) return std::move(result_);
    for (const GivenInput& input : inputs) e_.laid.derive(input.tensor, bytes_of(e_.c, input));
    const std::vector<std::byte> zeros(before == Before::kZeros ? e_.laid.workspace().size() : 0);
    if (before == Before::kZeros) left = zeros;
    const bool dirty = before != Before::kPoison && left.size() == e_.laid.workspace().size();
    if (dirty) e_.laid.keep_workspace(left);
    call({.dirty_workspace = dirty});
    if (dirty && before == Before::kLeft) again();
    const auto bytes = e_.laid.workspace();
    result_.workspace.assign(bytes.begin(), bytes.end());
    return std::move(result_);
  }

 private:
  bool going() const { return result_.verdict.outcome == Outcome::kPass; }

  bool returns(const Call& call) {
    Verdict& v = result_.verdict;
    if (!accept_run(e_.run(call), v)) return false;
    result_.outputs = e_.outputs();
    return accept_memory(e_.laid.check_memory(), e_.c.problem, e_.plan, v);
  }

  void call(const Call& call) {
    if (!returns(call)) return;
    result_.reference = e_.evaluate(calibration_, {}, exact_);
    note_rows(e_.c.problem, result_.reference, result_.verdict);
    judge_outputs(e_.operation, result_.reference, e_.c.problem, e_.plan, result_.outputs, result_.verdict,
                  &e_.c);
  }

  // The same call on a poisoned workspace.
  void again() {
    if (!going()) return;
    const Outputs first = result_.outputs;
    if (!returns({})) return;
    if (!e_.plan.deterministic)
      judge_outputs(e_.operation, result_.reference, e_.c.problem, e_.plan, result_.outputs, result_.verdict,
                    &e_.c);
    else
      judge_same(first, result_.outputs, e_.c.problem, e_.plan, Kind::kDirty,
                 "the call on the workspace of the step before and the call on a fresh one differ",
                 result_.verdict);
  }

  Execution e_;
  const Calibration& calibration_;
  const bool exact_;
  GivenCall result_;
};

// The numbers of an input, other than 0, one by one.
void plant(const GivenInput& input, Case& c) {
  const auto [batch, heads, rows, columns] = logical_size(c.problem, input.tensor);
  for (size_t n = 0; n < input.elements.size(); ++n) {
    const auto at = static_cast<int64_t>(n), row = at / columns;
    const uint32_t bits = bits_of(dtype_of(c.problem, input.tensor), input.elements[n]);
    if (bits == 0) continue;
    c.planted.push_back({input.tensor, row / rows / heads, row / rows % heads, row % rows, at % columns, bits});
  }
}

}  // namespace

GivenCall judge_given(const Case& c, std::span<const GivenInput> inputs, Target& target,
                      const Calibration& calibration, Before before, std::span<const std::byte> left,
                      bool exact) {
  const Turn turn = target.turn();
  GivenCall result = Judging(c, target, calibration, exact).run(inputs, before, left);
  weigh_rows(result.verdict);
  if (result.verdict.outcome == Outcome::kFail) result.verdict.failing = c;
  return result;
}

std::vector<Case> ordinary_cases(const Case& c, std::span<const GivenInput> inputs) {
  std::vector<Case> cases = {c};
  Case exact = c;
  exact.planted.clear();
  for (const GivenInput& input : inputs) {
    const auto fill = fill_of(input.tensor);
    if (fill == nullptr) continue;
    exact.*fill = Fill{.kind = FillKind::kZero};
    plant(input, exact);
  }
  if (exact.planted.size() <= codec::kMaxPlanted) cases.push_back(std::move(exact));
  return cases;
}

}  // namespace attnfuzz
