// Remap (case.h): at which indices a variant of a case reads the case's fills, patterns and biases. Only
// relations set it. It is never drawn.
#include <algorithm>

#include "properties/case/features/feature.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kRemapFields = [](auto& c) { return std::tie(c.remap); };

Complaint bad_axis(const Axis& axis, int64_t size) {
  using Wide = __int128;
  if (auto why = outside(".repeat", axis.repeat, 1, kMaxIndex)) return why;
  if (auto why = outside(".modulus", axis.modulus, Axis::kKeyLength, kMaxIndex)) return why;
  if (auto why = outside(".multiply", axis.multiply, -kMaxIndex, kMaxIndex)) return why;
  if (auto why = outside(".add", axis.add, -kMaxIndex, kMaxIndex)) return why;
  const int64_t last = size > 0 ? (size - 1) / axis.repeat : 0;
  const Wide ends[2] = {axis.add, static_cast<Wide>(axis.multiply) * last + axis.add};
  const Wide low = std::min(ends[0], ends[1]), high = std::max(ends[0], ends[1]);
  constexpr Wide kNoOverflow = static_cast<Wide>(1) << 62;
  if (axis.modulus == 0 && (low < 0 || high > kMaxIndex)) return " leads outside 0..2^40";
  if (low < -kNoOverflow || high > kNoOverflow) return " leads beyond 2^62 before the modulus";
  return std::nullopt;
}

}  // namespace

extern constinit const Feature remap = checked({
    .without = {kShrinkIntegers, kAlternatives, kCanonicalSeeds, kDraw, kCrossoverGroups, kNumbers, kMutations,
                kRefusals, kTags, kWords, kTidy},
    .shrink_toggles = {0, {whole_toggle<kRemapFields>("a remap")}},
    .cost = [](const Case& c, Cost& cost) { cost.at(Rank::kRemap).add(is_set<kRemapFields>(c)); },
    .illegal = [](const Case& c) -> Complaint {
      const Problem& p = c.problem;
      const Remap& r = c.remap;
      if (r == Remap{}) return std::nullopt;
      if (auto why = of_field(bad_axis(r.batch, p.batch), "remap.batch")) return why;
      if (auto why = of_field(bad_axis(r.head_q, p.heads_q), "remap.head_q")) return why;
      if (auto why = of_field(bad_axis(r.head_kv, p.heads_kv), "remap.head_kv")) return why;
      if (auto why = of_field(bad_axis(r.query, p.seq_q), "remap.query")) return why;
      if (auto why = of_field(bad_axis(r.key, p.seq_k), "remap.key")) return why;
      if (auto why = outside("remap.seq_q", r.seq_q, 0, kMaxSize)) return why;
      if (auto why = outside("remap.seq_k", r.seq_k, 0, kMaxSize)) return why;
      if (auto why = outside("remap.shared_keys", r.shared_keys, 0, kMaxSize)) return why;
      if (r.k_shift) {
        if (auto why = bad_fill("remap.k_shift", *r.k_shift)) return why;
      }
      return r.v_added ? bad_fill("remap.v_added", *r.v_added) : std::nullopt;
    },
});

}  // namespace attnfuzz::feature
