#include "reference/call/row_sample.h"

#include <algorithm>
#include <numeric>
#include <unordered_set>

#include "base/random.h"
#include "reference/call/row_space.h"

namespace attnfuzz {
std::vector<int64_t> sampled_rows(const attn_problem& problem, int64_t tile_q, RowSample sample) {
  const int64_t heads = problem.batch * problem.heads_q;
  const int64_t rows = RowSpace(problem).count();
  std::vector<int64_t> chosen;
  if (sample.limit <= 0 || sample.limit >= rows) {
    chosen.resize(static_cast<size_t>(rows));
    std::iota(chosen.begin(), chosen.end(), 0);
    return chosen;
  }
  std::unordered_set<int64_t> seen;
  const auto add = [&](int64_t row, int64_t limit) {
    if (static_cast<int64_t>(chosen.size()) < limit && seen.insert(row).second) chosen.push_back(row);
  };
  SplitMix64 bits{sample.seed};
  const auto random = [&](int64_t below) { return bits.below(below); };

  add(0, sample.limit);
  add(rows - 1, sample.limit);
  const int64_t tiles = tile_q > 0 ? problem.seq_q / tile_q : 0;
  for (int64_t k = 0; tiles > 0 && k < sample.limit / 4; ++k) {
    // Takes the first borders, then random ones; each in a random head.
    const int64_t border = tile_q * (k < 4 ? 1 + k % tiles : 1 + random(tiles));
    const int64_t head = random(heads) * problem.seq_q;
    add(head + border - 1, sample.limit / 2);
    if (border < problem.seq_q) add(head + border, sample.limit / 2);
  }
  while (static_cast<int64_t>(chosen.size()) < sample.limit) add(random(rows), sample.limit);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

}  // namespace attnfuzz
