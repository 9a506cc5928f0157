// Names what is wrong with a step, as far as the verdict or an experiment shows it.
#pragma once

#include <string>

#include "properties/train_step/train_step.h"

namespace attnfuzz::train {

// "backward changed the saved tensor o: the input saved_o was written at (0,0,0,0)"; else "backward: " and the
// verdict's message.
std::string what_failed(bool of_backward, const Verdict& verdict);

// A clause that begins with ": " or "; ", empty if nothing shows. A packed call that fails is made again on a
// zeroed workspace, and its first, longest sequence alone, not packed. If both show that only the packed call reads
// what nobody has written, a copy of the sequences' borders (cu_seqlens) is the likely culprit.
std::string name_fault(const StepFailure& failure, Target& target, const Calibration& calibration);

}  // namespace attnfuzz::train
