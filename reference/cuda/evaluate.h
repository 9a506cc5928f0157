// Evaluates one operation each on a GPU. cuda_oracle.cc chooses the function.
//
//   auto due = forward_on_device(session, {problem, tensors, plan, calibration, sample}, &why);
//
// Returns nullopt, with a short reason in *why, if the device does not handle the problem. The functions throw
// NoMemory, and std::runtime_error if the device fails.
#pragma once

#include <optional>
#include <string>

#include "reference/cuda/session.h"
#include "reference/oracle.h"

namespace attnfuzz::cuda {

struct Asked {
  const attn_problem& problem;
  const attn_tensors& host;
  const attn_plan& plan;
  const Calibration& calibration;
  RowSample sample;
};

std::optional<Reference> forward_on_device(Session& session, const Asked& asked, std::string* why);
std::optional<Reference> merge_on_device(Session& session, const Asked& asked, std::string* why);
std::optional<Reference> gradients_on_device(Session& session, const Asked& asked, std::string* why);

}  // namespace attnfuzz::cuda
