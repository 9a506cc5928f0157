// Runs two steps of training on a forward and a backward kernel. The oracle judges each call on the inputs that
// it got, so an error in one call does not excuse another.
//
// The model (model.h) makes Q, K and V. The forward kernel makes O and LSE, which are saved as they are. The
// loss gives dO, and the backward kernel makes dQ, dK and dV from all of these. The parameters are updated, and
// the second step begins, in the workspaces that the first has left.
//
//   const TrainStep on = {forward, of_forward, backward, of_backward};
//   const Batch batch = {.length = 512, .packed = false, .seed = 1};
//   const Choice choice = choose_setup(on, {&batch, 1}, Gates::kDrawn);
//   const Trained trained = train(batch, *choice.setup, on);
//   if (trained.failure) puts(trained.failure->message.c_str());
//
// Training needs more than right numbers: the saved tensors stay unchanged, and the loss and all gradients are
// finite. A call on an old workspace gives the bits of the same call on a fresh one if the plan is
// deterministic; otherwise the oracle judges both.
#pragma once

#include "properties/train_step/calls.h"
#include "properties/train_step/setup.h"

namespace attnfuzz::train {

// Pass::number of a failure.
enum DensePass : size_t { kForwardPass, kBackwardPass };

// The batch's seed also seeds the model and its data.
Trained train(const Batch& batch, const Setup& setup, const TrainStep& on);

}  // namespace attnfuzz::train
