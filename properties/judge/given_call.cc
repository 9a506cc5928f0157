#include "properties/judge/given_call.h"

#include <algorithm>
#include <cstring>

#include "properties/case/codec/codec_fields.h"
#include "properties/case/places/geometry.h"
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

// True for a failure of what a call has written to its outputs. After any other failure a second call may find
// other inputs, or none.
bool of_outputs(Kind kind) {
  return kind == Kind::kWrong || kind == Kind::kNonFinite || kind == Kind::kUnwritten;
}

class Judging {
 public:
  Judging(const Case& c, Target& target, const Calibration& calibration, bool exact)
      : e_(c, target), calibration_(calibration), exact_(exact) {
    Verdict& v = planned_.verdict;
    v.property = "given";
    planned_.plan = v.plan = e_.plan;
    if (!accept_plan(e_.planned, v)) return;
    if (const std::string why = e_.no_room(); !why.empty()) {
      v.outcome = Outcome::kRefused;
      v.message = why;
    } else if (e_.written_by_plan) {
      accept_memory(e_.written_by_plan, c.problem, e_.plan, v);
    }
  }

  GivenCall run(std::span<const GivenInput> inputs, Before before, std::span<const std::byte> left) {
    if (planned_.verdict.outcome != Outcome::kPass) return planned_;
    for (const GivenInput& input : inputs) e_.laid.derive(input.tensor, bytes_of(e_.c, input));
    const size_t bytes = e_.laid.workspace().size();
    const std::vector<std::byte> zeros(before == Before::kZeros ? bytes : 0);
    if (before == Before::kZeros) left = zeros;
    if (before == Before::kPoison || left.size() != bytes) return call_on_poison();
    GivenCall first = call(left);
    if (before != Before::kLeft) return first;
    if (first.verdict.outcome == Outcome::kPass)
      compare_with_fresh(first);
    else if (of_outputs(first.verdict.kind) && bytes > 0)
      blame_workspace(first, left);
    return first;
  }

 private:
  // Makes the call on these bytes of workspace, and judges it by itself.
  GivenCall call(std::span<const std::byte> left) {
    e_.laid.keep_workspace(left);
    return call(Call{.dirty_workspace = true});
  }
  GivenCall call_on_poison() { return call(Call{}); }

  GivenCall call(const Call& how) {
    GivenCall made = planned_;
    Verdict& v = made.verdict;
    const RunReply reply = e_.run(how);
    const auto bytes = e_.laid.workspace();
    made.workspace.assign(bytes.begin(), bytes.end());
    if (!accept_run(reply, v)) return made;
    made.outputs = e_.outputs();
    const std::optional<MemoryFault> fault = e_.laid.check_memory();
    if (fault && fault->kind == MemoryFault::Kind::kInputChanged) made.changed = fault->tensor;
    if (!accept_memory(fault, e_.c.problem, e_.plan, v)) return made;
    if (!reference_) reference_ = e_.evaluate(calibration_, {}, exact_);
    made.reference = *reference_;
    note_rows(e_.c.problem, made.reference, v);
    judge_outputs(e_.operation, made.reference, e_.c.problem, e_.plan, made.outputs, v, &e_.c);
    return made;
  }

  // Makes the same call on a poisoned workspace. It must be right, and have the same bits if the plan promises
  // them.
  void compare_with_fresh(GivenCall& first) {
    GivenCall fresh = call_on_poison();
    fresh.verdict.worst = std::max(fresh.verdict.worst, first.verdict.worst);
    if (fresh.verdict.outcome != Outcome::kPass) {
      fresh.workspace = std::move(first.workspace);
      first = std::move(fresh);
      return;
    }
    first.verdict.worst = fresh.verdict.worst;
    if (!e_.plan.deterministic) return;
    judge_same(first.outputs, fresh.outputs, e_.c.problem, e_.plan, Kind::kDirty,
               "the call on the workspace of the step before and the call on a fresh one differ",
               first.verdict);
  }

  // If the failure comes again on the bytes that the earlier call has left, and never on a poisoned workspace,
  // its kind is kDirty. A kernel whose results vary from call to call may fail once by chance.
  void blame_workspace(GivenCall& first, std::span<const std::byte> left) {
    for (int n = 0; n < kAskedTimes; ++n) {
      if (call_on_poison().verdict.outcome != Outcome::kPass) return;
      if (call(left).verdict.kind != first.verdict.kind) return;
    }
    first.verdict.kind = Kind::kDirty;
    first.verdict.message = "on the workspace of the step before, " + first.verdict.message +
                            "; the same call on a fresh workspace is right";
  }

  Execution e_;
  const Calibration& calibration_;
  const bool exact_;
  GivenCall planned_;                   // without a run
  std::optional<Reference> reference_;  // of all calls: they have the same inputs
};

// Plants each number of an input that is not 0.
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

std::vector<std::byte> bytes_of(const Case& c, const GivenInput& input) {
  if (!input.integers.empty()) return bytes_of_integers(c, input);
  return stored_bytes(dtype_of(c.problem, input.tensor), input.elements);
}

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
