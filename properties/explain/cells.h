// Computes the value of one cell of a picture: the share of visible pairs, or the largest error/bound.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "properties/case/case.h"
#include "properties/data/tiles.h"
#include "properties/explain/picture.h"
#include "properties/operations/outputs.h"
#include "reference/call/row_space.h"
#include "reference/oracle.h"

namespace attnfuzz {

// Returns the share of visible pairs, 0 to 1. A large cell is sampled at 16 x 16 pairs, including its corners.
double visible_share(const VisibilityCache& visible, const Cell& cell);

// An output as a kernel wrote it, beside the expected values. `due` must outlive this.
struct Compared {
  const Expected& due;
  std::span<const float> got;
  int64_t rows() const { return static_cast<int64_t>(got.size()) / due.columns; }
  // False if the oracle accepts any value there.
  bool judged(int64_t row, int64_t column) const;
  double ratio(int64_t row, int64_t column) const;  // error/bound
  bool wrong() const;                               // an element is outside its bound
};
// The outputs with a bound that were written, in the order of the operation: its main output first.
std::vector<Compared> compared(const Reference& reference, const Outputs& got);
// Returns the first output that is wrong, or the first output if none is.
const Compared& first_wrong(const std::vector<Compared>& outputs);

// The rows of an output. O has a row for each query, dK a row for each key.
RowSpace rows_of(const Problem& p, const Compared& output);

// The largest error/bound of the output in the cell. The cell's rows count from `first_row` of the output.
// Infinity if an element has no ratio (Expected::ratio()), for example NaN in place of a number. -1 if no
// element of the cell is judged.
double worst_ratio(const Compared& output, int64_t first_row, const Cell& cell);

// The first (batch entry, head) of the output with an element outside its bound; the very first if there is
// none. If of_kv_heads(), it is a KV head.
struct Head {
  int64_t b = 0, h = 0;
};
Head first_failing_head(const Problem& p, const Compared& output);
// True for an output whose heads are KV heads: a gradient of keys, scores of blocks.
bool of_kv_heads(const Compared& output);
// Returns `head` itself, or, if it is a KV head, the first query head that uses it.
int64_t query_head(const Problem& p, const Compared& output, int64_t head);

}  // namespace attnfuzz
