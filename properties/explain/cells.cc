#include "properties/explain/cells.h"

#include <algorithm>

#include "reference/call/row_space.h"

namespace attnfuzz {

double visible_share(const VisibilityCache& visible, const Cell& cell) {
  const auto queries = samples(cell.row_begin, cell.row_end, 16);
  const auto keys = samples(cell.column_begin, cell.column_end, 16);
  size_t seen = 0;
  for (const int64_t i : queries) {
    for (const int64_t j : keys) seen += visible(i, j);
  }
  return static_cast<double>(seen) / static_cast<double>(queries.size() * keys.size());
}

double worst_ratio(const Reference& reference, const std::vector<float>& got, int64_t first_row,
                   const Cell& cell) {
  const Expected& o = reference.main();
  double worst = -1;
  for (int64_t row = first_row + cell.row_begin; row < first_row + cell.row_end; ++row) {
    if (reference.state[static_cast<size_t>(row)] >= RowState::kSkipped) continue;  // or not there
    for (int64_t d = cell.column_begin; d < cell.column_end; ++d) {
      worst = std::max(worst, o.ratio(row, d, got[static_cast<size_t>(row * o.columns + d)]));
    }
  }
  return worst;
}

Head first_failing_head(const Problem& p, const Reference& reference, const std::vector<float>& got) {
  const int64_t columns = reference.main().columns;
  for (int64_t row = 0; row < reference.rows; ++row) {
    if (worst_ratio(reference, got, row, {0, 1, 0, columns}) <= 1) continue;
    const Row at = RowSpace(p).at(row);
    return {at.b, at.h};
  }
  return {};
}

}  // namespace attnfuzz
