#include "properties/reduce/candidates.h"

#include <algorithm>
#include <utility>

#include "properties/case/features/cost.h"
namespace attnfuzz {
namespace {

// Lengths at which a kernel with this tile changes its behaviour.
std::vector<int64_t> lengths(int64_t tile, std::initializer_list<int64_t> tiles, bool coarse) {
  std::vector<int64_t> values = {1, 2, tile + 1};
  if (!coarse) {
    values.push_back(0);
    for (const int64_t n : tiles) {
      values.push_back(n * tile);
      values.push_back(n * tile + 1);
    }
    values.push_back(tile - 1);
  }
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

// The number of forms that add() has for a feature.
int choices(const ShrinkToggle& feature, const Case& found) {
  int n = 0;
  for (Case scratch; n < 16 && feature.add(scratch, found, n); ++n) scratch = Case{};
  return n;
}

using Subset = std::vector<const ShrinkToggle*>;

// The forms of the features to try: all combinations if there are few. Otherwise, all features in their
// simplest form, and then one more feature after the other as found, until all are as found.
std::vector<std::vector<int>> forms(const Subset& features, const Case& found) {
  std::vector<int> counts;
  int64_t product = 1;
  for (const ShrinkToggle* f : features) {
    counts.push_back(std::max(choices(*f, found), 1));
    product *= counts.back();
  }
  std::vector<std::vector<int>> all;
  if (product <= 8) {
    for (int64_t code = 0; code < product; ++code) {
      std::vector<int> form;
      int64_t rest = code;
      for (const int count : counts) {
        form.push_back(static_cast<int>(rest % count));
        rest /= count;
      }
      all.push_back(std::move(form));
    }
    return all;
  }
  std::vector<int> form(features.size(), 0);
  all.push_back(form);
  for (size_t i = 0; i < features.size(); ++i) {
    form[i] = counts[i] - 1;
    all.push_back(form);
  }
  return all;
}

// Features late in the list first, because they set sizes that others depend on.
Subset in_order(Subset features) {
  std::ranges::sort(features, [](const ShrinkToggle* a, const ShrinkToggle* b) { return a > b; });
  return features;
}

// Cases with these features and nothing else, at lengths beside the borders of tiles.
void add_plain(Candidates& all, const Case& found, const Leftovers& left, Subset features,
               const Borders& borders, bool coarse) {
  features.insert(features.end(), left.forced.begin(), left.forced.end());
  features = in_order(std::move(features));
  for (const auto& form : forms(features, found)) {
    for (const int64_t seq_q : lengths(borders.tile_q, {1, 2}, coarse)) {
      for (const int64_t seq_k : lengths(borders.tile_k, {1, 2, 4}, coarse)) {
        Case c;
        c.build_kind = found.build_kind;
        c.problem.features = found.problem.features;
        c.problem.seq_q = seq_q;
        c.problem.seq_k = seq_k;
        for (size_t i = 0; i < features.size(); ++i) features[i]->add(c, found, form[i]);
        all.add(c, left.data);
      }
    }
  }
}

// The order of std::vector, whose templates take a third of a reduction if nothing is optimised.
bool is_less(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  const size_t size = std::min(a.size(), b.size());
  const int64_t *x = a.data(), *y = b.data();
  for (size_t i = 0; i < size; ++i) {
    if (x[i] != y[i]) return x[i] < y[i];
  }
  return a.size() < b.size();
}

}  // namespace

void Candidates::add(Case c) {
  tidy(c);
  std::vector<int64_t> cost = complexity(c);
  if ((!below_ || is_less(cost, *below_)) && !illegal(c)) all_.emplace_back(std::move(cost), std::move(c));
}

void Candidates::add(const Case& c, std::span<const Data> all) {
  for (const Data& data : all) add(with_data(c, data));
}

std::vector<Case> Candidates::take(size_t limit) {
  using Costly = std::pair<std::vector<int64_t>, Case>;
  std::ranges::sort(all_, is_less, &Costly::first);
  // Cases of equal cost are equal.
  const auto is_same = [](const auto& a, const auto& b) { return !is_less(a, b); };  // b is never smaller
  const auto repeated = std::ranges::unique(all_, is_same, &Costly::first);
  all_.erase(repeated.begin(), repeated.end());
  if (all_.size() > limit) all_.resize(limit);
  std::vector<Case> cases;
  for (Costly& one : all_) cases.push_back(std::move(one.second));
  return cases;
}

Leftovers strip(Search& s) {
  Leftovers left;
  s.attempt(s.best());  // tidied
  // Repeated until nothing changes: a feature may become removable once another is gone.
  for (bool moved = true; moved && !s.out_of_time();) {
    moved = false;
    left.needed.clear();
    left.forced.clear();
    for (const ShrinkToggle& feature : shrink_toggles()) {
      if (!feature.present(s.best())) continue;
      Case without = s.best();
      feature.remove(without);
      if (s.attempt(without)) {
        moved = true;
        continue;
      }
      const bool refused = s.ask(without) == Search::Answer::kRefused;
      (refused ? left.forced : left.needed).push_back(&feature);
    }
  }
  // Most bugs show with ones or Gaussians. If neither fails, other fills are tried.
  const auto fails = [&](const Data& data) {
    const Case c = with_data(s.best(), data);
    return s.attempt(c) || s.ask(c) == Search::Answer::kFails;
  };
  const Data &ones = regimes()[0], &gaussian = regimes()[1];
  left.data = {ones, gaussian};
  if (fails(ones) || fails(gaussian)) return left;
  for (const Data& data : regimes().subspan(2)) {
    if (!fails(data)) continue;
    left.data = {data};
    return left;
  }
  Data own{s.best().q, s.best().k, s.best().v}, seedless = own;
  seedless.q.seed = seedless.k.seed = seedless.v.seed = 0;
  left.data = {seedless, own};
  return left;
}

std::vector<Case> small_cases(const Case& found, const Leftovers& left, const Borders& borders, size_t limit) {
  Candidates all;
  const auto add = [&](Subset features, bool coarse) {
    add_plain(all, found, left, std::move(features), borders, coarse);
  };
  const Subset& needed = left.needed;
  add(needed, false);
  // Fewer features than the found case needs may suffice at other sizes. If few are left, all sizes are tried,
  // else a few sizes.
  const bool few = needed.size() <= 2;
  if (!needed.empty()) add({}, !few);
  for (size_t i = 0; i < needed.size() && needed.size() > 1; ++i) {
    add({needed[i]}, !few);
    for (size_t j = i + 1; j < needed.size() && needed.size() > 2; ++j) add({needed[i], needed[j]}, true);
  }
  return all.take(limit);
}

}  // namespace attnfuzz
