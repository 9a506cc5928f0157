// Sinks: each head has one more score, without a key (ATTN_FEATURE_SINK).
#pragma once

#include <limits>

#include "reference/numbers/formats.h"
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

}  // namespace attnfuzz
