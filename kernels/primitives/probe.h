// Records a kernel's intermediates, to show where it went wrong. A kernel calls probe() at the points for which
// attention.h has a tag. The call records only if the caller of run() asked for this block and this warp.
//
//   if (probed(&params.probe)) probe(&params.probe, ATTN_PROBE_S, kv_tile, s);   // float s[8][4]
//
// Pass the request to the kernel by value (probe_of(env) in launch.h): env->probe
// itself is in host memory. Records of different lanes come in any order. Values are fragments as the lane
// holds them, row after row. Loops over them are unrolled, so that a fragment stays in registers.
//
// Kernels with no registers to spare record by TileProbe. In a GPU build without -DATTN_PROBES it compiles to
// nothing, so the machine code does not change.
#pragma once

#include "kernels/attention.h"
#include "kernels/primitives/atomic.h"
#include "kernels/primitives/warp.h"

namespace attn {

#if defined(__CUDACC__) && !defined(ATTN_PROBES)
inline constexpr bool kProbes = false;
#else
inline constexpr bool kProbes = true;
#endif

__device__ __forceinline__ bool probed(const attn_probe* request) {
  return request != nullptr && request->values != nullptr && request->block[0] == blockIdx.x &&
         request->block[1] == blockIdx.y && request->block[2] == blockIdx.z &&
         request->warp == static_cast<uint32_t>(warp_id());
}

// Reserves room for a record of `count` values and fills in its header; nullptr if no room is left.
__device__ inline float* probe_record(const attn_probe* request, attn_probe_tag tag, int64_t tile, int count) {
  const auto floats = static_cast<unsigned long long>(count) + 4;
  const unsigned long long at = atomic_add(request->used, floats);
  if (at + floats > request->capacity) return nullptr;
  float* record = request->values + at;
  record[0] = static_cast<float>(tag);
  record[1] = static_cast<float>(tile);
  record[2] = static_cast<float>(lane_id());
  record[3] = static_cast<float>(count);
  return record + 4;
}

template <int N>
__device__ __forceinline__ void record(const attn_probe* request, attn_probe_tag tag, int64_t tile,
                                       const float (&values)[N]) {
  float* to = probe_record(request, tag, tile, N);
  if (to == nullptr) return;
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] = values[i];
}

template <int M, int N>
__device__ __forceinline__ void record(const attn_probe* request, attn_probe_tag tag, int64_t tile,
                                       const float (&values)[M][N]) {
  float* to = probe_record(request, tag, tile, M * N);
  if (to == nullptr) return;
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int n = 0; n < N; ++n) to[m * N + n] = values[m][n];
  }
}

template <class Values>
__device__ __forceinline__ void probe(const attn_probe* request, attn_probe_tag tag, int64_t tile,
                                      const Values& values) {
  if (probed(request)) record(request, tag, tile, values);
}

// Records values of 16 rows. `block` is the index of the work item (a query tile, or a split of one), and
// `warp` the index of these 16 rows within the item, regardless of which block and warp compute them.
//
//   const TileProbe probe(p.probe, item, warp_id());
//   probe.rows([&](int r, float (&place)[3]) { ... });  // b, h, i of this thread's rows; i is -1 past the last
//   probe.scores(t, s);
class TileProbe {
 public:
  __device__ __forceinline__ TileProbe(const attn_probe& request, uint32_t block, uint32_t warp) {
    if constexpr (kProbes) {
      const bool asked = request.values != nullptr && request.block[0] == block && request.warp == warp;
      request_ = asked ? &request : nullptr;
    }
  }

  template <class PlaceOf>
  __device__ __forceinline__ void rows(PlaceOf place_of) const {
    if constexpr (kProbes) {
      if (request_ == nullptr) return;
      float place[2][3];
      for (int r = 0; r < 2; ++r) place_of(r, place[r]);
      record(request_, ATTN_PROBE_ROWS, 0, place);
    }
  }
  template <class Values>
  __device__ __forceinline__ void scores(int64_t tile, const Values& s) const {
    put(ATTN_PROBE_S, tile, s);
  }
  template <class Values>
  __device__ __forceinline__ void maxima(int64_t tile, const float (&mu)[2], const float (&alpha)[2],
                                         const Values& p) const {
    put(ATTN_PROBE_ROW_MAX, tile, mu);
    put(ATTN_PROBE_SCALE, tile, alpha);
    put(ATTN_PROBE_P, tile, p);
  }
  template <class Values>
  __device__ __forceinline__ void output(int64_t tile, const Values& o) const {
    put(ATTN_PROBE_O, tile, o);
  }

 private:
  template <class Values>
  __device__ __forceinline__ void put(attn_probe_tag tag, int64_t tile, const Values& values) const {
    if constexpr (kProbes) {
      if (request_ != nullptr) record(request_, tag, tile, values);
    }
  }

  const attn_probe* request_ = nullptr;
};

}  // namespace attn
