// The gradients of attention over listed blocks: dQ, dK and dV from a forward call's inputs and lists, from dO,
// and from that call's O and LSE (ATTN_FEATURE_SELECTED_BACKWARD). A drawn case gets lists as in the operation
// selected, and then becomes a backward pass as in the operation backward.
#include "properties/operations/operation.h"

#include "properties/operations/backward/ask_for_gradients.h"
#include "properties/operations/selected/give_lists.h"
#include "reference/gradients/gradients.h"

namespace attnfuzz::operations {
namespace {

using enum TensorId;

constexpr TensorId kInputsOfSelectedBackward[] = {kQ,      kK,        kV,    kKeyLengths, kIndices, kDout,
                                                  kSavedO, kSavedLse, kDlse, kCuQ,        kCuK};
constexpr Output kOutputsOfSelectedBackward[] = {{.tensor = kDq}, {.tensor = kDk}, {.tensor = kDv}};

void shape(Case& c, uint64_t kernel_features) {
  if ((c.problem.features & ATTN_FEATURE_SELECTED_BACKWARD) != 0) return;
  // The lists are given to a forward pass: the saved O takes the layout of O, which a backward pass does not have.
  give_lists(c, ATTN_FEATURE_SELECTED, kernel_features);
  c.problem.features &= ~ATTN_FEATURE_SELECTED;
  ask_for_gradients(c, ATTN_FEATURE_SELECTED_BACKWARD, kernel_features);
}

}  // namespace

extern const Operation selected_backward = {.name = "selected_backward",
                                            .feature = ATTN_FEATURE_SELECTED_BACKWARD,
                                            .inputs = kInputsOfSelectedBackward,
                                            .outputs = kOutputsOfSelectedBackward,
                                            .evaluate = evaluate_backward,
                                            .known = kSelectedGradientsKnow,
                                            .prepare = save_forward,
                                            .shape = shape};

}  // namespace attnfuzz::operations
