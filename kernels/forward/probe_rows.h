// Records in a probe the queries that a thread's two rows belong to. A reader of the records cannot derive them
// from the block number, because each kernel numbers its blocks in its own way.
#pragma once

#include "kernels/forward/scores.h"
#include "kernels/primitives/probe.h"

namespace attn {

// `row` is the number of rows[0] among the `end` rows of the entry; rows[1] has the number row + 8.
__device__ inline void probe_rows(const ForwardParams& p, const RowView (&rows)[2], int64_t row, int64_t end) {
  float place[2][3];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    place[r][0] = static_cast<float>(rows[r].b);
    place[r][1] = static_cast<float>(rows[r].h);
    place[r][2] = row + 8 * r < end ? static_cast<float>(rows[r].i) : -1.0f;
  }
  probe(&p.probe, ATTN_PROBE_ROWS, 0, place);
}

}  // namespace attn
