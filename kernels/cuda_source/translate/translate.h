// Translates CUDA source for the CPU executor: rewrites the syntax that nvcc accepts and a host compiler does
// not. Nothing else changes, and every line keeps its number.
//
//   kernel<T, 64><<<grid, block, bytes, stream>>>(x, n)
//       ::simt::launch_of([&](auto simt_use) ... kernel<T, 64> ..., grid, block, bytes, stream)(x, n)
//   extern __shared__ float tile[];
//       float* const tile = ...;                   the launch's dynamic shared memory
//   asm volatile("cvta.to.shared.u64 %0, %1;" : "=l"(a) : "l"(p));
//       ::simt::ptx::run<"...">(::simt::ptx::out(a), ::simt::ptx::in(p));
//   __launch_bounds__(128) kernel(...) {
//       ... { ::simt::check_launch_bounds(128, ...);
//   __shared__ alignas(16) int x;              __shared__ __align__(16) int x;
//   cudaLaunchKernel((const void*)kernel, ...)     cudaLaunchKernel(kernel, ...)
//   __noinline__                                   __attribute__((noinline))
//   inline __device__ __forceinline__              __device__ __forceinline__
//
// The results use kernels/cuda_source/cuda/launch.h and ptx/ptx.h. Macros are not expanded: a definition is
// translated like any other text, so launches and PTX inside of macros work too.
//
// Clang's own CUDA mode does not help: on the host side it emits stubs instead of kernels, and on the device
// side only code for a GPU. The executor needs kernels as host code, under any sanitizer.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace attnfuzz {

// Throws std::runtime_error, "NAME:LINE: what cannot be translated".
std::string translate(std::string_view text, const std::string& name);

// The translations of `sources`, and of the files that they include by #include "..." or <...> from their own
// folders and from `folders`. The keys are absolute paths. Texts that need no translation are included
// unchanged.
std::map<std::string, std::string> translate_all(const std::vector<std::string>& sources,
                                                 const std::vector<std::string>& folders);

// The names of the __global__ functions in the same files.
std::vector<std::string> kernels_of(const std::vector<std::string>& sources,
                                    const std::vector<std::string>& folders);

// Writes the texts that the translation changed to `directory`, with an overlay for clang's -ivfsoverlay that
// puts them in the originals' places. Returns the path of the overlay. A file that has not changed is not
// written again.
std::string write_overlay(const std::map<std::string, std::string>& translated, const std::string& directory);

// Writes all texts to the mirror of `directory` (base/mirror.h), for g++, which has no overlays: the compiler
// gets the copies of the sources, and the mirrors of `folders` before `folders` themselves. A copy begins with
// the name of its original, so that messages, __FILE__ and debug information have it. Copies of an earlier call
// that are not among the texts are removed.
void write_mirror(const std::map<std::string, std::string>& translated, const std::vector<std::string>& folders,
                  const std::string& directory);

}  // namespace attnfuzz
