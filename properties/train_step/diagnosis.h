// Experiments on a failing packed call. They show whether the failure depends on packing, and on the earlier
// content of the workspace.
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
      false;  // the packed call ends otherwise, or has other bits, on a zeroed workspace than on one of NaN
  bool right_on_zeros = false;  // on a zeroed workspace the packed call is right

  // Only the packed call reads memory before it is written: most likely a copy of the sequences' borders.
  bool suspects_borders() const { return right_alone && reads_workspace; }
};

// Calls the failing kernel several times. Finds nothing for a dense call, nor if the kernel has written to its
// inputs, nor if the failure is kDirty already.
Diagnosis diagnose(const StepFailure& failure, Target& target, const Calibration& calibration);

// Clauses that begin with "; ". Empty: nothing was found.
std::string words(const Diagnosis& diagnosis);

}  // namespace attnfuzz::train
