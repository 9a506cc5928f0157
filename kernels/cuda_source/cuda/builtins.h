// Names that translated sources need besides CUDA's words. In them warpSize is a variable, as in CUDA, and no macro: a
// namespace or a struct may have a warpSize of its own. cuda_words.h alone has the macro.
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
