// Two steps of training with native sparse attention, on kernels of its stages and of their gradients.
//
//   Q, K, V by the model (model.h)              K_cmp, V_cmp = compressed K, V
//   O_0 = attention over K_cmp, V_cmp           blocks = chosen by the weights of K_cmp
//   O_1 = attention over the listed blocks      O_2 = attention within a window
//   Y = g_0 O_0 + g_1 O_1 + g_2 O_2             dO_c = g_c dY, by the model
//   dQ_c, dK_c, dV_c = gradients of branch c    dQ = sum_c dQ_c;  dK, dV: those of K_cmp, V_cmp go to the keys of each
//                                               block, divided by their number
//
// Kernels compute K_cmp, V_cmp, the blocks, O_c, Y, dQ_c, dK_c and dV_c. The choice of blocks has no gradient.
// Without a kernel that scores blocks, the host scores them. Each call is judged as in a dense step
// (train_step.h), the second step in the workspaces of the first.
//
//   const SparseChoice choice = choose_sparse_setup(batches, Gates::kDrawn, kernels);
//   if (!choice.setup) throw UserError(choice.why);
//   const Trained trained = train_sparse(batches[0], *choice.setup, kernels);
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "properties/nsa/chain.h"
#include "properties/train_step/calls.h"
#include "properties/train_step/model.h"

namespace attnfuzz::train {

inline constexpr int64_t kSparseBranches = 3;
// The stages of properties/nsa, and behind them the gradients of each branch. Numbers are those of Pass.
inline constexpr size_t kSparsePasses = nsa::kStages + kSparseBranches;
std::string name_of_pass(size_t pass);
// True if a kernel with these features does the pass.
bool does_pass(uint64_t features, size_t pass);

using SparseKernels = std::array<StepKernel, kSparsePasses>;

// The settings that the steps of all batches share.
struct SparseSetup {
  ModelShape model = {.lengths = {}, .branches = kSparseBranches};
  double rate = 4;
  nsa::Blocks blocks = {.step = 8, .length = 16, .chosen = 16};
};
// The sizes of attention in a step of this batch.
nsa::Sizes sizes_of(const SparseSetup& setup, const Batch& batch);

struct SparseChoice {
  std::optional<SparseSetup> setup;  // the first with which all kernels take a batch
  std::string why;                   // if there is none: what was refused, and for how many of the setups
};
SparseChoice choose_sparse_setup(std::span<const Batch> batches, Gates gates, const SparseKernels& kernels);

// `batch`: one that is not packed.
Trained train_sparse(const Batch& batch, const SparseSetup& setup, const SparseKernels& kernels);

// Adds the gradient of compressed keys or values to that of the keys: `compressed` by (head, block, column),
// `keys` by (token, head, column).
void add_through_compression(const nsa::Sizes& sizes, std::span<const float> compressed,
                             std::vector<double>* keys);

}  // namespace attnfuzz::train
