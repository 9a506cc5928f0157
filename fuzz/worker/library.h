// Loads a kernel library into the worker, and refuses what it cannot speak to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/attention.h"

namespace attnfuzz::worker {

struct Library {
  std::optional<attn_kernel> kernel;  // as attn_read() gives it; none: refused, `error` says why and what to do
  bool other_backend = false;         // refused because the kernel is of the back end that this worker is not
  bool finite = false;                // of a hosted kernel: hosted.h
  std::vector<attn_kernel> all;       // its kernels, of either back end
  uint64_t begin = 0, end = 0;        // addresses of its segments
  std::string note;                   // likewise: what a check says before it begins
  std::string error;
};

// `selector`: a kernel's name, or its index in decimal; empty stands for the
// first kernel of this back end. A name may be there once for each back end; a library in which it is there
// twice for one is refused.
Library load(const std::string& path, const std::string& selector, attn_backend backend);

// The same of kernels that are here already: `of` names where they come from.
Library choose(const attn_kernel* (*kernel_at)(uint32_t), const std::string& of, const std::string& selector,
               attn_backend backend);

}  // namespace attnfuzz::worker
