#include "fuzz/check/cheats.h"

#include "properties/case/domain.h"
#include "properties/case/shrink_toggles.h"
#include "properties/draw/draw.h"
#include "properties/draw/generator.h"
#include "properties/judge/execution.h"

namespace attnfuzz {
namespace {

bool holds(const Case& c, const Property& property, Target& target, const Calibration& calibration) {
  target.renew();
  return judge(c, property, target, calibration).outcome != Outcome::kFail;
}

}  // namespace

bool is_about_numbers(Kind kind) {
  return kind == Kind::kWrong || kind == Kind::kNonFinite || kind == Kind::kUnwritten || kind == Kind::kDirty ||
         kind == Kind::kRelation || kind == Kind::kBits;
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

Taken problems_taken(Target& target, const GeneratorConfig& config, int of, const AskedLate& late) {
  Taker taker(target, late);
  Taken all;
  all.of = of;
  for (int n = 0; n < of; ++n) {
    Case c = draw(config, 1, static_cast<uint64_t>(n));
    strip_refused(config.refused, c, config.work);  // also what was drawn to be refused
    fit_domain(config, c);
    tidy(c);
    c.lane = target.info().lane;
    if (illegal(c)) {
      c.layout = {};  // a stride that no slot holds
      if (config.domain) lay_within(*config.domain, c);
    }
    if (const auto why = illegal(c)) {
      ++all.reasons["no case: " + *why];
      continue;
    }
    if (const auto why = taker.refusal(c)) {
      ++all.reasons[*why];
    } else {
      ++all.taken;
    }
  }
  return all;
}

}  // namespace attnfuzz
