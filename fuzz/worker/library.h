// Loads a kernel library into the worker, and refuses what it cannot speak to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/attention.h"

namespace attnfuzz::worker {

struct Library {
  const attn_kernel* kernel = nullptr;  // nullptr: refused, `error` says why and what to do
  std::vector<std::string> names;       // of all its kernels
  uint64_t begin = 0, end = 0;          // addresses of its segments
  std::string error;
};

// `selector`: a kernel's name, or its index in decimal; empty stands for the
// library's only or first kernel.
Library load(const std::string& path, const std::string& selector, attn_backend backend);

}  // namespace attnfuzz::worker
