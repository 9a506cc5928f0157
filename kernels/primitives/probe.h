// A kernel's intermediates, for whoever wants to know where it went wrong. A
// kernel calls probe() where attention.h names a tag; nothing happens unless
// the caller of run() asked for this block and this warp.
//
//   if (probed(&params.probe)) probe(&params.probe, ATTN_PROBE_S, kv_tile, s);   // float s[8][4]
//
// Pass the request to the kernel by value (probe_of(env) in launch.h): env->probe
// itself is in host memory. Records of different lanes come in any order; values
// are fragments as the lane holds them, row after row. Loops over them unroll,
// so that asking leaves a fragment in its registers.
#pragma once

#include "kernels/attention.h"
#include "kernels/primitives/atomic.h"
#include "kernels/primitives/warp.h"

namespace attn {

__device__ __forceinline__ bool probed(const attn_probe* request) {
  return request != nullptr && request->values != nullptr && request->block[0] == blockIdx.x &&
         request->block[1] == blockIdx.y && request->block[2] == blockIdx.z &&
         request->warp == static_cast<uint32_t>(warp_id());
}

// Room for a record of `count` values with its head filled in; null where there is none left.
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
__device__ __forceinline__ void probe(const attn_probe* request, attn_probe_tag tag, int64_t tile,
                                      const float (&values)[N]) {
  if (!probed(request)) return;
  float* to = probe_record(request, tag, tile, N);
  if (to == nullptr) return;
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] = values[i];
}

template <int M, int N>
__device__ __forceinline__ void probe(const attn_probe* request, attn_probe_tag tag, int64_t tile,
                                      const float (&values)[M][N]) {
  if (!probed(request)) return;
  float* to = probe_record(request, tag, tile, M * N);
  if (to == nullptr) return;
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int n = 0; n < N; ++n) to[m * N + n] = values[m][n];
  }
}

}  // namespace attn
