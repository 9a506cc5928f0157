// Loads what a backward pass reads of a row beside q and dO: the LSE and O that its forward pass saved, and dLSE.
//
//   const SavedRows saved(problem, host, plan, calibration, exact, model, sequences);
//   saved.load(block.dout, n, taint_of_q, &block.queries[n]);
#pragma once

#include "reference/gradients/gradient_block.h"
#include "reference/gradients/gradients.h"
#include "reference/model/error_model.h"

namespace attnfuzz::gradients {

// The arguments must outlive it. `exact`: O and LSE, if they are not those of `host`.
class SavedRows {
 public:
  SavedRows(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
            const Calibration& calibration, const ExactRows* exact, const ErrorModel& model, const Sequences& sequences);

  // Loads LSE and D of row n of a block. If its query sees no key, only the sink needs them.
  void load(const Rows& dout, int64_t n, Taint q_taint, Block::Query* query) const;

  const bool sinks, apart;  // apart: the stored LSE leaves the sink out
  const bool recomputed;    // a kernel computes O and LSE by itself

 private:
  // The LSE includes the sink.
  void load_lse(Block::Query* query) const;
  // Subtracts dLSE from D, unless it is the gradient of an LSE without the sink. If the query sees no key, that
  // LSE is a constant, and dLSE does not count.
  Taint load_dlse(Block::Query* query) const;
  // Adds the errors that a kernel's own O and LSE may have.
  void load_errors(const Rows& dout, int64_t n, Block::Query* query) const;

  const attn_problem& p_;
  const attn_tensors& host_;
  const ExactRows* exact_;
  const ErrorModel& model_;
  const Sequences& sequences_;
};

}  // namespace attnfuzz::gradients
