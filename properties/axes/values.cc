// Axes of values: the fills of Q, K and V, the scale, the softcap, and planted NaN and infinities.
#include <algorithm>
#include <cmath>

#include "properties/axes/axis.h"
#include "properties/case/codec/codec_fields.h"
#include "properties/case/features/values/intervals.h"

namespace attnfuzz {
namespace {

constexpr auto kNumbers = Phase::kValues;

// From 2^low to 2^(high + 1), each power of two equally likely. The result is exact, hence the same on
// every machine.
float some_number(Rng& rng, int low, int high) {
  const auto exponent = static_cast<int>(rng.range(low, high));
  return std::ldexp(static_cast<float>(rng.range(128, 255)), exponent - 7);
}

// The size of the softcap, if the case has one. Models use 15 to 50.
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
        // Scaled as in the draw, so that more than one key keeps a weight after softmax.
        if ((c.*kFill).kind == FillKind::kPosition && kFill != &Case::v) (c.*kFill).exponent = -6;
        // A quarter of the fills of Q and K are peaked: one key has all the weight, and keys of other tiles
        // have none.
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
