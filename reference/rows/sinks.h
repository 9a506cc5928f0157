// Sinks: each head has one more score, without a key (ATTN_FEATURE_SINK).
#pragma once

#include <cmath>
#include <limits>

#include "reference/call/reference.h"
#include "reference/call/row_space.h"
#include "reference/numbers/formats.h"
#include "reference/rows/row_terms.h"
#include "reference/rows/visibility.h"

namespace attnfuzz {

// The sink of query head h; -infinity if there is none.
inline double sink_of(const attn_problem& problem, const attn_tensors& host, int64_t h) {
  if (!problem.has_sink) return -std::numeric_limits<double>::infinity();
  return decode(problem.sink_dtype, host.sink.data, offset_of(host.sink, 0, h, 0, 0));
}

// The same problem without its sinks.
inline attn_problem without_sinks(attn_problem problem) {
  problem.features &= ~ATTN_FEATURE_SINK;
  problem.has_sink = problem.sink_dtype = 0;
  return problem;
}

// Charges an LSE without the sinks for a maximum that includes them. `apart`: the result of
// without_sinks(problem). A row without keys has no maximum: its LSE is exact.
inline void charge_sinks(const attn_problem& problem, const attn_tensors& host, const ErrorNumbers& model,
                         Reference* apart) {
  const RowSpace rows(problem);
  Expected& lse = (*apart)[TensorId::kLse];
  for (int64_t row = 0; row < rows.count(); ++row) {
    const auto at = static_cast<size_t>(row);
    if (static_cast<Due>(lse.rule[at]) != Due::kNumber || !std::isfinite(lse.value[at])) continue;
    if (apart->state[at] == RowState::kDead) continue;
    lse.bound[at] +=
        sink_in_maximum(model, lse.value[at] * model.log_unit, sink_of(problem, host, rows.at(row).h),
                        static_cast<double>(problem.seq_k)) /
        model.log_unit;
  }
}

}  // namespace attnfuzz
