#include "properties/explain/cells.h"

#include <algorithm>

#include "properties/case/places/geometry.h"

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

bool Compared::judged(int64_t row, int64_t column) const {
  return static_cast<Due>(due.rule[static_cast<size_t>(row * due.columns + column)]) != Due::kAnything;
}

double Compared::ratio(int64_t row, int64_t column) const {
  return due.ratio(row, column, got[static_cast<size_t>(row * due.columns + column)]);
}

bool Compared::wrong() const {
  for (int64_t row = 0; row < rows(); ++row)
    for (int64_t d = 0; d < due.columns; ++d)
      if (!(ratio(row, d) <= 1)) return true;
  return false;
}

std::vector<Compared> compared(const Reference& reference, const Outputs& got) {
  std::vector<Compared> outputs;
  for (const Expected& due : reference.outputs) {
    const std::vector<float>& values = got[due.tensor];
    if (due.columns > 0 && !values.empty() && values.size() == due.value.size())
      outputs.push_back({due, values});
  }
  return outputs;
}

const Compared& first_wrong(const std::vector<Compared>& outputs) {
  const auto wrong = std::ranges::find_if(outputs, &Compared::wrong);
  return wrong == outputs.end() ? outputs.front() : *wrong;
}

RowSpace rows_of(const Problem& p, const Compared& output) {
  const auto size = logical_size(p, output.due.tensor);
  return {size[0], size[1], size[2]};
}

double worst_ratio(const Compared& output, int64_t first_row, const Cell& cell) {
  double worst = -1;
  for (int64_t row = first_row + cell.row_begin; row < first_row + cell.row_end; ++row)
    for (int64_t d = cell.column_begin; d < cell.column_end; ++d)
      if (output.judged(row, d)) worst = std::max(worst, output.ratio(row, d));
  return worst;
}

Head first_failing_head(const Problem& p, const Compared& output) {
  for (int64_t row = 0; row < output.rows(); ++row) {
    if (worst_ratio(output, row, {0, 1, 0, output.due.columns}) <= 1) continue;
    const Row at = rows_of(p, output).at(row);
    return {at.b, at.h};
  }
  return {};
}

bool of_kv_heads(const Compared& output) { return spec_of(output.due.tensor).shape[1] == Size::kHeadsKv; }

int64_t query_head(const Problem& p, const Compared& output, int64_t head) {
  return of_kv_heads(output) ? head * (p.heads_q / std::max<int64_t>(p.heads_kv, 1)) : head;
}

}  // namespace attnfuzz
