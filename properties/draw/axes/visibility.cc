// Of visibility: what hides keys. And of values.
#include <algorithm>
#include <cmath>

#include "properties/case/codec_fields.h"
#include "properties/case/features/intervals.h"
#include "properties/case/features/pattern.h"
#include "properties/draw/axes/axis.h"

namespace attnfuzz {
namespace {

constexpr auto kSeen = Phase::kVisibility, kNumbers = Phase::kValues;
constexpr int64_t k15 = int64_t{1} << 15, k16 = int64_t{1} << 16, k31 = int64_t{1} << 31,
                  k32 = int64_t{1} << 32;
constexpr int64_t kWidest = INT64_MAX - 1;
constexpr const char* kBroadcasts[] = {"nothing", "batch",           "head",           "batch and head",
                                       "query",   "batch and query", "head and query", "everything"};

int broadcast_of(const Broadcast& b) { return (b.batch ? 1 : 0) + (b.head ? 2 : 0) + (b.query ? 4 : 0); }
Broadcast broadcast_at(int at) { return {(at & 1) != 0, (at & 2) != 0, (at & 4) != 0}; }

Mask& mask_of(const DrawContext& context, Case& c) {
  if (!c.problem.mask) c.problem.mask = Mask{draw_pattern(context, c.problem), draw_broadcast(context.rng)};
  return *c.problem.mask;
}
Bias& bias_of(const DrawContext& context, Case& c) {
  if (!c.problem.bias) {
    Bias& bias = c.problem.bias.emplace();
    bias.dtype = context.rng.pick<int32_t>({ATTN_F32, ATTN_F16, ATTN_BF16});
    bias.kind = static_cast<BiasKind>(context.rng.range(0, kBiasKinds - 1));
    bias.seed = context.rng.bits() % 65536;
  }
  return *c.problem.bias;
}
Pattern pattern_of(const DrawContext& context, const Problem& p, int kind) {
  Pattern pattern = draw_pattern(context, p);
  pattern.kind = static_cast<PatternKind>(kind);
  pattern.parameter = context.rng.range(1, pattern.kind == PatternKind::kRandom ? 15 : context.tile_k);
  return pattern;
}

// None, then those of the enumeration.
std::vector<const char*> and_none(std::span<const char* const> names) {
  std::vector<const char*> all = {"none"};
  all.insert(all.end(), names.begin(), names.end());
  return all;
}

constexpr int64_t kNoLengths = INT64_MIN;
int64_t shortest(const Case& c) {
  const auto& lengths = c.problem.key_lengths;
  return !lengths || lengths->empty() ? kNoLengths : *std::ranges::min_element(*lengths);
}
void set_shortest(Case& c, int64_t n) {
  auto& lengths = c.problem.key_lengths;
  if (!lengths) lengths.emplace(static_cast<size_t>(std::max<int64_t>(c.problem.batch, 0)), n);
  // The first is the shortest, the others stay where they are longer.
  for (int64_t& length : *lengths) length = &length == lengths->data() ? n : std::max(length, n);
}
void of_length(const DrawContext& context, Case& c, int64_t low, int64_t high) {
  set_shortest(c, context.rng.range(low, std::max(low, high)));
}

CaseAxis window(const char* name, Get get, Set set) {
  return number(name, kSeen, beside({-1, 0, 1, 2, k15, k31, k32}, {16, 32, 64, 128}), kWidest, get, set);
}

CaseAxis window_in_tiles(int percent, const char* name, Get get, Set set) {
  return steering(percent, in_tiles(name, kSeen, &DrawContext::tile_k, &Tiled::tile_k, get, set, 2));
}

}  // namespace

std::vector<CaseAxis> axes_of_visibility() {
  static const std::vector<const char*> masks = and_none(codec::kPatternNames),
                                        biases = and_none(codec::kBiasNames);
  return {
      steering(100, choice("causal:", kSeen,
                           {{"no", [](const Case& c) { return !c.problem.causal; },
                             [](const DrawContext&, Case& c) { c.problem.causal = false; }},
                            {"top-left", [](const Case& c) { return c.problem.align == ATTN_TOP_LEFT; },
                             [](const DrawContext&, Case& c) {
                               c.problem.causal = true, c.problem.align = ATTN_TOP_LEFT;
                             }},
                            {"bottom-right", [](const Case&) { return true; },
                             [](const DrawContext&, Case& c) {
                               c.problem.causal = true, c.problem.align = ATTN_BOTTOM_RIGHT;
                             }}})),
      window(
          "window_left", [](const Case& c) { return c.problem.window_left; },
          [](Case& c, int64_t n) { c.problem.window_left = n; }),
      window(
          "window_right", [](const Case& c) { return c.problem.window_right; },
          [](Case& c, int64_t n) { c.problem.window_right = n; }),
      window_in_tiles(
          60, "window_left in tiles:", [](const Case& c) { return c.problem.window_left; },
          [](Case& c, int64_t n) { c.problem.window_left = n; }),
      window_in_tiles(
          30, "window_right in tiles:", [](const Case& c) { return c.problem.window_right; },
          [](Case& c, int64_t n) { c.problem.window_right = n; }),
      choice("window's alignment:", kSeen,
             {{"top-left",
               [](const Case& c) {
                 return (c.problem.window_left >= 0 || c.problem.window_right >= 0) &&
                        c.problem.align == ATTN_TOP_LEFT;
               },
               [](const DrawContext& context, Case& c) {
                 if (c.problem.window_left < 0) c.problem.window_left = context.rng.range(0, c.problem.seq_k);
                 c.problem.align = ATTN_TOP_LEFT;
               }},
              {"bottom-right",
               [](const Case& c) { return c.problem.window_left >= 0 || c.problem.window_right >= 0; },
               [](const DrawContext& context, Case& c) {
                 if (c.problem.window_left < 0) c.problem.window_left = context.rng.range(0, c.problem.seq_k);
                 c.problem.align = ATTN_BOTTOM_RIGHT;
               }}}),
      choice("shortest key length:", kSeen,
             {{"none", [](const Case& c) { return shortest(c) == kNoLengths; },
               [](const DrawContext&, Case& c) { c.problem.key_lengths.reset(); }},
              {"negative", [](const Case& c) { return shortest(c) < 0; },
               [](const DrawContext& context, Case& c) { of_length(context, c, -9, -1); }},
              {"0", [](const Case& c) { return shortest(c) == 0; },
               [](const DrawContext&, Case& c) { set_shortest(c, 0); }},
              {"seq_k", [](const Case& c) { return shortest(c) == c.problem.seq_k; },
               [](const DrawContext&, Case& c) { set_shortest(c, c.problem.seq_k); }},
              {"seq_k less 1", [](const Case& c) { return shortest(c) == c.problem.seq_k - 1; },
               [](const DrawContext&, Case& c) { set_shortest(c, c.problem.seq_k - 1); }},
              {"1", [](const Case& c) { return shortest(c) == 1; },
               [](const DrawContext&, Case& c) { set_shortest(c, 1); }},
              {"between", [](const Case& c) { return shortest(c) < c.problem.seq_k; },
               [](const DrawContext& context, Case& c) { of_length(context, c, 2, c.problem.seq_k - 2); }},
              {"beyond seq_k", [](const Case& c) { return shortest(c) < k15; },
               [](const DrawContext& context, Case& c) {
                 of_length(context, c, c.problem.seq_k + 1, c.problem.seq_k + 100);
               }},
              {"2^15 or more", [](const Case& c) { return shortest(c) < k16; },
               [](const DrawContext& context, Case& c) { of_length(context, c, k15, k16 - 1); }},
              {"2^16 or more", [](const Case& c) { return shortest(c) < k31; },
               [](const DrawContext&, Case& c) { set_shortest(c, k16); }},
              {"2^31 or more", [](const Case& c) { return shortest(c) < k32; },
               [](const DrawContext&, Case& c) { set_shortest(c, k31); }},
              {"2^32 or more", [](const Case&) { return true; },
               [](const DrawContext&, Case& c) { set_shortest(c, k32); }}}),
      steering(40, in_tiles("shortest key length in tiles:", kSeen, &DrawContext::tile_k, &Tiled::tile_k,
                            shortest, set_shortest)),
      choice("NaN beyond lengths:", kSeen,
             {{"yes", [](const Case& c) { return c.nan_beyond_lengths; },
               [](const DrawContext& context, Case& c) {
                 if (!c.problem.key_lengths) of_length(context, c, 0, c.problem.seq_k);
                 c.nan_beyond_lengths = true;
               }},
              {"no", [](const Case&) { return true; },
               [](const DrawContext&, Case& c) { c.nan_beyond_lengths = false; }}}),
      steering(20, kinds(
                       "mask:", kSeen, masks,
                       [](const Case& c) {
                         return c.problem.mask ? 1 + static_cast<int>(c.problem.mask->visible.kind) : 0;
                       },
                       [](const DrawContext& context, int at, Case& c) {
                         if (at == 0) return c.problem.mask.reset();
                         mask_of(context, c).visible = pattern_of(context, c.problem, at - 1);
                       })),
      kinds(
          "mask repeated over", kSeen, kBroadcasts,
          [](const Case& c) { return c.problem.mask ? broadcast_of(c.problem.mask->broadcast) : kNoClass; },
          [](const DrawContext& context, int at, Case& c) {
            mask_of(context, c).broadcast = broadcast_at(at);
          }),
      steering(
          20, kinds(
                  "bias:", kSeen, biases,
                  [](const Case& c) { return c.problem.bias ? 1 + static_cast<int>(c.problem.bias->kind) : 0; },
                  [](const DrawContext& context, int at, Case& c) {
                    if (at == 0) return c.problem.bias.reset();
                    bias_of(context, c).kind = static_cast<BiasKind>(at - 1);
                  })),
      kinds(
          "bias finite at", kSeen, codec::kPatternNames,
          [](const Case& c) {
            return c.problem.bias ? static_cast<int>(c.problem.bias->finite.kind) : kNoClass;
          },
          [](const DrawContext& context, int at, Case& c) {
            bias_of(context, c).finite = pattern_of(context, c.problem, at);
          }),
      kinds(
          "bias of", kSeen, codec::kDtypes,
          [](const Case& c) { return c.problem.bias ? static_cast<int>(c.problem.bias->dtype) : kNoClass; },
          [](const DrawContext& context, int at, Case& c) { bias_of(context, c).dtype = at; }),
      kinds(
          "bias repeated over", kSeen, kBroadcasts,
          [](const Case& c) { return c.problem.bias ? broadcast_of(c.problem.bias->broadcast) : kNoClass; },
          [](const DrawContext& context, int at, Case& c) {
            bias_of(context, c).broadcast = broadcast_at(at);
          }),
  };
}

namespace {

// From 2^low to 2^(high + 1), each power of two as likely as the next: exact, and the same everywhere.
float some_number(Rng& rng, int low, int high) {
  const auto exponent = static_cast<int>(rng.range(low, high));
  return std::ldexp(static_cast<float>(rng.range(128, 255)), exponent - 7);
}

// Of a case that has a softcap: how large it is. Models have 15 to 50.
CaseAxis cap_size() {
  static constexpr float kStarts[] = {0, 1, 5, 15, 20, 30, 50, 100, 200};
  CaseAxis axis{.name = "softcap is",
                .phase = kNumbers,
                .classes = {"below 1", "1 to 5", "5 to 15", "15 to 20", "20 to 30", "30 to 50", "50 to 100",
                            "100 or more"},
                .of = {},
                .make = {}};
  axis.of = [](const Tiled& x) {
    if (x.p.softcap == 0) return kNoClass;
    const auto at = static_cast<int>(std::ranges::upper_bound(kStarts, x.p.softcap) - kStarts) - 1;
    return std::min(at, 7);
  };
  axis.make = [](const DrawContext& context, int at, Case& c) {
    const float low = std::max(kStarts[at], 0.25f), width = kStarts[at + 1] - low;
    c.problem.softcap = low + width * static_cast<float>(context.rng.range(0, 1023)) / 1024;
  };
  return axis;
}

float usual_scale(const Case& c) {
  return 1.0f / std::sqrt(static_cast<float>(std::max<int64_t>(c.problem.dim_qk, 1)));
}

template <Fill Case::* kFill>
CaseAxis fill(const char* name) {
  return kinds(
      name, kNumbers, codec::kFillNames, [](const Case& c) { return static_cast<int>((c.*kFill).kind); },
      [](const DrawContext& context, int at, Case& c) {
        c.*kFill = {.kind = static_cast<FillKind>(at), .seed = context.rng.bits() % 65536};
        if (has_intervals((c.*kFill).kind)) (c.*kFill).seed = feature::draw_interval(context, c.problem);
        // As the draw scales them: scores stay where softmax tells them apart.
        if ((c.*kFill).kind == FillKind::kPosition && kFill != &Case::v) (c.*kFill).exponent = -6;
        // And a few are peaked: one key has all the weight, and keys of other tiles none.
        const FillKind kind = (c.*kFill).kind;
        const bool scales =
            kind != FillKind::kPosition && kind != FillKind::kHuge && kind != FillKind::kSubnormal;
        if (scales && kFill != &Case::v && context.rng.percent(25))
          (c.*kFill).exponent = static_cast<int32_t>(context.rng.range(1, 6));
      });
}

template <TensorId kWhere>
constexpr Choice planted_in(const char* name) {
  return {name, [](const Case& c) { return c.planted.front().tensor == kWhere; },
          [](const DrawContext& context, Case& c) {
            const auto size = shape_of(spec_of(kWhere), c.problem);
            if (std::ranges::any_of(size, [](int64_t n) { return n < 1; })) return;
            Rng& rng = context.rng;
            const bool f16 = c.problem.dtype == ATTN_F16;
            const uint32_t infinity = f16 ? 0x7c00 : 0x7f80, nan = f16 ? 0x7e00 : 0x7fc0;
            Planted x = {.tensor = kWhere};
            x.b = rng.range(0, size[0] - 1), x.h = rng.range(0, size[1] - 1);
            x.s = rng.range(0, size[2] - 1), x.d = rng.range(0, size[3] - 1);
            x.bits = rng.pick<uint32_t>({nan, nan, nan, infinity, infinity | 0x8000});
            c.planted = {x};
          }};
}

}  // namespace

std::vector<CaseAxis> axes_of_values() {
  return {
      fill<&Case::q>("Q"),
      fill<&Case::k>("K"),
      fill<&Case::v>("V"),
      choice(
          "scale:", kNumbers,
          {{"usual", [](const Case& c) { return c.problem.scale == usual_scale(c); },
            [](const DrawContext&, Case& c) { c.problem.scale = usual_scale(c); }},
           {"0", [](const Case& c) { return c.problem.scale == 0; },
            [](const DrawContext&, Case& c) { c.problem.scale = 0; }},
           {"negative", [](const Case& c) { return c.problem.scale < 0; },
            [](const DrawContext&, Case& c) { c.problem.scale = -usual_scale(c); }},
           {"above 4", [](const Case& c) { return c.problem.scale > 4; },
            [](const DrawContext& context, Case& c) {
              c.problem.scale = some_number(context.rng, 2, 5) + 0.125f;
            }},
           {"other", [](const Case&) { return true; },
            [](const DrawContext& context, Case& c) { c.problem.scale = some_number(context.rng, -8, 1); }}}),
      steering(100, choice("softcap:", kNumbers,
                           {{"none", [](const Case& c) { return c.problem.softcap == 0; },
                             [](const DrawContext&, Case& c) { c.problem.softcap = 0; }},
                            {"up to 5", [](const Case& c) { return c.problem.softcap <= 5; },
                             [](const DrawContext& context, Case& c) {
                               c.problem.softcap = some_number(context.rng, -1, 1);
                             }},
                            {"above 5", [](const Case&) { return true; },
                             [](const DrawContext& context, Case& c) {
                               c.problem.softcap = 5.5f + some_number(context.rng, 0, 6);
                             }}})),
      cap_size(),
      choice("NaN or infinity planted in", kNumbers,
             {{"nothing", [](const Case& c) { return c.planted.empty(); },
               [](const DrawContext&, Case& c) { c.planted.clear(); }},
              planted_in<TensorId::kQ>("Q"),
              planted_in<TensorId::kK>("K"),
              planted_in<TensorId::kV>("V")}),
  };
}

}  // namespace attnfuzz
