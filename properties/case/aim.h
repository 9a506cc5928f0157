// What drawing and mutating cases should know of the target they are for.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/attention.h"

namespace attnfuzz {

struct Refusal;  // features/feature.h

// What a kernel refuses when it is asked for that alone, and so is drawn for it
// in a few cases only: a check of nothing but refusals checks nothing.
struct Refused {
  std::vector<const Refusal*> those = {};
  std::optional<attn_domain> sizes = {};  // that it takes; nothing: any
  bool nothing() const { return those.empty() && !sizes; }
};

struct Aim {
  int32_t variants = 0;                                 // of the kernel
  std::vector<int64_t> tiles_q = {64}, tiles_k = {64};  // of variant 1; its plans tell
  bool splits = false;                                  // whether num_splits means something to it
  Refused refused = {};
  std::optional<attn_domain> domain = {};  // what the kernel says that it takes
  // Upper end of sizes: about as many multiply-adds (b*h*sq*sk*(dqk+dv)) as a case may cost.
  int64_t work = 3'000'000;
};

}  // namespace attnfuzz
