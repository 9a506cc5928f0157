// The draw, phase by phase: sizes, what may be seen, values, memory. What is drawn
// is the features' own (features/feature.h); generator.cc puts the phases together.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "properties/case/feature.h"
#include "properties/draw/covering.h"

namespace attnfuzz {

// The features of a phase; sizes may be more than a case may cost.
void draw_phase(Phase phase, const GeneratorConfig& config, Rng& rng, Case& c);
// One of a kernel's tile sizes; mostly the first, which is that of usual head dimensions.
int64_t a_tile(Rng& rng, const std::vector<int64_t>& tiles);
// More query heads, batch entries or KV heads than a grid has rows, by `what` modulo 3: whoever
// launches nothing leaves O unwritten. Too dear to be drawn often.
void draw_many_heads(const GeneratorConfig& config, Rng& rng, uint64_t what, Case& c);
// One sequence longer than 16 bits can count, signed or not, or than most cases can pay for; and the other
// short.
struct Longest {
  enum Reach : uint8_t { kSigned, kUnsigned, kShort };
  bool keys;  // or queries
  Reach reach;
};
void draw_long(const GeneratorConfig& config, Rng& rng, Longest what, Case& c);
// Takes out what the kernel refuses, as far as it has been drawn; within so much work.
void strip_refused(const Refused& refused, Case& c, int64_t work = INT64_MAX);
// The configuration for a case that is spared what the kernel refuses: sizes that it refuses are as good as not
// declared. Nothing: it refuses none.
std::optional<GeneratorConfig> spared_sizes(const GeneratorConfig& config);
// Moves what has been drawn into what the kernel declares, within config.work.
void fit_domain(const GeneratorConfig& config, Case& c);
// Of the least case inside of it that has so many keys, or as many as it takes, as GeneratorConfig::work
// counts.
int64_t least_work(const attn_domain& domain, int64_t keys = 1);
inline constexpr int64_t kPercentDearest = 14;
// Makes drawn sizes affordable, and as far as they can be keeps them what `row` asks for: in so many of 100
// cases at the price of the dearest that there may be.
void fit_sizes(const GeneratorConfig& config, Rng& rng, Case& c, std::span<const AxisRequest> row = {},
               int64_t percent_dear = kPercentDearest);

}  // namespace attnfuzz
