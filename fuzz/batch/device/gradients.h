// The kernels of a batch for the tensors that only a backward pass has. All other tensors are laid out and
// judged as those of a forward call (kernels.h).
//
//   lay_out(call, work, &env);  launch_rows(work.input, work.output, ...)     // O and LSE of the forward pass
//   lay_gradients(call, of, &env) ... the kernel under test ... launch_gradients(of.input, of.due, ...)
//   judge(call, work, &env);  judge_gradients(call, of, &env)
//
// The saved O and LSE are those of the GPU's oracle, rounded as a host does it (save_forward() in
// properties/operations/backward). All on env->stream, asynchronous on a GPU.
#pragma once

#include "fuzz/batch/device/kernels.h"
#include "reference/cuda/gradients.h"

namespace attnfuzz::batch {

struct GradientWork {
  Work work;                   // `output`: O and LSE of the forward pass
  cuda::GradientsInput input;  // its rows are those of `work.input`, absent queries included
  cuda::GradientsOutput due;
  float* got[kGradients];  // the gradients of the first call, from dQ on, dense; NULL if not wanted
};
static_assert(sizeof(GradientWork) <= 4096, "the parameters of a kernel");

// Writes dO, the saved O and LSE, dLSE, the poison of the gradients, and the oracle's own inputs. `call` is the
// host's copy of the call.
attn_status lay_gradients(const Call& call, const GradientWork& of, const attn_env* env);
// Restores the gradients to their state before the first call.
attn_status lay_gradients_again(const Call& call, const GradientWork& of, const attn_env* env);
// Checks these tensors as judge() checks those of a forward call.
attn_status judge_gradients(const Call& call, const GradientWork& of, const attn_env* env);

}  // namespace attnfuzz::batch
