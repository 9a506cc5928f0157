// Single values of Q, K, V or the bias, after the fills.
#include <algorithm>

#include "properties/case/features/feature.h"
#include "properties/case/places/geometry.h"
#include "properties/case/places/packed.h"
#include "properties/case/places/planted_rank.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kPlantedFields = [](auto& c) { return std::tie(c.planted); };
constexpr size_t kMostByMutation = 8;

// Plants a NaN or an infinity in Q, K or V.
void draw_planted(const DrawContext& context, Case& c) {
  Rng& rng = context.rng;
  const Problem& p = c.problem;
  if (!rng.percent(3) || p.batch == 0 || p.seq_q == 0 || p.seq_k == 0) return;
  Planted planted;
  planted.tensor = rng.pick<TensorId>(kOfForwardIn<kPlantedTensors>);
  const std::array<int64_t, 4> size = logical_size(p, planted.tensor);
  planted.b = rng.range(0, size[0] - 1);
  planted.h = rng.range(0, size[1] - 1);
  planted.s = rng.range(0, size[2] - 1);
  planted.d = rng.range(0, size[3] - 1);
  const KnownBits known = known_bits(p.dtype);
  planted.bits =
      rng.pick<uint32_t>({known.nan, known.nan, known.nan, known.infinity, known.infinity | known.sign});
  // fp32 also gets the ends of its range: the largest number, one whose square overflows, the least.
  if (p.dtype == ATTN_F32 && rng.coin())
    planted.bits =
        rng.pick<uint32_t>({known.largest, known.largest | known.sign, 0x5f800000, 0xdf800000, 1, 0x807fffff});
  c.planted.push_back(planted);
}

// Drops, copies or moves one planted value.
bool mutate_planted(const DrawContext& context, Case& c) {
  Rng& rng = context.rng;
  if (c.planted.empty()) return false;
  const auto at = static_cast<size_t>(rng.range(0, static_cast<int64_t>(c.planted.size()) - 1));
  const int64_t tile = c.planted[at].tensor == TensorId::kQ ? context.tile_q : context.tile_k;
  const int64_t what = rng.range(0, 2);
  if (what == 0) {
    c.planted.erase(c.planted.begin() + static_cast<std::ptrdiff_t>(at));
    return true;
  }
  // A copy is moved, so that the two do not coincide.
  if (what == 1 && c.planted.size() < kMostByMutation) c.planted.push_back(c.planted[at]);
  Planted& x = c.planted[at];
  x.s = moved(x.s, 0, tile, 0, rng);
  if (rng.percent(30)) x.d = moved(x.d, 0, 8, 0, rng);
  return true;
}
// Keeps planted values inside their tensors, at most one for each element.
void tidy_planted(Case& c) {
  std::vector<Planted> kept;
  for (Planted x : c.planted) {
    auto size = logical_size(c.problem, x.tensor);
    if (!takes_planted(x.tensor) || !is_given(c, x.tensor)) continue;
    if (std::ranges::any_of(size, [](int64_t n) { return n < 1; })) continue;
    // The case may have had another format when the value was planted.
    if (element_bytes(c.problem, x.tensor) == 2) x.bits &= 0xffff;
    if (element_bytes(c.problem, x.tensor) == 1) x.bits &= 0xff;
    // A bias keeps its index: its broadcast dimensions are checked separately.
    const std::array<bool, 4> once =
        x.tensor == TensorId::kBias ? std::array<bool, 4>{} : repeated(c, x.tensor);
    x.b = once[0] ? 0 : std::clamp<int64_t>(x.b, 0, size[0] - 1);
    if (const auto& packing = packing_of(c.problem, x.tensor); packing && c.remap == Remap{}) {
      size[2] = packed_length(*packing, size[2], x.b);
      if (size[2] < 1) continue;  // the entry has no rows
    }
    x.h = once[1] ? 0 : std::clamp<int64_t>(x.h, 0, size[1] - 1);
    x.s = once[2] ? 0 : std::clamp<int64_t>(x.s, 0, size[2] - 1);
    x.d = once[3] ? 0 : std::clamp<int64_t>(x.d, 0, size[3] - 1);
    std::erase_if(kept, [&](const Planted& y) {
      return y.tensor == x.tensor && y.b == x.b && y.h == x.h && y.s == x.s && y.d == x.d;
    });
    kept.push_back(x);
  }
  c.planted = std::move(kept);
}

