// The tiles that a row walks through, in which order, and where its maximum may grow.
//
// A plan that declares its order and its row maximum (attn_key_order, attn_max_rule)
// is charged for what can happen, not for what may: the accumulator is rescaled only
// where the running maximum can have grown, given how far each score may be off; P is
// made of a known maximum (rounded_p.h); the accumulator's size is known on its way.
//
//   m_t      the maximum after tile t, of the scores of the split's tiles so far
//   it lies between max(x_j - err_j) and max(x_j + err_j), whatever the kernel's roundings
//   and, where it is multiplied and rounded before it is subtracted, u |m_t| further off
//
// A tile can make it grow if its largest x_j + err_j is above the largest x_j - err_j
// before. Without a declared rule every tile rescales (rescales_of()).
#pragma once

#include <cstdint>
#include <vector>

#include "reference/model/error_model.h"

namespace attnfuzz {

struct TileRun {
  int64_t begin, end;  // the row's keys of this tile, as indices into its list of keys
  int64_t split;
  double max = 0;        // m_t; only where there is a max_rule
  double uncertain = 0;  // how far the kernel's may lie from it
  double rescales = 0;   // how often what this tile adds may be rescaled afterwards
  bool last = false;     // of its split
};

struct TileWalk {
  std::vector<TileRun> runs;      // in the order of work, split by split; ascending if that is not known
  double rescales = 0;            // T: at most, of any split
  double largest_error = 0;
  std::vector<double> split_max;  // of each run's split: its m and how far it may be off, by run
  std::vector<double> split_uncertain;
};

// keys: ascending, counted from `first`. x: scores; error: how far each may be off.
void walk_tiles(const ErrorModel& model, int64_t first, const int64_t* keys, int64_t n, const double* x,
                const double* error, TileWalk* out);

}  // namespace attnfuzz
