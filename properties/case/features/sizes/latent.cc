// Head dimensions above 256, and V as the first columns of K: the decode of multi-head latent attention.
#include <algorithm>
#include <cmath>

#include "properties/case/features/domain.h"
#include "properties/case/features/feature.h"
#include "properties/case/size_set.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kLatentFields = [](auto& c) { return std::tie(c.problem.latent); };

// The share of cases with wide heads or a latent V, for a kernel that knows them.
constexpr int64_t kLatentPercent = 16;
// A longer case, or one of more heads, is left as it was drawn.
constexpr int64_t kMostLatentKeys = 2048;

int64_t work_of(const Problem& p) { return p.batch * p.heads_q * p.seq_q * p.seq_k * (p.dim_qk + p.dim_v); }

int64_t some_keys(const DrawContext& context) {
  Rng& rng = context.rng;
  if (rng.percent(30)) return rng.range(1, 96);
  return std::max<int64_t>(context.tile_k * rng.range(1, 8) + rng.pick<int64_t>({-1, 0, 0, 1, 17}), 1);
}

// Draws the sizes of a model's decode: K and V share the 512 columns of each token's latent, and 64 more
// columns of K carry its position.
void draw_absorbed(const DrawContext& context, Problem& p) {
  Rng& rng = context.rng;
  p.dim_qk = 576, p.dim_v = 512;
  p.heads_kv = 1;
  p.heads_q = rng.percent(85) ? rng.pick<int64_t>({16, 16, 32, 64, 128}) : rng.range(1, 40);
  p.seq_q = rng.range(1, 4);
  p.seq_k = some_keys(context);
  p.causal = rng.percent(85);
  p.align = rng.percent(90) ? ATTN_BOTTOM_RIGHT : ATTN_TOP_LEFT;
  // Q and K have 192 columns in prefill; decode keeps that scale, though absorbed projections make 576 of them.
  if (rng.percent(85)) p.scale = 1 / std::sqrt(192.0f);
}

// Sizes on and beside the borders of what kernels are compiled for.
void draw_dims(Rng& rng, bool wide, Problem& p) {
  using Dims = std::pair<int64_t, int64_t>;
  const auto [qk, v] =
      wide ? rng.pick<Dims>({{264, 257},
                             {257, 264},
                             {512, 512},
                             {576, 512},
                             {576, 512},
                             {320, 64},
                             {16, 512},
                             {rng.range(257, 576), rng.range(1, 512)},
                             {511, 513},
                             {577, 512},
                             {1024, 1024}})
           : rng.pick<Dims>({{192, 128}, {64, 64}, {72, 64}, {128, 127}, {256, 256}, {rng.range(1, 256), 256}});
  p.dim_qk = qk, p.dim_v = v;
}

// Gives up entries, heads, queries and keys, in a random order, until the case costs what others do.
void make_affordable(const DrawContext& context, Problem& p) {
  Rng& rng = context.rng;
  const int64_t most = context.config.work * rng.pick<int64_t>({1, 1, 2, 4});
  const auto halve = [](int64_t& n, int64_t least) { n = std::max(n / 2, least); };
  while (work_of(p) > most) {
    const Problem before = p;
    switch (rng.range(0, 3)) {
      case 0:
        halve(p.batch, 1);
        break;
      case 1:
        if (const int64_t group = p.heads_q / p.heads_kv; group > 1)
          p.heads_q = group / 2 * p.heads_kv;
        else
          halve(p.heads_kv, 1), p.heads_q = p.heads_kv;
        break;
      case 2:
        halve(p.seq_q, 1);
        break;
      default:
        halve(p.seq_k, 1);
    }
    if (p == before && p.batch == 1 && p.heads_q == 1 && p.seq_q == 1 && p.seq_k == 1) return;
  }
}

// Draws again the fields that depend on the sizes.
void draw_rest(const DrawContext& context, Problem& p) {
  Rng& rng = context.rng;
  if (p.key_lengths) {
    p.key_lengths->clear();
    for (int64_t b = 0; b < p.batch; ++b)
      p.key_lengths->push_back(rng.percent(25) ? p.seq_k : rng.range(0, p.seq_k));
  }
  if (!context.config.splits) return;
  const int64_t tiles = std::max<int64_t>((p.seq_k + context.tile_k - 1) / context.tile_k, 1);
  p.num_splits = rng.pick<int64_t>({0, 1, 2, 3, tiles, tiles + 2, rng.range(1, 2 * tiles)});
}

