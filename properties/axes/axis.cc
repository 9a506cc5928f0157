#include "properties/axes/axis.h"

#include <algorithm>
#include <bit>

#include "properties/case/words.h"

namespace attnfuzz {
namespace {

// Draws from low..high so that each power of two is equally likely.
int64_t log_uniform(Rng& rng, int64_t low, int64_t high) {
  if (low < 1) return rng.range(low, high);
  const auto bits = [](int64_t n) { return std::bit_width(static_cast<uint64_t>(n)); };
  const int64_t least = int64_t{1} << (rng.range(bits(low), bits(high)) - 1);
  return rng.range(std::max(low, least), std::min(high, least + (least - 1)));
}

std::string range_name(int64_t low, int64_t high, bool last) {
  if (low == high) return cat(low);
  return last ? cat(low, " or more") : cat(low, "..", high);
}

}  // namespace

CaseAxis number(const char* name, Phase phase, std::vector<int64_t> starts, int64_t most, Get get, Set set,
                int64_t dear) {
  starts.push_back(most + 1);
  CaseAxis axis{name, phase, {}, {}, {}};
  for (size_t i = 0; i + 1 < starts.size(); ++i) {
    axis.classes.push_back(range_name(starts[i], starts[i + 1] - 1, i + 2 == starts.size()));
    if (axis.dear < 0 && starts[i] >= dear) axis.dear = static_cast<int>(i);
  }
  axis.of = [=](const Tiled& x) {
    const int64_t n = std::clamp(get(x.c), starts.front(), most);
    return static_cast<int>(std::ranges::upper_bound(starts, n) - starts.begin()) - 1;
  };
  axis.make = [=](const DrawContext& context, int at, Case& c) {
    const auto i = static_cast<size_t>(at);
    set(c, log_uniform(context.rng, starts[i], starts[i + 1] - 1));
  };
  return axis;
}

std::vector<int64_t> beside(std::vector<int64_t> starts, std::initializer_list<int64_t> borders) {
  for (const int64_t border : borders) {
    for (int64_t n = border - 1; n <= border + 2; ++n) starts.push_back(n);
  }
  std::ranges::sort(starts);
  const auto rest = std::ranges::unique(starts);
  starts.erase(rest.begin(), rest.end());
  return starts;
}

CaseAxis in_tiles(const char* name, Phase phase, int64_t DrawContext::* tile, int64_t Tiled::* tile_of, Get get,
                  Set set, int tiles) {
  // places at each border: one before it, on it, one after it, and further inside the next tile
  constexpr int kPlaces = 4;
  CaseAxis axis{name, phase, {"none", "in the first"}, {}, {}};
  for (int n = 1; n <= tiles; ++n) {
    for (const char* place : {"tiles less 1", "tiles", "tiles and 1"})
      axis.classes.push_back(cat(n, " ", place));
    axis.classes.push_back(n < tiles ? cat("in number ", n + 1) : "beyond");
  }
  axis.of = [=](const Tiled& x) {
    const int64_t n = get(x.c), size = x.*tile_of;
    if (n <= 0) return n < 0 ? kNoClass : 0;
    const int64_t border = n / size + (n % size == size - 1 ? 1 : 0);  // (n + 1) / size, without its overflow
    if (border < 1) return 1;
    if (border > tiles) return 1 + tiles * kPlaces;
    const int64_t place = n - border * size + 1;
    return static_cast<int>(2 + (border - 1) * kPlaces + std::min<int64_t>(place, kPlaces - 1));
  };
  axis.make = [=](const DrawContext& context, int at, Case& c) {
    const int64_t size = context.*tile;
    if (at < 2) return set(c, at == 0 ? 0 : context.rng.range(1, std::max<int64_t>(size - 2, 1)));
    const int64_t border = (at - 2) / kPlaces + 1, place = (at - 2) % kPlaces;
    const int64_t within = context.rng.range(2, std::max<int64_t>(size - 2, 2));
    set(c, std::max<int64_t>(border * size + (place < kPlaces - 1 ? place - 1 : within), 0));
  };
  return axis;
}

CaseAxis steering(int percent, CaseAxis axis) {
  axis.steers = percent;
  return collected(std::move(axis));
}

CaseAxis collected(CaseAxis axis) {
  axis.collected = true;
  return axis;
}

CaseAxis choice(const char* name, Phase phase, std::initializer_list<Choice> choices) {
  CaseAxis axis{name, phase, {}, {}, {}};
  for (const Choice& one : choices) axis.classes.emplace_back(one.name);
  axis.of = [all = std::vector<Choice>(choices)](const Tiled& x) {
    const auto it = std::ranges::find_if(all, [&](const Choice& one) { return one.there(x.c); });
    return it == all.end() ? kNoClass : static_cast<int>(it - all.begin());
  };
  axis.make = [all = std::vector<Choice>(choices)](const DrawContext& context, int at, Case& c) {
    all[static_cast<size_t>(at)].make(context, c);
  };
  return axis;
}

CaseAxis kinds(std::string name, Phase phase, std::span<const char* const> names,
               std::function<int(const Case&)> get, std::function<void(const DrawContext&, int, Case&)> set) {
  return {.name = std::move(name),
          .phase = phase,
          .classes = {names.begin(), names.end()},
          .of = [get = std::move(get)](const Tiled& x) { return get(x.c); },
          .make = std::move(set)};
}

std::vector<CaseAxis> joined(std::vector<std::vector<CaseAxis>> lists) {
  std::vector<CaseAxis> all;
  for (auto& list : lists) std::ranges::move(list, std::back_inserter(all));
  return all;
}

std::span<const CaseAxis> axes() {
  static const std::vector<CaseAxis> all =
      joined({axes_of_sizes(), axes_of_visibility(), axes_of_values(), axes_of_memory(), axes_of_entries()});
  return all;
}

}  // namespace attnfuzz
