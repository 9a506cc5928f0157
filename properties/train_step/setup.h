// Chooses the sizes and settings of a step of training from a list, by what both kernels take.
//
//   const Choice choice = choose_setup(on, batches, Gates::kDrawn);
//   if (!choice.setup) throw UserError(choice.why);
//   const Case c = case_of(batches[0], 1, *choice.setup, operation_of(0), kernel.info());
#pragma once

#include <optional>
#include <span>
#include <string>

#include "properties/judge/target/target.h"
#include "properties/operations/operation.h"
#include "properties/train_step/batch.h"
#include "properties/train_step/model.h"
#include "reference/model/calibration.h"

namespace attnfuzz::train {

// The kernels; both may be one target.
struct TrainStep {
  Target& forward;
  const Calibration& of_forward;
  Target& backward;
  const Calibration& of_backward;
};

// The settings that the steps of all batches share.
struct Setup {
  ModelShape model;
  bool causal = true;
  double rate = 4;
  bool packed = false;  // both kernels have ATTN_FEATURE_RAGGED
};

struct Choice {
  std::optional<Setup> setup;
  std::string why;  // if there is none: what was refused, and for how many of the setups
};

// Tries small setups first, to keep a step short. The best setup is one with which both kernels take a dense
// and a packed batch; the next best, one with which they take a dense batch; the last, one with which they take
// a packed batch.
Choice choose_setup(const TrainStep& on, std::span<const Batch> batches, Gates gates);

// A call's case in a step (from 1), inside the kernel's domain if that is possible.
Case case_of(const Batch& batch, int step, const Setup& setup, const Operation& operation,
             const KernelInfo& kernel);

// Why the kernel does not take the case; empty: it does.
std::string refusal_of(const Case& c, Target& target);

// Why one of the kernels does not take the batch, in a sentence that names it; empty: both do.
std::string refused_by(const Batch& batch, const Setup& setup, const TrainStep& on);

}  // namespace attnfuzz::train
