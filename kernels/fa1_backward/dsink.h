// dsink, from the LSE and D of each query.
#pragma once

#include "kernels/fa1_backward/tiles.h"
#include "kernels/forward/sinks.h"

namespace attn::backward {

// dsink of a head: -sum e^(sink - LSE) D over its queries, in a fixed order. One warp per head.
static __global__ void dsink_kernel(const __grid_constant__ Params p) {
  const ForwardParams& f = p.forward;
  const int64_t h = static_cast<int64_t>(blockIdx.x) * kWarps + warp_id();
  if (h >= f.heads_q) return;  // the whole warp returns
  float sum = 0;
  for (int64_t b = 0; b < f.batch; ++b) {
    const Rows rows = rows_of(f, b);
    if (rows.queries == 0) continue;
    const float sink = sink_score(f.sinks, h);
    if (sink == neg_inf()) break;
    const float* delta = p.delta + (b * f.heads_q + h) * p.delta_rows;
    for (int64_t i = lane_id(); i < rows.queries; i += 32) {
      const float lse = *f.lse.at<float>(b, h, rows.first_query + i);
      sum = fma(-ex2((sink - lse) * kLog2e), delta[i], sum);
    }
  }
  sum = warp_sum(sum);
  if (lane_id() == 0) static_cast<float*>(p.dsink.data)[h * p.dsink.stride[1]] = sum;
}

}  // namespace attn::backward
