#include "properties/draw/covering.h"

#include <algorithm>
#include <unordered_set>

#include "properties/data/fills.h"
#include "properties/draw/axes/axis.h"
#include "properties/draw/generator.h"

namespace attnfuzz {
namespace {

constexpr uint64_t kSeed = 0x9e3779b9, kDrawn = 3000;
constexpr uint32_t kRare = 2;      // a pair met more often is left to chance
constexpr size_t kInARow = 8;      // classes
constexpr size_t kLookedAt = 160;  // pairs, for the next that goes with a row

struct Class {
  size_t axis;
  int at;
  bool operator==(const Class&) const = default;
};
struct Pair {
  Class a, b;
  uint32_t met;
};

// Classes that may be asked for: of the dear ones chance draws as many as can be paid for.
std::vector<Class> classes() {
  std::vector<Class> all;
  for (size_t axis = 0; axis < axes().size(); ++axis) {
    const int end = axes()[axis].dear < 0 ? static_cast<int>(axes()[axis].classes.size()) : axes()[axis].dear;
    for (int at = 0; at < end; ++at) all.push_back({axis, at});
  }
  return all;
}

// The rare ones, least met first, those met as often in an order of their own.
std::vector<Pair> rare_pairs(const Aim& aim) {
  const std::vector<Class> all = classes();
  std::vector<size_t> first(axes().size());  // in `all`
  for (size_t n = all.size(); n-- > 0;) first[all[n].axis] = n;
  std::vector<uint32_t> met(all.size() * all.size());
  for (uint64_t i = 0; i < kDrawn; ++i) {
    const Case c = draw(aim, kSeed, i);
    const Tiling tiling = tiling_of(aim, c);
    const Tiled tiled = {c, c.problem, tiling.q, tiling.k, c.problem.num_splits};
    std::vector<size_t> is;
    for (size_t axis = 0; axis < axes().size(); ++axis) {
      const int at = axes()[axis].of(tiled);
      if (at == kNoClass || (axes()[axis].dear >= 0 && at >= axes()[axis].dear)) continue;
      is.push_back(first[axis] + static_cast<size_t>(at));
      for (const size_t before : is) ++met[before * all.size() + is.back()];
    }
  }
  std::vector<Pair> rare;
  for (size_t a = 0; a < all.size(); ++a) {
    for (size_t b = a + 1; b < all.size(); ++b) {
      const uint32_t n = met[a * all.size() + b];
      if (all[a].axis != all[b].axis && n <= kRare) rare.push_back({all[a], all[b], n});
    }
  }
  const auto order = [](const Pair& x) {
    const auto number = [](const Class& y) { return y.axis << 16 | static_cast<size_t>(y.at); };
    return std::pair(x.met, mix(kSeed, number(x.a), number(x.b), 0, 0));
  };
  std::ranges::sort(rare, {}, order);
  return rare;
}

// Whether a class can be had beside those of a row.
bool goes_with(const std::vector<Ask>& row, const Class& x) {
  return std::ranges::all_of(row, [&](const Ask& ask) { return ask.axis != x.axis || ask.at == x.at; });
}
void ask(std::vector<Ask>& row, const Class& x) {
  if (std::ranges::none_of(row, [&](const Ask& ask) { return ask.axis == x.axis; })) row.push_back({x.axis, x.at});
}

}  // namespace

std::span<const Ask> Covering::row(uint64_t seed, uint64_t number) const {
  if (rows_.empty()) return {};
  return rows_[(mix(seed, 0, 0, 0, 0) % rows_.size() + number) % rows_.size()];
}

std::shared_ptr<const Covering> covering_of(const Aim& aim) {
  Aim alone = aim;
  alone.covering.reset();
  const std::vector<Pair> pairs = rare_pairs(alone);
  std::vector<bool> taken(pairs.size());
  std::vector<std::vector<Ask>> rows;
  for (size_t next = 0; next < pairs.size(); ++next) {
    if (taken[next]) continue;
    std::vector<Ask> row;
    for (size_t n = next; n < pairs.size() && n < next + kLookedAt && row.size() + 1 < kInARow; ++n) {
      if (taken[n] || !goes_with(row, pairs[n].a) || !goes_with(row, pairs[n].b)) continue;
      ask(row, pairs[n].a), ask(row, pairs[n].b);
      taken[n] = true;
    }
    // As the draw goes.
    std::ranges::sort(row, {}, &Ask::axis);
    rows.push_back(std::move(row));
  }
  return std::make_shared<const Covering>(std::move(rows));
}

}  // namespace attnfuzz
