// Two steps of training on a forward and a backward kernel, each call judged by the oracle at the inputs that
// it got.
//
// The model (model.h) makes Q, K and V. The forward kernel makes O and LSE, which are saved as they are. The
// loss gives dO, and the backward kernel makes dQ, dK and dV from all of these. The parameters are updated, and
// the second step begins, in the workspaces that the first has left. So nothing drifts: an error in one call
// does not excuse another.
//
//   TrainStep on = {forward, of_forward, backward, of_backward};
//   if (const std::string why = choose_shape(on, {512}, &setup); !why.empty()) throw UserError(why);
//   const Trained trained = train({.length = 512, .packed = false}, setup, seed, on);
//   if (trained.failure) puts(trained.failure->message.c_str());
//
// Training needs more than right numbers: the saved tensors stay unchanged, and the loss and all gradients are
// finite. A call on an old workspace gives the bits of the same call on a fresh one if the plan is deterministic;
// otherwise the oracle judges both.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "properties/judge/given_call.h"
#include "properties/train_step/model.h"

namespace attnfuzz::train {

inline constexpr int kSteps = 2;

// The kernels; both may be one target.
struct TrainStep {
  Target& forward;
  const Calibration& of_forward;
  Target& backward;
  const Calibration& of_backward;
};

// The sizes and settings that the steps of all lengths share.
struct Setup {
  ModelShape model;  // without lengths
  bool causal = true;
  bool packed = false;  // both kernels take packed sequences
  double rate = 4;
};

// Finds the first setup that both kernels take at one of the lengths, not packed. It keeps the gates of `*setup`.
// Returns why there is none; empty if there is one.
std::string choose_shape(const TrainStep& on, const std::vector<int64_t>& lengths, Setup* setup);

// The tokens of a step: one sequence of `length` tokens, or as many in packed sequences, one of which is empty.
struct Batch {
  int64_t length = 128;
  bool packed = false;
};
// "S = 512", "S = 512, packed as 257, 0, 255"
std::string describe(const Batch& batch);

// A step that went wrong.
struct StepFailure {
  int step = 0;              // from 1
  bool of_backward = false;  // the kernel that failed
  std::string message;  // one line for people: where, what, and the likely cause if an experiment showed one
  Verdict verdict;
  Case c;  // of the failing call; its fills are like the step's numbers, not equal to them
  std::vector<GivenInput> inputs;  // the step's numbers
};

struct Trained {
  std::string refused;  // why a kernel refused, or could not be judged; empty: neither
  std::optional<StepFailure> failure;
  std::vector<double> losses;  // of each step, by the kernel's O
  std::vector<double> due;     // the same by the oracle's O, for the same Q, K and V
  double worst = 0;            // the largest error/bound
  std::string note;  // on equal gates; empty: none
};

Trained train(const Batch& batch, const Setup& setup, uint64_t seed, const TrainStep& on);

}  // namespace attnfuzz::train