Complaint bad_planted(const Case& c, const Planted& planted) {
  const TensorId t = planted.tensor;
  if (!takes_planted(t)) return ".tensor must be an input with a fill, or bias";
  if (!is_given(c, t)) return std::string(".tensor is ") + name_of(t) + ", but the case has none";
  std::array<int64_t, 4> size = logical_size(c.problem, t);
  const std::array<bool, 4> once = repeated(c, t);
  const std::array<int64_t, 4> at = {planted.b, planted.h, planted.s, planted.d};
  // Coordinates in a remapped case are the recipe's and may lie outside the tensor. The column of Q, K and V is
  // never remapped.
  const bool remapped = c.remap != Remap{};
  for (size_t n = 0; n < 4; ++n) {
    if (once[n]) size[n] = std::min<int64_t>(size[n], 1);
    if (remapped && (n < 3 || t == TensorId::kBias)) size[n] = kMaxIndex;
    if (at[n] < 0 || at[n] >= size[n]) {
      return cat(" lies at index ", at[n], " of dimension ", n, " of ", name_of(t), ", which has ", size[n]);
    }
  }
  const int64_t bytes = element_bytes(c.problem, t);
  if (bytes == 1)
    return planted.bits > 0xff ? Complaint(".bits do not fit the 8 bits of its tensor") : std::nullopt;
  const bool wide = bytes == 4;
  if (!wide && planted.bits > 0xffff) return ".bits do not fit the 16 bits of its tensor";
  if (planted.bits == (wide ? kNeverWritten : kNeverWritten >> 16)) {
    return ".bits mark an output that was never written: use another NaN, as 0x7e00";
  }
  return std::nullopt;
}

}  // namespace

extern constinit const Feature planted = checked({
    .without = {kShrinkIntegers, kAlternatives, kCanonicalSeeds, kNumbers, kRefusals},
    .shrink_toggles = {5,
                       {{"planted values", is_set<kPlantedFields>, unset<kPlantedFields>,
                         [](Case& to, const Case& from, int choice) {
                           if (choice > 1) return false;
                           to.planted = from.planted;
                           if (choice == 0) {
                             to.planted.resize(1);
                             to.planted[0].b = to.planted[0].h = to.planted[0].s = to.planted[0].d = 0;
                           }
                           return true;
                         },
                         Trait::kValue}}},
    .cost =
        [](const Case& c, Cost& cost) {
          cost.count(is_set<kPlantedFields>(c));
          cost.at(Rank::kPlanted).add(static_cast<int64_t>(c.planted.size()));
          cost.at(Rank::kPlantedValues);
          for (const Planted& x : c.planted) {
            cost.add(Cost::saturated_add(Cost::saturated_add(x.b, x.h), Cost::saturated_add(x.s, x.d)));
            for (const int64_t at : {x.b, x.h, x.s, x.d}) cost.add(at);
            cost.add(static_cast<int>(x.tensor));
            cost.add(int64_t{planted_rank(x.bits, planted_dtype(c, x))});
          }
        },
    .draw = {Phase::kValues, draw_planted},
    .crossover_groups = {{"planted", 2, take<kPlantedFields>}},
    .mutations = {mutate_planted},
    .tags = {{"planted NaN or Inf", [](const Tiled& x) { return !x.c.planted.empty(); }, TagUse::kBoth}},
    .words = {{Section::kData, 1,
               [](const Case& c, Sentence& words) {
                 for (size_t i = 0; i < c.planted.size() && i < 3; ++i) {
                   const Planted& x = c.planted[i];
                   words.push_back(cat(kTensorNames[static_cast<size_t>(x.tensor)], "(", x.b, ",", x.h, ",",
                                       x.s, ",", x.d, ") = 0x", hex(x.bits)));
                 }
                 if (c.planted.size() > 3) words.push_back(cat(c.planted.size() - 3, " more planted values"));
               }}},
    .tidy = tidy_planted,
    .illegal = [](const Case& c) -> Complaint {
      for (size_t n = 0; n < c.planted.size(); ++n) {
        if (auto why = of_field(bad_planted(c, c.planted[n]), "planted[", n, "]")) return why;
      }
      return std::nullopt;
    },
});

}  // namespace attnfuzz::feature
