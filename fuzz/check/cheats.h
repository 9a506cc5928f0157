// What a failure of a kernel that nobody vouches for comes from: questions asked once it was found.
//
//   if (verdict.cheat == Cheat::kNone) verdict.cheat = find_cheat(c, verdict, property, target, calibration);
#pragma once

#include <map>
#include <string>

#include "fuzz/check/refusals.h"
#include "properties/case/generator_config.h"
#include "properties/judge/trial.h"

namespace attnfuzz {

// Whether a failure is one of what was written, not of how it ended.
bool is_about_numbers(Kind kind);

// kState: what failed is right alone, in a fresh worker. kLooserPlan: it is right by the bound that its
// own plan asks for. Else what the verdict has. Runs the kernel a few times.
Cheat find_cheat(const Case& c, const Verdict& verdict, const Property& property, Target& target,
                 const Calibration& calibration);

// Of so many problems that were drawn, those that the kernel takes, and why it does not take the others.
struct Taken {
  int taken = 0, of = 0;
  std::map<std::string, int> reasons = {};
  double share() const { return static_cast<double>(taken) / of; }
};

// Of problems of all kinds, or of those inside `config`'s domain and without what it says is refused. Nothing
// is run but a kernel that may refuse then.
Taken problems_taken(Target& target, const GeneratorConfig& config, int of = 100, const AskedLate& late = {});

}  // namespace attnfuzz
