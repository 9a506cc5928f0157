// What a failure of a kernel that nobody vouches for comes from: questions asked once it was found.
//
//   if (verdict.cheat == Cheat::kNone) verdict.cheat = find_cheat(c, verdict, property, target, calibration);
#pragma once

#include "properties/case/aim.h"
#include "properties/judge/trial.h"

namespace attnfuzz {

// Whether a failure is one of what was written, not of how it ended.
bool is_about_numbers(Kind kind);

// kState: what failed is right alone, in a fresh worker. kLooserPlan: it is right by the bound that its
// own plan asks for. Else what the verdict has. Runs the kernel a few times.
Cheat find_cheat(const Case& c, const Verdict& verdict, const Property& property, Target& target,
                 const Calibration& calibration);

// Of problems of all kinds, or of those inside `aim`'s domain and what it says is refused, the share that
// the kernel's plan() takes: of so many drawn ones. Nothing is run.
double share_taken(Target& target, const Aim& aim, int of = 100);

}  // namespace attnfuzz
