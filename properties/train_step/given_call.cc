#include "properties/train_step/given_call.h"

#include <cstring>

#include "properties/case/geometry.h"
#include "properties/case/packed.h"
#include "properties/judge/judge.h"
#include "properties/judge/trial.h"
#include "reference/numbers/formats.h"

namespace attnfuzz::train {
namespace {

std::vector<std::byte> bytes_of(const Case& c, const GivenInput& input) {
  const int32_t dtype = dtype_of(c.problem, input.tensor);
  const auto bytes = static_cast<size_t>(element_bytes(c.problem, input.tensor));
  std::vector<std::byte> out(input.elements.size() * bytes);
  for (size_t n = 0; n < input.elements.size(); ++n) {
    const uint16_t half = dtype == ATTN_F32 ? uint16_t{0} : encode16(dtype, input.elements[n]);
    std::memcpy(&out[n * bytes], dtype == ATTN_F32 ? static_cast<const void*>(&input.elements[n]) : &half,
                bytes);
  }
  return out;
}

class Judging {
 public:
  Judging(const Case& c, Target& target, const Calibration& calibration)
      : e_(c, target), calibration_(calibration) {
    Verdict& v = result_.verdict;
    v.property = "train_step";
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
    result_.reference = e_.evaluate(calibration_, {}, false);
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
  GivenCall result_;
};

}  // namespace

GivenCall judge_given(const Case& c, std::span<const GivenInput> inputs, Target& target,
                      const Calibration& calibration, Before before, std::span<const std::byte> left) {
  const Turn turn = target.turn();
  GivenCall result = Judging(c, target, calibration).run(inputs, before, left);
  weigh_rows(result.verdict);
  if (result.verdict.outcome == Outcome::kFail) result.verdict.failing = c;
  return result;
}

}  // namespace attnfuzz::train
