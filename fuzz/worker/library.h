// Loads a kernel library into the worker, and refuses one whose contract it does not know.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/attention.h"

namespace attnfuzz::worker {

struct Library {
  std::optional<attn_kernel> kernel;  // from attn_read(); none: refused, see `error`
  bool other_backend = false;         // refused: the kernel is of the other back end
  bool finite = false;                // attnfuzz_hosted.finite, of a hosted kernel
  int32_t cache = 0;                  // attnfuzz_hosted.cache
  // attnfuzz_hosted.tell, of a hosted kernel with a cache
  int32_t (*tell)(const char* json, char* text, uint64_t size) = nullptr;
  std::vector<attn_kernel> all;  // its kernels, of either back end
  uint64_t begin = 0, end = 0;   // addresses of its segments
  std::string note;              // attnfuzz_hosted.note, printed before a check begins
  std::string error;
};

// `selector`: a kernel's name, or its index in decimal; empty stands for the first kernel of this
// back end. A library may have two kernels of one name only if they are of different back ends;
// otherwise it is refused.
Library load(const std::string& path, const std::string& selector, attn_backend backend);

// The same for kernels that are already in this process. `of` names their origin.
Library choose(const attn_kernel* (*kernel_at)(uint32_t), const std::string& of, const std::string& selector,
               attn_backend backend);

}  // namespace attnfuzz::worker
