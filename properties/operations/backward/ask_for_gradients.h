// Makes a backward pass of a forward call. The operations backward and selected_backward do this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "properties/case/case.h"
#include "reference/oracle.h"

namespace attnfuzz::operations {

// Turns a case into one that asks for gradients: sets `operation` (a bit of attn_problem.features), draws dO
// and the other inputs that a kernel with these features takes, and removes what a backward pass does not
// have.
void ask_for_gradients(Case& c, uint64_t operation, uint64_t kernel_features);

// The plan of an exact forward call whose LSE has the form of `plan` (lse_base, lse_dead, lse_sink).
attn_plan exact_forward(const attn_plan& plan);
// The bytes of a saved output: the exact values, rounded to its format. If the exact result is NaN, NaN is stored; if
// it may be anything, 0.
std::vector<std::byte> saved_bytes(const Expected& exact, int32_t dtype);

// Operation::prepare: makes O and LSE as a forward call writes them in the plan's form (lse_base, lse_dead,
// lse_sink).
void save_forward(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
                  const std::function<void(TensorId, std::vector<std::byte>)>& derive);

// Operation::evaluate, by the oracle of gradients. Ignores `exact`: its values are always exact.
Reference evaluate_backward(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
                            const Calibration& calibration, RowSample sample, bool);

}  // namespace attnfuzz::operations
