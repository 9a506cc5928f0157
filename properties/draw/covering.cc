#include "properties/draw/covering.h"

#include <algorithm>

#include "properties/axes/axis.h"
#include "properties/data/fills.h"
#include "properties/draw/generator.h"
#include "properties/draw/rapidcheck_rng.h"

namespace attnfuzz {
namespace {

constexpr uint64_t kSeed = 0x9e3779b9, kDrawn = 2000;
constexpr uint32_t kRare = 1;      // a pair met more often is left to chance
constexpr size_t kInARow = 8;      // classes in a row
constexpr size_t kLookedAt = 160;  // pairs that are tried to extend a row

struct Pair {
  AxisRequest a, b;
  uint32_t met;
  uint64_t turn;  // position among the pairs met equally often
};

// Classes that a row may ask for. Costly classes are left to chance.
std::vector<AxisRequest> classes() {
  std::vector<AxisRequest> all;
  for (size_t axis = 0; axis < axes().size(); ++axis) {
    for (int at = 0; at < axes()[axis].usual(); ++at) all.push_back({axis, at});
  }
  return all;
}

// Classes and pairs of classes, the rarest first. Ties are in a fixed pseudo-random order.
struct Rare {
  std::vector<AxisRequest> singles;  // all classes
  std::vector<Pair> pairs;           // pairs met kRare times at most
  SeenTriples triples;
};

uint64_t any_order(const AxisRequest& a, const AxisRequest& b) {
  const auto number = [](const AxisRequest& x) { return x.axis << 16 | static_cast<size_t>(x.at); };
  return mix(kSeed, number(a), number(b), 0, 0);
}
Pair pair_of(const AxisRequest& a, const AxisRequest& b, uint32_t met) { return {a, b, met, any_order(a, b)}; }

Rare rare(const GeneratorConfig& config) {
  const std::vector<AxisRequest> all = classes();
  std::vector<size_t> first(axes().size());  // of each axis, in `all`
  for (size_t n = all.size(); n-- > 0;) first[all[n].axis] = n;
  std::vector<uint32_t> met(all.size() * all.size());  // the diagonal counts single classes
  SeenTriples triples;
  for (uint64_t i = 0; i < kDrawn; ++i) {
    const Case c = draw(config, kSeed, i);
    const Tiling tiling = tiling_of(config, c);
    const Tiled tiled = {c, c.problem, tiling.q, tiling.k, c.problem.num_splits};
    std::vector<size_t> is;
    std::vector<AxisRequest> steering;
    for (size_t axis = 0; axis < axes().size(); ++axis) {
      const int at = axes()[axis].of(tiled);
      if (at == kNoClass || at >= axes()[axis].usual()) continue;
      is.push_back(first[axis] + static_cast<size_t>(at));
      for (const size_t before : is) ++met[before * all.size() + is.back()];
      if (axes()[axis].steers > 0) steering.push_back({axis, at});
    }
    triples.add(steering);
  }
  std::vector<Pair> singles, pairs;
  for (size_t a = 0; a < all.size(); ++a) {
    singles.push_back(pair_of(all[a], all[a], met[a * all.size() + a]));
    for (size_t b = a + 1; b < all.size(); ++b) {
      const uint32_t n = met[a * all.size() + b];
      if (all[a].axis != all[b].axis && n <= kRare) pairs.push_back(pair_of(all[a], all[b], n));
    }
  }
  const auto order = [](const Pair& x) { return std::pair(x.met, x.turn); };
  std::ranges::sort(singles, {}, order);
  std::ranges::sort(pairs, {}, order);
  Rare rare = {{}, std::move(pairs), std::move(triples)};
  for (const Pair& one : singles) rare.singles.push_back(one.a);
  return rare;
}

// True if no class of the row contradicts this class.
bool goes_with(const std::vector<AxisRequest>& row, const AxisRequest& x) {
  return std::ranges::all_of(
      row, [&](const AxisRequest& request) { return request.axis != x.axis || request.at == x.at; });
}
// Inserts a class in the order of the table.
void request(std::vector<AxisRequest>& row, const AxisRequest& x) {
  const auto at = std::ranges::lower_bound(row, x.axis, {}, &AxisRequest::axis);
  if (at == row.end() || at->axis != x.axis) row.insert(at, x);
}

// adds_to_scores() of all classes, computed once.
struct Adding {
  Adding() {
    for (const AxisRequest& request : classes()) {
      all.resize(std::max(all.size(), request.axis + 1));
      all[request.axis].push_back(adds_to_scores(request));
    }
  }
  bool of(const AxisRequest& request) const { return all[request.axis][static_cast<size_t>(request.at)]; }
  std::vector<std::vector<bool>> all;
};

std::vector<std::vector<AxisRequest>> rows_of(const std::vector<Pair>& pairs) {
  std::vector<bool> taken(pairs.size());
  std::vector<std::vector<AxisRequest>> rows;
  for (size_t next = 0; next < pairs.size(); ++next) {
    if (taken[next]) continue;
    std::vector<AxisRequest> row;
    for (size_t n = next; n < pairs.size() && n < next + kLookedAt && row.size() + 1 < kInARow; ++n) {
      if (taken[n] || !goes_with(row, pairs[n].a) || !goes_with(row, pairs[n].b)) continue;
      request(row, pairs[n].a), request(row, pairs[n].b);
      taken[n] = true;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

namespace {

// The classes of one steering axis. The last class is unbounded and is listed `kOften` times.
struct Steering {
  static constexpr int kOften = 3;
  size_t axis;
  std::vector<int> classes;
};
const std::vector<Steering>& steering_axes() {
  static const std::vector<Steering> all = [] {
    const GeneratorConfig config;
    std::vector<Steering> found;
    for (size_t n = 0; n < axes().size(); ++n) {
      const CaseAxis& axis = axes()[n];
      if (axis.steers == 0) continue;
      Steering one = {n, {}};
      for (int at = 0; at < axis.usual(); ++at) {
        RapidcheckRng rng(rc::Random(rc::Random::Key{}));
        Case c;
        axis.make({config, rng, config.tiles_q.front(), config.tiles_k.front()}, at, c);
        if (!is_empty(c.problem)) one.classes.push_back(at);
      }
      // Sizes continue beyond the last border.
      const int last = one.classes.back();
      if (axis.phase == Phase::kSizes && last > 8)
        one.classes.insert(one.classes.end(), Steering::kOften - 1, last);
      found.push_back(std::move(one));
    }
    return found;
  }();
  return all;
}

}  // namespace

std::vector<AxisRequest> together(Rng& rng) {
  std::vector<AxisRequest> row;
  for (const Steering& of : steering_axes()) {
    if (rng.percent(axes()[of.axis].steers))
      row.push_back({of.axis, rng.pick<int>(std::span<const int>(of.classes))});
  }
  return row;
}

namespace {

// Numbers the classes of all steering axes one after another. Other axes have no numbers.
struct SteeringNumbers {
  SteeringNumbers() {
    for (const CaseAxis& axis : axes()) {
      first.push_back(count);
      if (axis.steers > 0) count += static_cast<size_t>(axis.usual());
    }
  }
  size_t of(const AxisRequest& request) const { return first[request.axis] + static_cast<size_t>(request.at); }
  std::vector<size_t> first;
  size_t count = 0;
};
const SteeringNumbers& steering_numbers() {
  static const SteeringNumbers all;
  return all;
}

// Calls `visit` with the number of each triple of the row.
void each_triple(const std::vector<AxisRequest>& row, const auto& visit) {
  const SteeringNumbers& n = steering_numbers();
  for (size_t a = 0; a < row.size(); ++a) {
    for (size_t b = a + 1; b < row.size(); ++b) {
      const size_t pair = (n.of(row[a]) * n.count + n.of(row[b])) * n.count;
      for (size_t c = b + 1; c < row.size(); ++c) visit(pair + n.of(row[c]));
    }
  }
}

}  // namespace

void SeenTriples::add(const std::vector<AxisRequest>& steering) {
  const size_t n = steering_numbers().count;
  seen_.resize(n * n * n);
  each_triple(steering, [&](size_t at) { seen_[at] = true; });
}

double SeenTriples::unseen(const std::vector<AxisRequest>& row) const {
  double sum = 0, of = 1;
  if (!seen_.empty()) each_triple(row, [&](size_t at) { sum += !seen_[at], ++of; });
  return sum / of;
}

bool adds_to_scores(const Problem& p) { return p.mask || p.bias || p.softcap != 0; }

bool adds_to_scores(const AxisRequest& request) {
  const GeneratorConfig config;
  RapidcheckRng rng(rc::Random(rc::Random::Key{}));
  Case c;
  axes()[request.axis].make({config, rng, config.tiles_q.front(), config.tiles_k.front()}, request.at, c);
  return adds_to_scores(c.problem);
}

Covering::Covering(GeneratorConfig config) : config_(std::move(config)) { config_.covering.reset(); }

void Covering::make() const {
  // A mutex instead of std::call_once: an exception through call_once ends a program that has its own unwinder
  // (-static-libgcc).
  const std::lock_guard lock(making_);
  if (made_) return;
  const Rare rare = attnfuzz::rare(config_);
  const Adding adding;
  const auto odd = [](const AxisRequest& x) { return axes()[x.axis].odd && x.at != 0; };
  std::vector<Pair> plain, others, odd_ones;
  for (const Pair& x : rare.pairs)
    (odd(x.a) || odd(x.b) ? odd_ones : adding.of(x.a) || adding.of(x.b) ? others : plain).push_back(x);
  plain_.rows = rows_of(plain), adding_.rows = rows_of(others), odd_.rows = rows_of(odd_ones);
  for (const AxisRequest& one : rare.singles)
    (odd(one) ? odd_ : adding.of(one) ? adding_ : plain_).singles.push_back(one);
  seen_ = rare.triples;
  made_ = true;
}

std::vector<AxisRequest> Covering::together(Rng& rng) const {
  constexpr int kRows = 6;
  make();
  std::vector<AxisRequest> best = attnfuzz::together(rng);
  for (int n = 1; n < kRows; ++n) {
    std::vector<AxisRequest> other = attnfuzz::together(rng);
    if (seen_.unseen(other) > seen_.unseen(best)) best = std::move(other);
  }
  return best;
}

size_t Covering::size() const {
  make();
  return plain_.rows.size() + adding_.rows.size() + odd_.rows.size();
}

std::vector<AxisRequest> Covering::row(uint64_t seed, uint64_t number) const {
  make();
  // Numbers of rows that are not odd are counted without gaps and alternate between plain_ and adding_.
  const uint64_t others = number - number / 5, nth = odd(number) ? number / 5 : others / 2;
  const Turn& turn = odd(number) ? odd_ : others % 2 == 0 ? plain_ : adding_;
  const uint64_t at = mix(seed, 0, 0, 0, 0) % std::max<size_t>(size(), 1) + nth;
  std::vector<AxisRequest> row;
  if (!turn.rows.empty()) row = turn.rows[at % turn.rows.size()];
  request(row, turn.singles[nth % turn.singles.size()]);
  return row;
}

}  // namespace attnfuzz
