// Passes over fills and seeds. passes_planted.cc handles planted values.
#include <algorithm>
#include <array>
#include <cstdlib>

#include "properties/case/features/shrink_toggles.h"
#include "properties/case/places/geometry.h"
#include "properties/reduce/passes.h"

namespace attnfuzz {
namespace {

constexpr Fill constant(int exponent) { return {.kind = FillKind::kConstant, .exponent = exponent}; }

// Single fills, the simplest first: each kind, and constants of all sizes that 16 bits hold, because a bug
// that needs large values needs nothing else.
std::vector<Fill> plain_fills() {
  std::vector<Fill> fills;
  for (int k = 0; k < kFillKinds; ++k) {
    const auto kind = static_cast<FillKind>(k);
    fills.push_back(fill_of(kind));
    if (kind == FillKind::kConstant) {
      for (const int exponent : {1, 2, 4, 8, 12, 15, -4, -8, -14, -24}) fills.push_back(constant(exponent));
    }
  }
  return fills;
}

// The fills of the problem's inputs other than Q, K and V, each once: those of dO and the gradient of the LSE,
// and of the inputs of a merge, a compression and a combination.
std::vector<Fill Case::*> other_fills(const Case& c) {
  std::vector<Fill Case::*> fills;
  for (const TensorSpec& spec : kTensors) {
    Fill Case::* fill = fill_of(spec.id);
    if (!fill || !in_problem(spec, c.problem.features) || fill == &Case::q || fill == &Case::k ||
        fill == &Case::v)
      continue;
    if (std::ranges::find(fills, fill) == fills.end()) fills.push_back(fill);
  }
  return fills;
}

// Replaces these fills by the simplest of plain_fills() that fails, with seed 0 or with the present seed.
void shrink_kind(Search& s, std::span<Fill Case::* const> which) {
  const uint64_t seed_now = (s.best().*which[0]).seed;
  for (const Fill& plain : plain_fills()) {
    for (const uint64_t seed : {uint64_t{0}, seed_now}) {
      Fill fill = plain;
      fill.seed = seed;
      if (change(s, [&](Case& c) {
            for (Fill Case::* f : which) c.*f = fill;
          })) {
        return;
      }
    }
  }
}

void shrink_exponent(Search& s, Fill Case::* f) {
  const int now = (s.best().*f).exponent;
  lower(s, {.now = std::abs(now), .least = 0},
        [&](Case& c, int64_t value) { (c.*f).exponent = static_cast<int>(now < 0 ? -value : value); });
}

}  // namespace

std::span<const Data> regimes() {
  static const Data all[] = {
      {constant(0), constant(0), constant(0)},
      {fill_of(FillKind::kGaussian), fill_of(FillKind::kGaussian), fill_of(FillKind::kGaussian)},
      {constant(4), constant(4), constant(0)},                      // large scores
      {constant(4), fill_of(FillKind::kNegative, 4), constant(0)},  // scores far below 0
      {constant(0), constant(0), constant(8)},                      // large values
      {fill_of(FillKind::kPosition), fill_of(FillKind::kPosition), fill_of(FillKind::kPosition)},
      {fill_of(FillKind::kGaussian, 2), fill_of(FillKind::kGaussian, 2),
       fill_of(FillKind::kGaussian)},  // peaked
      {fill_of(FillKind::kHuge), fill_of(FillKind::kHuge), fill_of(FillKind::kHuge)},
  };
  return all;
}

Case with_data(Case c, const Data& data) {
  c.q = data.q;
  c.k = data.k;
  c.v = data.v;
  return c;
}

// One row for all keys is simpler than distinct values. If its values are smaller, it needs a larger
// exponent.
void shrink_to_one_row(Search& s, Fill Case::* f) {
  constexpr int kMostRaised = 2;
  const Fill now = s.best().*f;
  if (now.exponent == 0 || now.kind <= FillKind::kSameRows) return;
  for (int raised = 0; raised <= kMostRaised; ++raised) {
    if (change(s, [&](Case& c) { c.*f = fill_of(FillKind::kSameRows, now.exponent + raised); })) return;
  }
}

void shrink_fills(Search& s) {
  for (const Fill& fill : plain_fills()) {
    if (s.attempt(with_data(s.best(), {fill, fill, fill}))) break;
  }
  const auto to = [&](std::initializer_list<Fill Case::*> which) {
    shrink_kind(s, {which.begin(), which.size()});
  };
  to({&Case::q, &Case::k});
  to({&Case::k, &Case::v});
  to({&Case::q});
  to({&Case::k});
  to({&Case::v});
  change(s, [](Case& c) { c.q.exponent = c.k.exponent = c.v.exponent = 0; });
  for (Fill Case::* f : {&Case::q, &Case::k, &Case::v}) {
    shrink_exponent(s, f);
    shrink_to_one_row(s, f);
  }
  // Scores depend only on the product of Q and K.
  change(s, [](Case& c) { std::swap(c.q, c.k); });
  change(s, [](Case& c) {
    c.k.exponent += c.q.exponent;
    c.q.exponent = 0;
  });
}

void shrink_seed(Search& s, uint64_t now, const std::function<void(Case& c, uint64_t seed)>& set) {
  for (uint64_t seed = 0; seed < std::min(now, kSeedsTried); ++seed) {
    if (change(s, [&](Case& c) { set(c, seed); })) return;
  }
}

void shrink_seeds(Search& s) {
  change(s, [](Case& c) {
    c.q.seed = c.k.seed = c.v.seed = 0;
    if (c.problem.bias) c.problem.bias->seed = c.problem.bias->finite.seed = 0;
    if (c.problem.mask) c.problem.mask->visible.seed = 0;
  });
  for (Fill Case::* f : {&Case::q, &Case::k, &Case::v}) {
    shrink_seed(s, (s.best().*f).seed, [&](Case& c, uint64_t seed) { (c.*f).seed = seed; });
  }
  shrink_seed(s, s.best().env.schedule_seed, [](Case& c, uint64_t seed) { c.env.schedule_seed = seed; });
}

void shrink_other_fills(Search& s) {
  for (Fill Case::* f : other_fills(s.best())) {
    shrink_kind(s, std::array{f});
    shrink_exponent(s, f);
    shrink_seed(s, (s.best().*f).seed, [&](Case& c, uint64_t seed) { (c.*f).seed = seed; });
  }
}

void shrink_with_richer_data(Search& s) {
  for (const Data& data : regimes()) {
    for (const ShrinkToggle& feature : shrink_toggles()) {
      if (!feature.present(s.best())) continue;
      Case without = with_data(s.best(), data);
      feature.remove(without);
      s.attempt(std::move(without));
    }
    for (const ShrinkInteger& integer : shrink_integers()) {
      if (!integer.applies(s.best())) continue;
      const int64_t now = integer.get(s.best());
      for (const int64_t value : {integer.least, integer.least + 1, now / 2, now - 1}) {
        if (value < integer.least || value >= now || (value > integer.least + 1 && now >= kMany)) continue;
        Case smaller = with_data(s.best(), data);
        integer.set(smaller, value);
        if (s.attempt(std::move(smaller))) break;
      }
    }
  }
}

void shrink_data_together(Search& s) {
  // All triples of kinds up to a total complexity, because one tensor may need a more complex kind before
  // another can become simpler.
  constexpr int kLargestSum = 8;
  for (int sum = 0; sum <= kLargestSum; ++sum) {
    for (int q = 0; q <= sum && q < kFillKinds; ++q) {
      for (int k = 0; q + k <= sum && k < kFillKinds; ++k) {
        const int v = sum - q - k;
        if (v >= kFillKinds) continue;
        if (s.attempt(with_data(s.best(), {fill_of(static_cast<FillKind>(q)), fill_of(static_cast<FillKind>(k)),
                                           fill_of(static_cast<FillKind>(v))}))) {
          return;
        }
      }
    }
  }
}

}  // namespace attnfuzz
