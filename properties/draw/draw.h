// The draw, phase by phase: sizes, visibility, values, memory. Each feature draws its own part of a case
// (case/features/feature.h); generator.cc puts the phases together.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "properties/case/features/feature.h"
#include "properties/draw/covering.h"

namespace attnfuzz {

// Draws the features of a phase. Sizes may come out larger than a case may cost.
void draw_phase(Phase phase, const GeneratorConfig& config, Rng& rng, Case& c);
// One of the kernel's tile sizes; usually the first, which is the one for common head dimensions.
int64_t a_tile(Rng& rng, const std::vector<int64_t>& tiles);
// Draws more query heads, batch entries or KV heads than a grid has rows; `what` modulo 3 selects which. If a
// kernel's launch fails for so many, O stays unwritten. Such cases cost too much to be frequent.
void draw_many_heads(const GeneratorConfig& config, Rng& rng, uint64_t what, Case& c);
// One long length: at least 2^15 (kSigned), at least 2^16 (kUnsigned), or 512 to 32,767 (kShort). The other
// length is short.
struct Longest {
  enum Reach : uint8_t { kSigned, kUnsigned, kShort };
  bool keys;  // true: keys; false: queries
  Reach reach;
};
void draw_long(const GeneratorConfig& config, Rng& rng, Longest what, Case& c);
// Removes what the kernel refuses from what has been drawn so far, within `work` multiply-adds.
void strip_refused(const Refused& refused, Case& c, int64_t work = INT64_MAX);
// The configuration for a case that avoids what the kernel refuses: refused sizes count as not declared.
// Empty if no size is refused.
std::optional<GeneratorConfig> spared_sizes(const GeneratorConfig& config);
// Moves what has been drawn into the kernel's domain, within config.work.
void fit_domain(const GeneratorConfig& config, Case& c);
// The work of the smallest case in the domain that has `keys` keys, or as many as the domain requires.
// Counted as GeneratorConfig::work counts.
int64_t least_work(const attn_domain& domain, int64_t keys = 1);
inline constexpr int64_t kPercentDearest = 14;
// Makes drawn sizes affordable, and keeps the classes of `row` as far as possible. `percent_dear` percent of
// the cases may cost as much as any case may.
void fit_sizes(const GeneratorConfig& config, Rng& rng, Case& c, std::span<const AxisRequest> row = {},
               int64_t percent_dear = kPercentDearest);

}  // namespace attnfuzz
