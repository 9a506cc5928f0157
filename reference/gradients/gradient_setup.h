// Before they look at pairs, the oracles of gradients on the CPU (gradients.cc) and on a GPU (cuda/) both decide
// the following: the numbers that the bound charges for, the elements that are judged, and a reference to fill.
//
//   const ErrorModel model = error_model(problem, plan, calibration);
//   const Terms terms = make_terms(problem, capped_plan(problem, plan, calibration), model);
//   Reference due = unset_gradients(problem, host, model);
#pragma once

#include <functional>
#include <vector>

#include "reference/gradients/gradient_pairs.h"
#include "reference/gradients/gradients.h"

namespace attnfuzz::gradients {

// The LSE is an input in the form that the plan declares. An error cap changes only the form of outputs.
ErrorModel error_model(const attn_problem& problem, const attn_plan& plan, const Calibration& calibration);
Terms make_terms(const attn_problem& problem, const attn_plan& plan, const ErrorModel& model);
// True if the call has sinks and its LSE, of which dLSE is the gradient, leaves them out. A kernel that
// computes the LSE by itself reads none, so that an error cap decides.
bool leaves_sink_out(const attn_problem& problem, const attn_plan& plan, const Calibration& calibration);

// The queries whose dQ is judged, in the order of RowSpace, and the keys whose dK and dV are judged, by batch
// entry, KV head and key.
struct Wanted {
  std::vector<bool> rows, keys;
};
// With dbias or dsink, all: a sum over queries needs them.
Wanted wanted(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan, RowSample sample);

// The outputs, of which nothing is known yet. Queries that no batch entry has are marked as absent.
Reference unset_gradients(const attn_problem& problem, const attn_tensors& host, const ErrorModel& model);

// O and the LSE of a kernel that computes both by itself, and their bounds. An element is NaN if NaN is due,
// and infinite if anything passes.
class OwnForward {
 public:
  // Evaluates the forward pass of such a kernel: evaluate_forward_of(), or a faster oracle.
  using Evaluate =
      std::function<Reference(const attn_problem&, const attn_tensors&, const attn_plan&, const Calibration&)>;
  OwnForward(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
             const Calibration& calibration, const Evaluate& evaluate = evaluate_forward_of);
  ExactRows rows() const {
    const bool apart = !lse_apart_.empty();
    return {.o = o_.data(),
            .lse = lse_.data(),
            .o_error = o_error_.data(),
            .lse_error = lse_error_.data(),
            .lse_apart = apart ? lse_apart_.data() : nullptr,
            .lse_apart_error = apart ? lse_apart_error_.data() : nullptr};
  }
  // Adds the assumptions that the forward pass needs to those of `due`.
  void add_assumptions(Reference* due) const;

 private:
  std::vector<double> o_, lse_, o_error_, lse_error_;
  std::vector<double> lse_apart_, lse_apart_error_;  // without the sink; empty if nothing needs it
  std::vector<Assumption> assumptions_;
};

}  // namespace attnfuzz::gradients
