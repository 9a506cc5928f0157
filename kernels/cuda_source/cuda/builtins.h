// CUDA's built-in variables as objects, for sources that are translated: threadIdx, blockIdx, blockDim, gridDim
// and warpSize follow C++'s rules for names. A host variable may be called blockDim, a namespace may have a
// warpSize of its own, and `config.blockDim` is a member. cuda.h alone has macros of these names: kernels that
// are written for both back ends with kernels/primitives need no flag of the compiler for them.
//
// The members x, y and z are properties, which clang has with -fdeclspec (AttnfuzzKernel.cmake gives it to
// translated sources): their type is unsigned, as in CUDA. Without the flag the macros of the four stay.
#pragma once

#include "kernels/executor/cuda_words.h"

namespace simt {
// Place::now() by a name that no macro of a source has: translations use it.
constexpr Place simt_here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return {file, line};
}
}  // namespace simt

// The executor defines this (threads/scheduler.cc), unless the source does, which nvcc accepts as well.
#undef warpSize
extern const int warpSize;

#ifdef __is_identifier  // clang
#if !__is_identifier(__declspec)

#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim

#define SIMT_BUILTIN(Name, value)                                                                          \
  struct Name {                                                                                            \
    [[gnu::always_inline]] unsigned get_x() const { return all().x; }                                      \
    [[gnu::always_inline]] unsigned get_y() const { return all().y; }                                      \
    [[gnu::always_inline]] unsigned get_z() const { return all().z; }                                      \
    __declspec(property(get = get_x)) unsigned x;                                                          \
    __declspec(property(get = get_y)) unsigned y;                                                          \
    __declspec(property(get = get_z)) unsigned z;                                                          \
    operator uint3() const { return all(); }                                                               \
    operator dim3() const { return {all().x, all().y, all().z}; }                                          \
                                                                                                           \
   private:                                                                                                \
    [[gnu::always_inline]] const uint3& all() const { return static_cast<const Thread*>(current)->value; } \
  }

namespace simt {
SIMT_BUILTIN(ThreadIndex, index);
SIMT_BUILTIN(BlockIndex, geometry->block);
SIMT_BUILTIN(BlockSize, geometry->block_dim);
SIMT_BUILTIN(GridSize, geometry->grid_dim);
}  // namespace simt
#undef SIMT_BUILTIN

inline constexpr simt::ThreadIndex threadIdx;
inline constexpr simt::BlockIndex blockIdx;
inline constexpr simt::BlockSize blockDim;
inline constexpr simt::GridSize gridDim;

#endif
#endif
