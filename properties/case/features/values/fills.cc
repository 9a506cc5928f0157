// The values of the inputs that have a fill: Q, K and V, and the results that a merge is given.
#include <algorithm>
#include <cstdlib>
#include <ranges>

#include "properties/case/features/values/intervals.h"
#include "properties/case/places/geometry.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kLogits = [](auto& c) { return std::tie(c.q, c.k); };
constexpr auto kQ = [](auto& c) { return std::tie(c.q); };
constexpr auto kK = [](auto& c) { return std::tie(c.k); };
constexpr auto kV = [](auto& c) { return std::tie(c.v); };
// True for a row of kTensors with a fill that no earlier row has. A cache and its new rows have the fills of K
// and V.
constexpr bool brings_fill(const TensorSpec& spec) {
  return fill_of(spec.id) != nullptr && std::ranges::none_of(kTensors, [&](const TensorSpec& other) {
           return other.id < spec.id && fill_of(other.id) == fill_of(spec.id);
         });
}
constexpr auto kAll = [] {
  std::array<Fill Case::*, std::ranges::count_if(kTensors, brings_fill)> all = {};
  std::ranges::transform(kTensors | std::views::filter(brings_fill), all.begin(),
                         [](const TensorSpec& spec) { return fill_of(spec.id); });
  return all;
}();

// The name of the first tensor of the problem that has the fill; nullptr: none has.
const char* user_of(Fill Case::* fill, uint64_t features) {
  for (const TensorSpec& spec : kTensors) {
    if (fill_of(spec.id) == fill && in_problem(spec, features)) return spec.name;
  }
  return nullptr;
}

Fill fill(Rng& rng, FillKind kind, int exponent = 0) {
  return {.kind = kind, .exponent = exponent, .seed = rng.bits() % 65536};
}

// All scores of a row lie far below zero: below a running maximum that starts at -1e4 instead of -inf,
// seldom below -1e9, -1e20 or -1e30. The scores are about sqrt(dim_qk) / 4 * 2^(exponents of Q and K). They
// differ so much that the largest is certain. Q K^T in fp16 ends at 2^32.
void draw_far_below(Rng& rng, Case& c) {
  const int most = c.problem.dtype == ATTN_F16 ? 30 : 106;
  const auto exponent = static_cast<int>(rng.percent(85) ? rng.range(14, 17) : rng.range(18, most));
  c.q = fill(rng, FillKind::kUniform, exponent / 2);
  c.k = fill(rng, FillKind::kNegative, exponent - exponent / 2);
}

// Regimes of Q and K, hence of the logits. No single regime finds every bug.
enum class Regime {
  kGaussian,
  kUniform,
  kPeaked,
  kZeroQ,
  kNegative,
  kFarBelow,
  kEqual,
  kBlocks,
  kLevels,
  kOneHot,
  kSmallInt,
  kPosition,
  kSubnormal,
  kHuge,
  kConstant
};

Regime draw_regime(Rng& rng) {
  using enum Regime;
  return rng.weighted<Regime>({{29, kGaussian},
                               {9, kUniform},
                               {10, kPeaked},
                               {7, kZeroQ},
                               {5, kNegative},
                               {3, kFarBelow},
                               {6, kEqual},
                               {4, kBlocks},
                               {4, kLevels},
                               {5, kOneHot},
                               {6, kSmallInt},
                               {4, kPosition},
                               {3, kSubnormal},
                               {1, kHuge},
                               {4, kConstant}});
}

void draw_logits(const DrawContext& context, Case& c) {
  using enum Regime;
  Rng& rng = context.rng;
  const auto both = [&](FillKind kind, int exponent = 0) {
    c.q = fill(rng, kind, exponent);
    c.k = fill(rng, kind, exponent);
  };
  switch (draw_regime(rng)) {
    case kGaussian:
      return both(FillKind::kGaussian);
    case kUniform:
      return both(FillKind::kUniform);
    case kPeaked:
      // A few weights dominate, or all weights of a tile vanish beside those of other tiles.
      c.q = fill(rng, FillKind::kGaussian, static_cast<int>(rng.range(3, 8)));
      c.k = fill(rng, FillKind::kGaussian);
      return;
    case kZeroQ:
      c.q = fill(rng, FillKind::kZero);
      c.k = fill(rng, FillKind::kGaussian);
      return;
    case kNegative: {
      const auto scale_q = static_cast<int>(rng.range(0, 5));
      c.q = fill(rng, FillKind::kUniform, scale_q);
      const auto scale_k = static_cast<int>(rng.range(0, 5));
      c.k = fill(rng, FillKind::kNegative, scale_k);
      return;
    }
    case kFarBelow:
      return draw_far_below(rng, c);
    case kEqual:
      c.q = fill(rng, FillKind::kGaussian);
      c.k = fill(rng, FillKind::kSameRows);
      return;
    case kBlocks:
      return both(FillKind::kBlocks);
    case kLevels:
      c.q = fill(rng, FillKind::kGaussian, static_cast<int>(rng.range(0, 3)));
      c.k = {.kind = FillKind::kLevels, .seed = draw_interval(context, c.problem)};
      return;
    case kOneHot:
      c.q = fill(rng, FillKind::kGaussian);
      c.k = fill(rng, FillKind::kOneHot, 2);
      return;
    case kSmallInt:
      return both(FillKind::kSmallInt);
    case kPosition:
      return both(FillKind::kPosition, -6);
    case kSubnormal:
      c.q = fill(rng, FillKind::kSubnormal);
      c.k = fill(rng, FillKind::kGaussian);
      return;
    case kHuge:
      c.q = fill(rng, FillKind::kHuge);
      c.k = fill(rng, FillKind::kGaussian, -8);
      return;
    case kConstant:
      return both(FillKind::kConstant);
  }
}

