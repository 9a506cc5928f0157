#include "properties/case/size_set.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <numeric>
#include <span>

#include "properties/case/words.h"

namespace attnfuzz {
namespace {

constexpr int64_t kMostMultiple = int64_t{1} << 40;  // no size is larger

std::span<const int64_t> listed(const attn_sizes& sizes) {
  return {sizes.list, static_cast<size_t>(std::min<int64_t>(sizes.count, std::size(sizes.list)))};
}

int64_t step_of(const attn_sizes& sizes) { return std::max<int64_t>(sizes.multiple, 1); }

// Draws from low..high by octaves that start at `low`. All octaves are equally likely; the last one is
// weighted by the part of it below `high`.
int64_t log_uniform(Rng& rng, int64_t low, int64_t high) {
  constexpr int64_t kWhole = 1024;
  const auto last = [&](int64_t first) { return std::min(2 * first - 1, high); };
  const auto weight = [&](int64_t first) {
    return std::max<int64_t>(kWhole * (last(first) - first + 1) / first, 1);
  };
  int64_t sum = 0;
  for (int64_t first = low; first <= high; first *= 2) sum += weight(first);
  int64_t at = rng.range(0, sum - 1), first = low;
  for (; at >= weight(first); first *= 2) at -= weight(first);
  return rng.range(first, last(first));
}

}  // namespace

bool holds(const attn_sizes& sizes, int64_t n) {
  if (sizes.count > 0) return std::ranges::find(listed(sizes), n) != listed(sizes).end();
  return n >= sizes.least && (sizes.most == 0 || n <= sizes.most) && n % step_of(sizes) == 0;
}

int64_t nearest(const attn_sizes& sizes, int64_t n) {
  if (sizes.count > 0) {
    return *std::ranges::min_element(listed(sizes), [&](int64_t a, int64_t b) {
      const int64_t x = std::abs(a - n), y = std::abs(b - n);
      return x != y ? x < y : a < b;
    });
  }
  const int64_t step = step_of(sizes);
  n = std::max(n, sizes.least);
  if (sizes.most > 0) n = std::min(n, sizes.most / step * step);
  const int64_t up = rounded_up(n, step);
  return sizes.most > 0 && up > sizes.most ? up - step : up;
}

int64_t drawn(const attn_sizes& sizes, Rng& rng, int64_t reach) {
  constexpr int64_t kTimesLeast = 32, kPercentLeast = 8, kPercentMost = 12;
  if (sizes.count > 0) return rng.pick(listed(sizes));
  const int64_t step = step_of(sizes), least = rounded_up(std::max<int64_t>(sizes.least, 1), step);
  const int64_t most = sizes.most > 0 ? sizes.most : std::max(least, std::min(reach, kTimesLeast * least));
  if (most / step * step <= least) return nearest(sizes, least);
  if (rng.percent(kPercentLeast)) return least;
  if (sizes.most > 0 && rng.percent(kPercentMost)) return most / step * step;
  return step * log_uniform(rng, least / step, most / step);
}

std::optional<attn_sizes> intersection(const attn_sizes& a, const attn_sizes& b) {
  attn_sizes both = {};
  if (a.count > 0 || b.count > 0) {
    const attn_sizes &list = a.count > 0 ? a : b, &other = a.count > 0 ? b : a;
    for (const int64_t n : listed(list)) {
      if (holds(other, n)) both.list[both.count++] = n;
    }
    return both.count > 0 ? std::optional(both) : std::nullopt;
  }
  both.least = std::max(a.least, b.least);
  both.most = a.most == 0 || b.most == 0 ? std::max(a.most, b.most) : std::min(a.most, b.most);
  const int64_t x = step_of(a), y = step_of(b);
  if (y / std::gcd(x, y) > kMostMultiple / x) return std::nullopt;
  both.multiple = a.multiple == 0 && b.multiple == 0 ? 0 : std::lcm(x, y);
  const int64_t first = rounded_up(both.least, step_of(both));
  return both.most > 0 && first > both.most ? std::nullopt : std::optional(both);
}

std::string in_words(const attn_sizes& sizes) {
  if (sizes.count > 0) {
    std::vector<std::string> all;
    for (const int64_t n : listed(sizes)) all.push_back(cat(n));
    return join(all, ", ");
  }
  std::string text = sizes.multiple > 1 ? cat("multiples of ", sizes.multiple) : "";
  const auto add = [&](const char* word, int64_t n) { text += cat(text.empty() ? "" : " ", word, n); };
  if (sizes.least > 1 && sizes.most > 0) {
    if (sizes.least == sizes.most) return cat(sizes.least);
    add("from ", sizes.least);
    add("to ", sizes.most);
  } else if (sizes.least > 1) {
    add("at least ", sizes.least);
  } else if (sizes.most > 0) {
    add("at most ", sizes.most);
  }
  return text.empty() ? "any" : text;
}

}  // namespace attnfuzz
