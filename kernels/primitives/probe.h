// A kernel's intermediates, for whoever wants to know where it went wrong. A
// kernel calls probe() where attention.h names a tag; nothing happens unless
// the caller of run() asked for this block and this warp.
//
//   probe(&params.probe, ATTN_PROBE_ROW_MAX, kv_tile, row_max, 2);
//
// Pass the request to the kernel by value (probe_of(env) in launch.h): env->probe
// itself is in host memory. Records of different lanes come in any order; values
// are fragments as the lane holds them.
#ifndef ATTNFUZZ_KERNELS_PRIMITIVES_PROBE_H_
#define ATTNFUZZ_KERNELS_PRIMITIVES_PROBE_H_

#include "kernels/attention.h"
#include "kernels/primitives/atomic.h"
#include "kernels/primitives/warp.h"

namespace attn {

__device__ __forceinline__ bool probed(const attn_probe* request) {
  return request != nullptr && request->values != nullptr && request->block[0] == blockIdx.x &&
         request->block[1] == blockIdx.y && request->block[2] == blockIdx.z &&
         request->warp == static_cast<uint32_t>(warp_id());
}

__device__ inline void probe(const attn_probe* request, attn_probe_tag tag, int64_t tile, const float* values,
                             int count) {
  if (!probed(request)) return;
  const auto floats = static_cast<unsigned long long>(count) + 4;
  const unsigned long long at = atomic_add(request->used, floats);
  if (at + floats > request->capacity) return;
  float* record = request->values + at;
  record[0] = static_cast<float>(tag);
  record[1] = static_cast<float>(tile);
  record[2] = static_cast<float>(lane_id());
  record[3] = static_cast<float>(count);
  for (int i = 0; i < count; ++i) record[4 + i] = values[i];
}

}  // namespace attn

#endif  // ATTNFUZZ_KERNELS_PRIMITIVES_PROBE_H_
