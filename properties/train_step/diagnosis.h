// Experiments on a failing packed call: what it has to do with packing, and with what the workspace held
// before.
//
//   const Diagnosis d = diagnose(failure, target, calibration);
//   if (d.suspects_borders()) puts("uninitialised cu_seqlens?");
//
// A fact is stated only if several calls agree on it, so that a kernel whose results vary is not blamed by
// chance.
#pragma once

#include <string>

#include "properties/train_step/train_step.h"

namespace attnfuzz::train {

struct Diagnosis {
  bool right_alone = false;  // the longest sequence of the packed call, alone and not packed, is right
  bool reads_workspace =
      false;  // on a zeroed workspace the packed call fails otherwise, or has other bits, than on NaN
  bool right_on_zeros = false;  // on a zeroed workspace the packed call is right

  // A packed call alone reads what nobody has written: most likely a copy of the sequences' borders.
  bool suspects_borders() const { return right_alone && reads_workspace; }
};

// Makes calls of the failure's kernel. A dense call, and a kernel that has written to its inputs, show nothing.
Diagnosis diagnose(const StepFailure& failure, Target& target, const Calibration& calibration);

// Clauses that begin with "; ". Empty: nothing was found.
std::string words(const Diagnosis& diagnosis);

}  // namespace attnfuzz::train
