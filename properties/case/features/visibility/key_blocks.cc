// Keys that stand for blocks of keys, as a compression makes them (ATTN_FEATURE_KEY_STEP, and the operation nsa_score,
// whose keys always do). compressing.cc handles the sizes of the blocks and their description for all of these.
#include "properties/case/places/key_blocks.h"

#include <algorithm>

#include "properties/case/features/feature.h"
#include "reference/semantics.h"

namespace attnfuzz {

void give_up_key_blocks(Case& c) {
  Problem& p = c.problem;
  if (!has_key_blocks(p) || p.scores_blocks()) return;
  if (p.key_lengths) {
    for (int64_t& length : *p.key_lengths) length = keys_below(p, length);
  }
  p.key_step = p.key_offset = 0;
}

}  // namespace attnfuzz

namespace attnfuzz::feature {
namespace {

bool has_key_blocks(const Case& c) { return has_key_blocks(c.problem); }

// The percentage of cases that get key blocks, for a kernel that knows them.
constexpr int64_t kKeyBlocksPercent = 12;
constexpr int64_t kMost = int64_t{1} << 16;  // keys of a block, and from one to the next

// Draws blocks of models, adjacent blocks, overlapping blocks and blocks with gaps. Some are so far apart that
// the keys spread over all queries.
void draw_blocks(Rng& rng, Problem& p) {
  using Blocks = std::pair<int64_t, int64_t>;  // keys from a block to the next, keys of a block
  const auto [step, length] = rng.pick<Blocks>({{16, 32},
                                                {16, 32},
                                                {4, 8},
                                                {2, 4},
                                                {4, 4},
                                                {1, 2},
                                                {1, 5},
                                                {2, 1},
                                                {5, 3},
                                                {1, 1},
                                                {64, 64},
                                                {rng.range(1, 9), rng.range(1, 20)}});
  p.key_step = step, p.key_offset = length - 1;
  if (p.seq_k > 0 && p.seq_q > p.seq_k && rng.percent(50)) p.key_step = std::min(p.seq_q / p.seq_k, kMost);
}

// Draws the length, in positions, of an entry that has n keys: exactly to the end of its last block, one short
// of the next block, one short of the last block, or any length with n keys.
int64_t draw_length(Rng& rng, const Problem& p, int64_t n) {
  if (n < 0) return n;
  if (n >= p.seq_k) return most_positions(p, n);
  const int64_t most = most_positions(p, n);
  if (n == 0) return rng.range(0, most);
  const int64_t least = most - p.key_step + 1;
  return rng.weighted<int64_t>({{35, least}, {25, most}, {25, least - 1}, {15, rng.range(least, most)}});
}

// True if the kernel supports what this limit excludes.
bool takes(const GeneratorConfig& config, Limit limit) {
  return std::ranges::none_of(config.refused.those, [=](const Refusal* one) { return one->limit == limit; }) &&
         std::ranges::none_of(config.never, [=](const Refusal* one) { return one->limit == limit; });
}

void draw_key_blocks(const DrawContext& context, Case& c) {
  Rng& rng = context.rng;
  Problem& p = c.problem;
  if ((context.config.features & ATTN_FEATURE_KEY_STEP) == 0 || !rng.percent(kKeyBlocksPercent)) return;
  if ((p.features & kOperations) != 0 || p.slopes) return;
  draw_blocks(rng, p);
  const auto& domain = context.config.domain;
  if (rng.percent(70) && (!domain || domain->causal != 1)) p.causal = true;
  if (rng.percent(50)) p.align = ATTN_BOTTOM_RIGHT;
  if (domain && domain->align != 0) p.align = domain->align - 1;
  if (!p.key_lengths && rng.percent(40) && takes(context.config, Limit::kNoKeyLengths)) {
    p.key_lengths.emplace();
    for (int64_t b = 0; b < p.batch; ++b) p.key_lengths->push_back(rng.range(0, p.seq_k));
  }
  if (!p.key_lengths) return;
  for (int64_t& length : *p.key_lengths) length = draw_length(rng, p, length);
}

Complaint illegal_key_blocks(const Case& c) {
  const Problem& p = c.problem;
  if (!has_key_blocks(c)) return std::nullopt;
  if (p.slopes) return "keys that stand for blocks have no slopes, but slopes is set";
  if (auto why = outside("key_step", p.key_step, 1, kMost)) return why;
  return outside("key_offset", p.key_offset, 0, kMost);
}

void tidy_key_blocks(Case& c) {
  Problem& p = c.problem;
  if (!has_key_blocks(c)) return;
  if ((p.features & kWithoutKeyBlocks) != 0 || p.slopes) give_up_key_blocks(c);
  if (!has_key_blocks(c)) return;
  p.key_step = std::min(p.key_step, kMost);
  p.key_offset = std::clamp<int64_t>(p.key_offset, 0, kMost);
}

}  // namespace

extern constinit const Feature key_blocks = checked({
    // kMutations: compressing.cc moves the numbers
    // kRefusals: a kernel that does not know key blocks never gets them
    .without = {kShrinkIntegers, kAlternatives, kCrossoverGroups, kNumbers, kMutations, kRefusals, kWords},
    .shrink_toggles = {12,
                       {{"keys of blocks", [](const Case& c) { return has_key_blocks(c) && !c.problem.scores_blocks(); },
                         give_up_key_blocks,
                         [](Case& to, const Case& from, int choice) {
                           to.problem.key_step = choice == 0 ? 2 : from.problem.key_step;
                           to.problem.key_offset = choice == 0 ? 1 : from.problem.key_offset;
                           return choice < 2;
                         },
                         Trait::kHidesKeys}}},
    .cost = [](const Case& c, Cost& cost) { cost.count(has_key_blocks(c)); },
    .canonical_seeds =
        [](int64_t, auto& seeds) {
          for (const auto& [step, offset] : {std::pair<int64_t, int64_t>{1, 0}, {1, 1}, {2, 0}, {2, 1}}) {
            for (const bool causal : {false, true}) {
              seeds.push_back([=](Case& c) {
                c.problem.key_step = step, c.problem.key_offset = offset;
                c.problem.causal = causal;
              });
            }
          }
        },
    .draw = {Phase::kLater, draw_key_blocks},
    .tags = {{"keys of blocks", [](const Tiled& x) { return has_key_blocks(x.p); }},
             {"keys of blocks: some keys apart",
              [](const Tiled& x) { return has_key_blocks(x.p) && x.p.key_step > 1; }},
             {"keys of blocks: lengths",
              [](const Tiled& x) { return has_key_blocks(x.p) && x.p.key_lengths; }}},
    .tidy = tidy_key_blocks,
    .illegal = illegal_key_blocks,
});

}  // namespace attnfuzz::feature