void draw_fills(const DrawContext& context, Case& c) {
  Rng& rng = context.rng;
  draw_logits(context, c);
  const auto kind = rng.weighted<FillKind>({{39, FillKind::kGaussian},
                                            {5, FillKind::kIntervals},
                                            {9, FillKind::kConstant},
                                            {9, FillKind::kOneHot},
                                            {9, FillKind::kPosition},
                                            {9, FillKind::kSmallInt},
                                            {7, FillKind::kUniform},
                                            {4, FillKind::kBlocks},
                                            {3, FillKind::kSubnormal},
                                            {3, FillKind::kSignedZero},
                                            {3, FillKind::kHuge}});
  const int exponent = rng.percent(85) ? 0 : static_cast<int>(rng.range(-6, 6));
  c.v = fill(rng, kind, exponent);
  if (has_intervals(kind)) c.v.seed = draw_interval(context, c.problem);
}

// Stays within the range by which the draw scales its fills.
template <Fill Case::* kFill>
bool mutate_fills(const DrawContext& context, Case& c) {
  Rng& rng = context.rng;
  Fill& fill = c.*kFill;
  if (rng.coin()) {
    fill.seed = has_intervals(fill.kind) ? draw_interval(context, c.problem) : rng.bits() % 65536;
  } else {
    fill.exponent = std::clamp<int>(fill.exponent + (rng.coin() ? 1 : -1), -8, 5);
  }
  return true;
}

void say_fills(const Case& c, Sentence& words) {
  const auto put = [&words](const char* names, const Fill& f) {
    std::string text = cat(names, " ", to_string(f.kind));
    if (f.exponent != 0) text += cat(" x 2^", f.exponent);
    if (has_intervals(f.kind)) {
      text += cat(" of ", f.seed, " rows");
    } else if (f.seed != 0) {
      text += cat(" (seed ", f.seed, ")");
    }
    if (f.version != 1) text += cat(" (version ", f.version, ")");
    words.push_back(text);
  };
  if ((c.problem.features & kOperations) != 0) {
    for (const TensorSpec& spec : kTensors) {
      const auto of = fill_of(spec.id);
      if (of && is_given(c, spec.id) && user_of(of, c.problem.features) == spec.name) put(spec.name, c.*of);
    }
    return;
  }
  if (c.problem.latent) {
    if (c.q == c.k) return put("Q, K", c.q);
    put("Q", c.q);
    return put("K", c.k);
  }
  if (c.q == c.k && c.k == c.v) return put("Q, K, V", c.q);
  put(c.q == c.k ? "Q, K" : "Q", c.q);
  if (c.k == c.v) return put("K, V", c.k);
  if (c.q != c.k) put("K", c.k);
  put("V", c.v);
}

bool has_seed(FillKind kind) {
  return kind != FillKind::kZero && kind != FillKind::kConstant && kind != FillKind::kOneHot;
}

void fills_cost(const Case& c, Cost& cost) {
  int64_t kinds = 0, exponents = 0, seeded = 0;
  for (Fill Case::* f : kAll) {
    kinds += static_cast<int>((c.*f).kind);
    exponents += std::abs(int64_t{(c.*f).exponent});
    seeded += (c.*f).seed != 0;
  }
  // A seed that matters is worse than a kind that is less simple.
  cost.at(Rank::kFills).add(seeded);
  cost.add(kinds);
  cost.add(exponents);
  for (Fill Case::* f : kAll) {
    cost.add(static_cast<int>((c.*f).kind));
    cost.distance((c.*f).exponent, 0);
    cost.add((c.*f).version);
  }
  cost.at(Rank::kFillSeeds);
  for (Fill Case::* f : kAll) cost.bits((c.*f).seed);
}

}  // namespace

extern constinit const Feature fills = checked({
    .without = {kShrinkToggles, kShrinkIntegers, kAlternatives, kCanonicalSeeds, kNumbers, kRefusals},
    .cost = fills_cost,
    .draw = {Phase::kValues, draw_fills},
    .crossover_groups = {{"logits", 5, take<kLogits>},
                         {"q", 1, take<kQ>},
                         {"k", 1, take<kK>},
                         {"v", 4, take<kV>}},
    .mutations = {mutate_fills<&Case::v>, mutate_fills<&Case::k>, mutate_fills<&Case::q>},
    .tags = {{"equal scores", [](const Tiled& x) { return x.c.q.kind == FillKind::kZero || x.p.scale == 0; }}},
    .words = {{Section::kData, 0, say_fills}},
    .tidy =
        [](Case& c) {
          for (const TensorSpec& spec : kTensors) {
            const auto of = fill_of(spec.id);
            if (of && !user_of(of, c.problem.features)) c.*of = Fill{};
          }
          if (c.problem.latent) c.v = Fill{};
          for (Fill Case::* f : kAll) {
            if (!has_seed((c.*f).kind)) (c.*f).seed = 0;
            if ((c.*f).kind == FillKind::kZero) (c.*f).exponent = 0;
            if (has_intervals((c.*f).kind)) (c.*f).seed = std::max<uint64_t>((c.*f).seed, 1);
          }
        },
    .illegal = [](const Case& c) -> Complaint {
      for (const TensorSpec& spec : kTensors) {
        if (!fill_of(spec.id)) continue;
        const Fill& fill = c.*fill_of(spec.id);
        if (fill != Fill{} && !user_of(fill_of(spec.id), c.problem.features))
          return cat(spec.name, " has values, but the problem's operation has no such tensor");
        if (auto why = bad_fill(spec.name, fill)) return why;
      }
      if (c.problem.latent && c.v != Fill{}) return "v has values, but latent makes it K's first columns";
      return std::nullopt;
    },
});

}  // namespace attnfuzz::feature
