// Starts a kernel on either back end.
//
//   return attn::launch(forward<F16, 64>, dim3(tiles, heads), dim3(128), bytes, env, params);
//
// Arguments are converted to the kernel's parameter types and copied. On CUDA the launch goes to env->stream,
// and the call does not wait for it. On the CPU the kernel has run when the call returns. A launch that the
// device cannot run is refused before anything runs: env->report gets the reason, and ATTN_LAUNCH_FAILED is
// returned. A device error is reported and returned in the same way, and cleared.
#pragma once

#include <stdio.h>

#include <tuple>
#include <type_traits>

#include "kernels/attention.h"
#include "kernels/primitives/platform.h"

namespace attn {

// Reports about a launch as a whole, not about a thread, to env->report. `shared_bytes`: as in attn_report.
inline void report_launch(const attn_env* env, attn_report_kind kind, const char* message,
                          int32_t shared_bytes = 0) {
  if (!env->report) return;
  attn_report report{};
  report.size = sizeof report;
  report.kind = kind;
  report.message = message;
  report.shared_bytes = shared_bytes;
  env->report(env->user, &report);
}

// True if the device can run this launch; otherwise `reason` says why not. If a block needs too much shared
// memory, *refused_bytes is what it needs, else 0.
inline bool launch_is_legal(dim3 grid, dim3 block, size_t shared_bytes, const attn_env* env, char* reason,
                            size_t reason_size, int32_t* refused_bytes) {
  *refused_bytes = 0;
  const auto threads = static_cast<unsigned long long>(block.x) * block.y * block.z;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) {
    snprintf(reason, reason_size, "an empty grid (%u, %u, %u): a caller with nothing to do must not launch",
             grid.x, grid.y, grid.z);
  } else if (grid.x > 0x7FFFFFFFu || grid.y > 65535 || grid.z > 65535) {
    snprintf(reason, reason_size, "a grid of (%u, %u, %u): the limits are (2147483647, 65535, 65535)", grid.x,
             grid.y, grid.z);
  } else if (threads == 0 || threads > 1024 || block.x > 1024 || block.y > 1024 || block.z > 64) {
    snprintf(reason, reason_size, "a block of (%u, %u, %u): 1 to 1024 threads, at most (1024, 1024, 64)",
             block.x, block.y, block.z);
  } else if (env->shared_memory_limit < 0 ||
             shared_bytes > static_cast<unsigned long long>(env->shared_memory_limit)) {
    snprintf(reason, reason_size, "%llu bytes of shared memory: a block may have %lld",
             static_cast<unsigned long long>(shared_bytes), static_cast<long long>(env->shared_memory_limit));
    *refused_bytes = shared_bytes < INT32_MAX ? static_cast<int32_t>(shared_bytes) : INT32_MAX;
  } else {
    return true;
  }
  return false;
}

// The probe that a kernel takes by value and passes on to probe().
inline attn_probe probe_of(const attn_env* env) { return env->probe ? *env->probe : attn_probe{}; }

// `dependent`: see dependent.h.
template <class... P>
attn_status launch_as(bool dependent, void (*kernel)(P...), dim3 grid, dim3 block, size_t shared_bytes,
                      const attn_env* env, std::type_identity_t<P>... arguments) {
  char reason[256];
  int32_t refused_bytes;
  if (!launch_is_legal(grid, block, shared_bytes, env, reason, sizeof reason, &refused_bytes)) {
#ifndef __CUDACC__
    if (refused_bytes)
      refused_bytes += static_cast<int32_t>(simt::static_shared(reinterpret_cast<const void*>(kernel)));
#endif
    report_launch(env, ATTN_REPORT_LAUNCH, reason, refused_bytes);
    return ATTN_LAUNCH_FAILED;
  }
#ifdef __CUDACC__
  cudaError_t error = cudaSuccess;
  const char* step = "cudaFuncSetAttribute";
  if (shared_bytes > 48 * 1024) {
    error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(shared_bytes));
  }
  if (error == cudaSuccess) {
    step = "launch";
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = static_cast<cudaStream_t>(env->stream);
    config.attrs = &attribute;
    config.numAttrs = dependent ? 1 : 0;
    error = cudaLaunchKernelEx(&config, kernel, arguments...);
    if (error != cudaSuccess) cudaGetLastError();
  } else {
    cudaGetLastError();
  }
  if (error == cudaSuccess) return ATTN_OK;
  snprintf(reason, sizeof reason, "%s: %s (%s)", step, cudaGetErrorName(error), cudaGetErrorString(error));
  report_launch(env, ATTN_REPORT_DEVICE, reason);
  return ATTN_LAUNCH_FAILED;
#else
  struct Call {
    void (*kernel)(P...);
    std::tuple<std::remove_const_t<P>...> arguments;
  } call{kernel, {arguments...}};
  const auto entry = [](const void* opaque) {
    const Call& call = *static_cast<const Call*>(opaque);
    std::apply(call.kernel, call.arguments);
  };
  const simt::Launch request = {{grid.x, grid.y, grid.z},
                                {block.x, block.y, block.z},
                                shared_bytes,
                                env,
                                entry,
                                &call,
                                reinterpret_cast<const void*>(kernel),
                                shared_bytes > 48 * 1024};
  return dependent ? simt::launch_dependent(request) : simt::launch(request);
#endif
}

template <class... P>
attn_status launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared_bytes, const attn_env* env,
                   std::type_identity_t<P>... arguments) {
  return launch_as(false, kernel, grid, block, shared_bytes, env, arguments...);
}

}  // namespace attn
