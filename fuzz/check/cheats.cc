#include "fuzz/check/cheats.h"

#include "properties/draw/generator.h"

namespace attnfuzz {
namespace {

bool holds(const Case& c, const Property& property, Target& target, const Calibration& calibration) {
  target.renew();
  return judge(c, property, target, calibration).outcome != Outcome::kFail;
}

}  // namespace

bool is_about_numbers(Kind kind) {
  return kind == Kind::kWrong || kind == Kind::kNonFinite || kind == Kind::kUnwritten || kind == Kind::kDirty ||
         kind == Kind::kRelation;
}

Cheat find_cheat(const Case& c, const Verdict& verdict, const Property& property, Target& target,
                 const Calibration& calibration) {
  if (!is_about_numbers(verdict.kind)) return verdict.cheat;
  // The very case that failed, and one call of it.
  Case alone = verdict.failing.value_or(c);
  alone.calls = {Call{}};
  if (holds(alone, *find_property("reference"), target, calibration)) return Cheat::kState;
  Calibration believing = calibration;
  believing.ceiling.reset();
  if (calibration.ceiling && holds(c, property, target, believing)) return Cheat::kLooserPlan;
  return verdict.cheat;
}

double share_taken(Target& target, const Aim& aim, int of) {
  int taken = 0;
  for (int n = 0; n < of; ++n) {
    Case c = draw(aim, 1, static_cast<uint64_t>(n));
    c.lane = target.info().lane;
    if (illegal(c)) continue;
    const PlanReply reply = Execution(c, target).planned;
    taken += reply.status != ATTN_UNSUPPORTED && reply.status != ATTN_INVALID;
  }
  return static_cast<double>(taken) / of;
}

}  // namespace attnfuzz
