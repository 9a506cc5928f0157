// The facts about the target that the draw and the mutations use.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "properties/case/case.h"

namespace attnfuzz {

struct Refusal;  // feature.h

// Requests that a kernel is known to refuse. The draw uses them in a few cases only, because a check full
// of refusals checks nothing.
struct Refused {
  std::vector<const Refusal*> those = {};
  std::optional<attn_domain> sizes = {};  // the sizes that it takes; empty: any
  bool nothing() const { return those.empty() && !sizes; }
};

// The tiles of a variant for head dimensions up to `most_dim` columns.
struct Tiling {
  int32_t variant = 0;
  int64_t most_dim = 256;
  int64_t q = 64, k = 64;
};

class Covering;  // properties/draw/covering.h

// The default budget of a case on a GPU. The tiles of the kernel's own choice are large there, and three of them should
// fit.
inline constexpr int64_t kGpuWork = 6'000'000;

struct GeneratorConfig {
  int32_t variants = 0;                                 // number of variants
  std::vector<int64_t> tiles_q = {64}, tiles_k = {64};  // tiles of the usual variant, from its plans
  std::vector<Tiling> tilings = {};  // of all variants, by ascending most_dim; empty: not known
  bool splits = false;               // true if the kernel uses num_splits
  // True if the kernel runs on a GPU. Most cases then leave the variant to the kernel and have an H200's environment,
  // as in its users' calls. On a CPU such cases would cost more than others.
  bool on_gpu = false;
  uint64_t features = 0;             // bits of attn_kernel.features
  // The bits of `features` whose cases are judged one by one, not in batches.
  uint64_t slow = 0;
  Refused refused = {};
  std::vector<const Refusal*> never = {};  // never drawn: the kernel neither supports nor can refuse it
  std::optional<attn_domain> domain = {};  // what the kernel declares to take
  // The most that a case may cost, in multiply-adds (b*h*sq*sk*(dqk+dv)), approximately.
  int64_t work = 3'000'000;
  // The most that a case with a long row may cost on a GPU, likewise. 0: cases are drawn for a CPU. If it is not 0, one
  // case in ten has a long row (draw/long_rows.h).
  int64_t device_work = 0;
  // True if cases are judged in batches on a GPU. Few of them then have rows that lie too far apart for a batch
  // (far_blocks.h).
  bool in_batches = false;
  // The most elements of a tensor.
  int64_t elements = 4'000'000;
  // Draws the classes of axes that one case should have together; null: none.
  std::shared_ptr<const Covering> covering = {};
};

// The tiles that the case's variant has for its columns; if they are not known, the largest tiles of all.
inline Tiling tiling_of(const GeneratorConfig& config, const Case& c) {
  const int64_t dim = std::max(c.problem.dim_qk, c.problem.dim_v);
  for (const Tiling& tiling : config.tilings) {
    if (tiling.variant == c.env.variant && dim <= tiling.most_dim) return tiling;
  }
  return {.q = std::ranges::max(config.tiles_q), .k = std::ranges::max(config.tiles_k)};
}

}  // namespace attnfuzz