// True for sizes that were declared for wide heads.
bool names_wide(const attn_sizes& dims) {
  constexpr int64_t kUsual = contract::kUsualDims;
  return dims.least > kUsual || (dims.count > 0 && nearest(dims, contract::kMostDims) > kUsual);
}

// The sizes that a kernel was found to take were tried with heads of up to 256 columns. They say
// nothing about wider heads.
attn_domain domain_of(const GeneratorConfig& config, const Problem& p) {
  attn_domain domain = *config.domain;
  if (!config.refused.sizes || std::max(p.dim_qk, p.dim_v) <= contract::kUsualDims) return domain;
  if (names_wide(domain.dim_qk) || names_wide(domain.dim_v)) return domain;
  domain.dim_qk = domain.dim_v = {};
  domain.equal_dims = 0;
  return domain;
}

void draw_latent(const DrawContext& context, Case& c) {
  Rng& rng = context.rng;
  const bool wide = (context.config.features & ATTN_FEATURE_WIDE) != 0,
             latent = (context.config.features & ATTN_FEATURE_LATENT) != 0;
  if ((!wide && !latent) || !rng.percent(kLatentPercent)) return;
  Problem& p = c.problem;
  if ((p.features & kOperations) != 0 || std::max(p.seq_q, p.seq_k) > kMostLatentKeys || has_many_heads(p) ||
      p.heads_kv == 0)
    return;
  if (wide && latent && rng.percent(55)) {
    draw_absorbed(context, p);
    p.latent = rng.percent(85);
  } else {
    draw_dims(rng, wide && (!latent || rng.percent(75)), p);
    p.latent = latent && rng.percent(60);
  }
  make_affordable(context, p);
  draw_rest(context, p);
  if (p.latent) p.dim_v = std::min(p.dim_v, p.dim_qk);
  if (context.config.domain) fit(domain_of(context.config, c.problem), c);
}

void say_latent(const Case& c, Sentence& words) {
  if (c.problem.latent) words.push_back(cat("V the first ", c.problem.dim_v, " columns of K"));
}

bool is_wide(const Tiled& x) { return std::max(x.p.dim_qk, x.p.dim_v) > contract::kUsualDims; }

}  // namespace

extern constinit const Feature latent = checked({
    // kRefusals: a kernel that does not know a latent V never gets it
    .without = {kShrinkIntegers, kAlternatives, kCanonicalSeeds, kCrossoverGroups, kNumbers, kMutations,
                kRefusals},
    // V gets its own memory, with the same values.
    .shrink_toggles = {12,
                       {{"a latent V", is_set<kLatentFields>, store_v_apart,
                         [](Case& to, const Case& from, int choice) {
                           take<kLatentFields>(to, from);
                           return choice == 0;
                         }}}},
    .cost =
        [](const Case& c, Cost& cost) {
          cost.count(c.problem.latent);
          if (c.problem.latent) cost.at(Rank::kOther).add(1);
        },
    .draw = {Phase::kLater, draw_latent},
    .tags = {{"latent V", [](const Tiled& x) { return x.p.latent; }}, {"dims above 256", is_wide}},
    .words = {{Section::kNumber, 2, say_latent}},
    .tidy =
        [](Case& c) {
          Problem& p = c.problem;
          if ((p.features & kOperations) != 0) p.latent = false;
          if (!p.latent) return;
          p.dim_v = std::min(p.dim_v, p.dim_qk);
          c.once.v = {};
        },
    .illegal = [](const Case& c) -> Complaint {
      const Problem& p = c.problem;
      if (!p.latent) return std::nullopt;
      if ((p.features & kOperations) != 0) return "latent is set, but only the forward pass has a latent V";
      if (c.once.v != Once{}) return "once.v is set, but latent makes V K's first columns";
      return outside("dim_v", p.dim_v, 1, p.dim_qk);
    },
});

}  // namespace attnfuzz::feature
