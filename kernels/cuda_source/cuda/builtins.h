// Names that translated sources need besides cuda_words.h. In these sources warpSize is a variable, as
// in CUDA, so a namespace or a struct may have its own warpSize. Only cuda_words.h has the macro.
#pragma once

#include "kernels/executor/cuda_words.h"

namespace simt {
// Place::now() under a name that no source uses for a macro. Translations use it.
constexpr Place simt_here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return {file, line};
}
}  // namespace simt

// The executor defines this (threads/scheduler.cc), unless the source does, which nvcc accepts as well.
#undef warpSize
extern const int warpSize;
