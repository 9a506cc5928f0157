// Prints the results of attnfuzz train-step: where a failure occurs, what is left out, and the losses.
#pragma once

#include <compare>
#include <optional>
#include <span>
#include <string>

#include "properties/train_step/train_step.h"

namespace attnfuzz {

// A failure is reported once for each of these.
struct FailureClass {
  bool of_backward, packed;
  std::string kind;  // kind_class()
  auto operator<=>(const FailureClass&) const = default;
};
FailureClass class_of(const train::StepFailure& failure, const train::Batch& batch);

// The results of batches, one for each; none for a batch that an interrupt has prevented.
using TrainedBatches = std::span<const std::optional<train::Trained>>;

// "it fails so packed at S = 512, 2048 only, of 13 lengths"
std::string where_it_fails(const FailureClass& which, std::span<const train::Batch> batches,
                           TrainedBatches trained);

// A line for each reason for which batches are left out.
std::string left_out_lines(std::span<const train::Batch> batches, TrainedBatches trained);

// A line for each batch: the loss of each step, beside the loss by the oracle's O.
std::string loss_lines(std::span<const train::Batch> batches, TrainedBatches trained);

}  // namespace attnfuzz
