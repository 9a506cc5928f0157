// Passes over planted values.
#include <algorithm>
#include <array>
#include <cstddef>

#include "properties/case/places/planted_rank.h"
#include "properties/reduce/passes.h"

namespace attnfuzz {
namespace {

using Diff = std::ptrdiff_t;

// Drops runs of values, then single ones.
void drop(Search& s) {
  for (size_t span = s.best().planted.size() / 2; span > 0; span /= 2) {
    for (size_t last = s.best().planted.size(); last > 0;) {
      const size_t first = last - std::min(span, last);
      if (s.best().planted.size() > last - first) {
        change(s, [&](Case& c) {
          c.planted.erase(c.planted.begin() + static_cast<Diff>(first),
                          c.planted.begin() + static_cast<Diff>(last));
        });
      }
      last = std::min(first, s.best().planted.size());
    }
  }
}

// Tries the first place of the tensor, then each index by itself, then simpler tensors.
void move(Search& s, size_t i) {
  change(s, [&](Case& c) { c.planted[i].b = c.planted[i].h = c.planted[i].s = c.planted[i].d = 0; });
  for (int64_t Planted::* index : {&Planted::b, &Planted::h, &Planted::s, &Planted::d}) {
    if (i >= s.best().planted.size()) return;  // two values met in one place
    lower(s, {.now = s.best().planted[i].*index, .least = 0},
          [&](Case& c, int64_t value) { c.planted[i].*index = value; });
  }
  for (const TensorId t : kPlantedTensors) {
    if (i >= s.best().planted.size()) return;
    if (!in_problem(spec_of(t), s.best().problem.features)) continue;
    if (t < s.best().planted[i].tensor && change(s, [&](Case& c) { c.planted[i].tensor = t; })) return;
  }
}

void simplify(Search& s, size_t i) {
  if (i >= s.best().planted.size()) return;
  const int32_t dtype = planted_dtype(s.best(), s.best().planted[i]);
  const uint32_t now = planted_rank(s.best().planted[i].bits, dtype);
  lower(s, {.now = now, .least = 0, .worth_trying = {3}},
        [&](Case& c, int64_t rank) { c.planted[i].bits = bits_of_rank(static_cast<uint32_t>(rank), dtype); });
}

// Moves all values side by side, from the first place of their tensor, in one row or one column.
void pack(Search& s) {
  const auto packed = [&](bool in_row, bool shrink) {
    change(s, [&](Case& c) {
      Problem& p = c.problem;
      std::array<int64_t, kTensorCount> count = {};
      for (Planted& x : c.planted) {
        const int64_t at = count[static_cast<size_t>(x.tensor)]++;
        x.b = x.h = 0;
        x.s = in_row ? 0 : at;
        x.d = in_row ? at : 0;
      }
      const auto of = [&](TensorId t) { return count[static_cast<size_t>(t)]; };
      if (!in_row || of(TensorId::kBias) > 0) return;
      p.dim_qk = std::max({p.dim_qk, of(TensorId::kQ), of(TensorId::kK)});
      p.dim_v = std::max(p.dim_v, of(TensorId::kV));
      if (shrink) {
        p.seq_q = std::min<int64_t>(p.seq_q, 1);
        p.seq_k = std::min<int64_t>(p.seq_k, 1);
      }
    });
  };
  packed(true, true);
  packed(true, false);
  packed(false, false);
}

// Bits at which the format's arithmetic changes, by rank.
std::vector<uint32_t> edges(int32_t dtype) {
  const auto [one, infinity, nan, sign, largest] = known_bits(dtype);
  return {
      0,         one, infinity, nan, 1, largest, sign, sign | 1, sign | one, sign | largest, sign | infinity,
      sign | nan};
}

}  // namespace

void shrink_planted(Search& s) {
  if (s.best().planted.empty()) return;
  drop(s);
  if (s.best().planted.size() > 1) pack(s);
  for (size_t i = 0; i < s.best().planted.size(); ++i) move(s, i);
  for (size_t i = 0; i < s.best().planted.size(); ++i) simplify(s, i);
}

void shrink_planted_afresh(Search& s) {
  if (s.best().planted.size() < 2) return;
  // Keeps two values side by side, whatever they were before. Values that only fail together cannot be lowered
  // one by one.
  const Planted first = s.best().planted.front(), last = s.best().planted.back();
  for (int64_t Planted::* index : {&Planted::d, &Planted::s, &Planted::h, &Planted::b}) {
    Planted one = first, other = last;
    one.b = one.h = one.s = one.d = 0;
    other.b = other.h = other.s = other.d = 0;
    other.*index = 1;
    const int32_t dtype = planted_dtype(s.best(), first);
    for (const uint32_t x : edges(dtype)) {
      for (const uint32_t y : edges(planted_dtype(s.best(), last))) {
        one.bits = x;
        other.bits = y;
        if (change(s, [&](Case& c) { c.planted = {one, other}; })) return;
      }
    }
  }
}

}  // namespace attnfuzz
