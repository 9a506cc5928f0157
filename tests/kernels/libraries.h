// Loads the kernels' modules into this process: the modules that were built with the
// tests, or those that the environment names. A run over mutants does the latter:
//
//   ATTNFUZZ_FA1_LIBRARY=./libother.so kernels_test --gtest_filter='*fa1'
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "kernels/attention.h"

namespace attnfuzz {

using KernelAt = decltype(&attn_kernel_at);

inline KernelAt load(const char* variable, const char* path) {
  if (const char* other = std::getenv(variable)) path = other;
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    ADD_FAILURE() << dlerror();
    return [](uint32_t) -> const attn_kernel* { return nullptr; };
  }
  return reinterpret_cast<KernelAt>(dlsym(library, "attn_kernel_at"));
}

inline KernelAt kernel_at_of(const std::string& name) {
  static const KernelAt fa1 = load("ATTNFUZZ_FA1_LIBRARY", FA1_LIBRARY);
  static const KernelAt splitk = load("ATTNFUZZ_SPLITK_LIBRARY", SPLITK_LIBRARY);
  // fa1 with its path for sm_90a on the executor (tests/bugs).
  static const KernelAt fa1h = load("ATTNFUZZ_FA1H_LIBRARY", FA1H_LIBRARY);
  static const KernelAt splitkh = load("ATTNFUZZ_SPLITKH_LIBRARY", SPLITKH_LIBRARY);
  static const KernelAt nsa_backward = load("ATTNFUZZ_NSA_BACKWARD_LIBRARY", NSA_BACKWARD_LIBRARY);
  static const KernelAt nsabh = load("ATTNFUZZ_NSABH_LIBRARY", NSABH_LIBRARY);  // with its variant wgmma (tests/bugs)
  static const KernelAt nsa_score = load("ATTNFUZZ_NSA_SCORE_LIBRARY", NSA_SCORE_LIBRARY);
  static const KernelAt fa1a = load("ATTNFUZZ_FA1A_LIBRARY", FA1A_LIBRARY);  // only fa1's mma path
  return name == "fa1"            ? fa1
         : name == "fa1h"         ? fa1h
         : name == "fa1a"         ? fa1a
         : name == "splitkh"      ? splitkh
         : name == "nsa_backward" ? nsa_backward
         : name == "nsabh"        ? nsabh
         : name == "nsa_score"    ? nsa_score
                                  : splitk;
}

inline const attn_kernel* kernel_named(const std::string& name) { return kernel_at_of(name)(0); }

}  // namespace attnfuzz
