// Axes of visibility: everything that hides keys, and the bias.
#include <algorithm>

#include "properties/axes/axis.h"
#include "properties/case/codec/codec_fields.h"
#include "properties/case/features/visibility/pattern.h"

namespace attnfuzz {
namespace {

constexpr auto kSeen = Phase::kVisibility;
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

// The kinds of patterns that axes choose from; later kinds belong to no class.
constexpr auto kFirstPatterns = std::span(codec::kPatternNames).first<kFirstPatternKinds>();
int class_of(const Pattern& pattern) {
  const int kind = static_cast<int>(pattern.kind);
  return kind < kFirstPatternKinds ? kind : kNoClass;
}

// "none", then the names of the enumeration.
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
  // The first entry becomes the shortest; others keep their length where it is longer.
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

std::vector<CaseAxis> axes_of_windows() {
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
  };
}

std::vector<CaseAxis> axes_of_key_lengths() {
  return {
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
  };
}

std::vector<CaseAxis> axes_of_masks() {
  static const std::vector<const char*> masks = and_none(kFirstPatterns);
  return {
      steering(20, kinds(
                       "mask:", kSeen, masks,
                       [](const Case& c) {
                         if (!c.problem.mask) return 0;
                         const int kind = class_of(c.problem.mask->visible);
                         return kind == kNoClass ? kNoClass : 1 + kind;
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
  };
}

std::vector<CaseAxis> axes_of_biases() {
  static const std::vector<const char*> biases = and_none(codec::kBiasNames);
  return {
      steering(
          20, kinds(
                  "bias:", kSeen, biases,
                  [](const Case& c) { return c.problem.bias ? 1 + static_cast<int>(c.problem.bias->kind) : 0; },
                  [](const DrawContext& context, int at, Case& c) {
                    if (at == 0) return c.problem.bias.reset();
                    bias_of(context, c).kind = static_cast<BiasKind>(at - 1);
                  })),
      kinds(
          "bias finite at", kSeen, kFirstPatterns,
          [](const Case& c) {
            return c.problem.bias ? class_of(c.problem.bias->finite) : kNoClass;
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

}  // namespace

std::vector<CaseAxis> axes_of_visibility() {
  return joined({axes_of_windows(), axes_of_key_lengths(), axes_of_masks(), axes_of_biases()});
}

}  // namespace attnfuzz
