// The kernels' modules, loaded into this process: those that were built with the
// tests, or others of the same contract that the environment names, as a run over
// mutants does:
//
//   ATTNFUZZ_FA1_LIBRARY=./libother.so kernels_test --gtest_filter='*fa1'
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "kernels/attention.h"

namespace attnfuzz {

inline const attn_kernel* load(const char* variable, const char* path) {
  if (const char* other = std::getenv(variable)) path = other;
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    ADD_FAILURE() << dlerror();
    return nullptr;
  }
  const auto kernel_at = reinterpret_cast<decltype(&attn_kernel_at)>(dlsym(library, "attn_kernel_at"));
  return kernel_at == nullptr ? nullptr : kernel_at(0);
}

inline const attn_kernel* kernel_named(const std::string& name) {
  static const attn_kernel* fa1 = load("ATTNFUZZ_FA1_LIBRARY", FA1_LIBRARY);
  static const attn_kernel* splitk = load("ATTNFUZZ_SPLITK_LIBRARY", SPLITK_LIBRARY);
  return name == "fa1" ? fa1 : splitk;
}

}  // namespace attnfuzz
