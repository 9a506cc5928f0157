// What drawing and mutating cases should know of the target they are for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "properties/case/case.h"

namespace attnfuzz {

struct Refusal;  // features/feature.h

// What a kernel refuses when it is asked for that alone, and so is drawn for it
// in a few cases only: a check of nothing but refusals checks nothing.
struct Refused {
  std::vector<const Refusal*> those = {};
  std::optional<attn_domain> sizes = {};  // that it takes; nothing: any
  bool nothing() const { return those.empty() && !sizes; }
};

// Tiles by which a variant's plan goes over heads of at most so many columns.
struct Tiling {
  int32_t variant = 0;
  int64_t most_dim = 256;
  int64_t q = 64, k = 64;
};

class Covering;  // properties/draw/covering.h

struct GeneratorConfig {
  int32_t variants = 0;                                 // of the kernel
  std::vector<int64_t> tiles_q = {64}, tiles_k = {64};  // of variant 1; its plans tell
  std::vector<Tiling> tilings = {};  // of all variants, by ascending most_dim; empty: not known
  bool splits = false;               // whether num_splits means something to it
  Refused refused = {};
  std::vector<const Refusal*> never = {};  // what it promises nothing of, and cannot refuse: in no case at all
  std::optional<attn_domain> domain = {};  // what the kernel says that it takes
  // Upper end of sizes: about as many multiply-adds (b*h*sq*sk*(dqk+dv)) as a case may cost.
  int64_t work = 3'000'000;
  // Which classes of a case are asked for together; none: each by itself.
  std::shared_ptr<const Covering> covering = {};
};

// By which tiles a case will run; the largest that there are where that is not known.
inline Tiling tiling_of(const GeneratorConfig& config, const Case& c) {
  const int64_t dim = std::max(c.problem.dim_qk, c.problem.dim_v);
  for (const Tiling& tiling : config.tilings) {
    if (tiling.variant == c.env.variant && dim <= tiling.most_dim) return tiling;
  }
  return {.q = std::ranges::max(config.tiles_q), .k = std::ranges::max(config.tiles_k)};
}

}  // namespace attnfuzz
