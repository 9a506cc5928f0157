// Records intermediates of the mma kernel for a probe, 16 rows of a warp at a time.
#pragma once

#include "kernels/fa1/ampere/params.h"
#include "kernels/fa1/ampere/softmax.h"
#include "kernels/primitives/probe.h"

namespace attn {

template <AmpereSpec kSpec>
class RowProbes {
 public:
  __device__ __forceinline__ RowProbes(const AmpereParams& p, const AmpereBlock& block) : p_(p) {
    each([&](const TileProbe& probe, int m) {
      probe.rows([&](int r, float(&place)[3]) {
        const int row = block.first_row + warp_id() * kSpec.warp_rows() + 16 * m + lane_id() / 4 + 8 * r;
        place[0] = static_cast<float>(block.b);
        place[1] = static_cast<float>(block.h);
        place[2] = row < p.seq_q ? static_cast<float>(row) : -1.0f;
      });
    });
  }

  template <int N>
  __device__ __forceinline__ void scores(int32_t t, const float (&s)[kSpec.groups][N][4]) const {
    each([&](const TileProbe& probe, int m) { probe.scores(t, s[m]); });
  }
  // Call it after the last product of a tile, when `p` has taken the place of the scores.
  template <int N, int D>
  __device__ __forceinline__ void output(int32_t t, const SoftmaxRows<kSpec.groups>& rows,
                                         const float (&p)[kSpec.groups][N][4],
                                         const float (&o)[kSpec.groups][D][4]) const {
    each([&](const TileProbe& probe, int m) {
      probe.maxima(t, rows.mu[m], rows.alpha[m], p[m]);
      probe.output(t, o[m]);
    });
  }

 private:
  template <class Tell>
  __device__ __forceinline__ void each(Tell tell) const {
    if constexpr (kProbes) {
#pragma unroll
      for (int m = 0; m < kSpec.groups; ++m)
        tell(TileProbe(p_.probe, blockIdx.x, warp_id() * kSpec.groups + m), m);
    }
  }

  const AmpereParams& p_;
};

}  // namespace attn
