// Lists the tiles that a row visits, in their order, and says where its maximum may grow.
//
// A plan that declares its order and its row maximum (attn_key_order, attn_max_rule) is charged only for
// what can happen. The accumulator is rescaled only where the running maximum can have grown, given the
// possible error of each score. The maximum m_t that P is relative to is known, so its rounding can be
// predicted (rounded_p.h). Partial sums up to each tile are known, so each addition is charged by its own size.
//
//   m_t      the maximum after tile t, of the scores of the split's tiles so far
//   m_t lies between max(x_j - err_j) and max(x_j + err_j), whatever the kernel's roundings are.
//   If the kernel scales and rounds m_t before it subtracts it, m_t may be off by another u |m_t|.
//
// A tile can make the maximum grow if its largest x_j + err_j exceeds the largest x_j - err_j before it.
// Without a declared rule every tile rescales (rescales_of()).
#pragma once

#include <cstdint>
#include <vector>

#include "reference/model/error_model.h"

namespace attnfuzz {

struct TileRun {
  int64_t begin, end;  // the row's keys in this tile, as indices into its list of keys
  int64_t split;
  double max = 0;        // m_t; only with a max_rule
  double uncertain = 0;  // how far the kernel's m_t may lie from it
  double rescales = 0;   // how often this tile's contribution may be rescaled later
  bool last = false;     // the last tile of its split
};

struct TileWalk {
  std::vector<TileRun> runs;  // in the order of work, split by split; ascending if the order is not known
  double rescales = 0;        // T: the most in any split
  double largest_error = 0;
  std::vector<double> split_max;  // by run: the m of its split, and its uncertainty
  std::vector<double> split_uncertain;
};

// keys: ascending, counted from `first`. x: scores; error: how far each may be off.
void walk_tiles(const ErrorModel& model, int64_t first, const int64_t* keys, int64_t n, const double* x,
                const double* error, TileWalk* out);

}  // namespace attnfuzz
