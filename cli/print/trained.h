// Prints the results of attnfuzz train-step: where a failure occurs, what is left out, and the losses.
#pragma once

#include <compare>
#include <optional>
#include <span>
#include <string>

#include "properties/train_step/train_step.h"

namespace attnfuzz {

// One failure of each class is reported.
struct FailureClass {
  size_t pass;  // train::Pass::number
  bool packed;
  std::string kind;  // kind_class()
  auto operator<=>(const FailureClass&) const = default;
};
FailureClass class_of(const train::StepFailure& failure, const train::Batch& batch);

// The results of batches, one for each; nullopt for a batch that did not run because of an interrupt.
using TrainedBatches = std::span<const std::optional<train::Trained>>;

// "it fails so packed at S = 512, 2048 only, of 13 lengths"
std::string where_it_fails(const FailureClass& which, std::span<const train::Batch> batches,
                           TrainedBatches trained);

// A line for each reason for which batches are left out.
std::string left_out_lines(std::span<const train::Batch> batches, TrainedBatches trained);

// A line for each batch: the loss of each step, beside the loss by the oracle's O.
std::string loss_lines(std::span<const train::Batch> batches, TrainedBatches trained);

}  // namespace attnfuzz
