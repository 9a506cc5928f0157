// Chooses the next crash, so that each bug is met soon, however rare it is.
#include <algorithm>

#include "fuzz/campaign/triage/triage.h"

namespace attnfuzz {
namespace {

double likeness(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  size_t both = 0;
  for (const std::string& x : a) both += std::ranges::find(b, x) != b.end();
  const size_t any = a.size() + b.size() - both;
  return any == 0 ? 1 : static_cast<double>(both) / static_cast<double>(any);
}

}  // namespace

Looked look(const Crash& crash) {
  if (is_of_sequences(crash)) return {crash.target, crash.kind + " in sequences of calls", {}};
  return {crash.target, crash.kind, features(crash.c, 64, 64)};
}

size_t choose_crash(const std::vector<Crash>& crashes, const std::vector<Looked>& looked) {
  size_t best = 0, best_attention = ~size_t{0};
  double best_likeness = 2;
  for (size_t i = 0; i < crashes.size(); ++i) {
    const Looked mine = look(crashes[i]);
    size_t attention = 0;
    double most = 0;
    for (const Looked& other : looked) {
      if (other.target != mine.target || other.kind != mine.kind) continue;
      ++attention;
      most = std::max(most, likeness(mine.features, other.features));
    }
    if (attention < best_attention || (attention == best_attention && most < best_likeness)) {
      best = i;
      best_attention = attention;
      best_likeness = most;
    }
  }
  return best;
}

}  // namespace attnfuzz
