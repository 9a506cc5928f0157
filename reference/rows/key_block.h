// The keys that a block of rows works on: those that any of its rows sees.
//
// Rows of one (batch, KV head) that are evaluated together (products.h) share what they read. Keys are
// counted from Operands::first and lie in panels of kLanes (operands.h). Only panels with a visible key are
// kept, side by side. The place of key j in them is its position. Dense arrays over a row's keys are
// indexed by position, with 0 for hidden keys. Memory is a few such arrays for each row of the block.
//
//   KeyBlock block = make_key_block(model, operands.first, {&keys_of_row_0, &keys_of_row_1});
//   score_products(operands, block.panels, rows);
//   block.place(keys, &places);
//   for (int64_t k = 0; k < places.count; ++k) x[k] = dot[places.of(k)];
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference/model/error_model.h"
#include "reference/rows/products.h"

namespace attnfuzz {

// One KV tile of the kernel: spans [begin, end) of KeyBlock::tile_spans.
struct KeyTile {
  int64_t tile;  // tile number
  size_t begin, end;
  bool last;  // the last tile of its split
};

// The positions of one row's keys.
struct KeyPlaces {
  int64_t begin = 0;          // position of the first key, if the others follow it
  std::vector<int64_t> each;  // otherwise the position of each
  int64_t count = 0;

  int64_t of(int64_t k) const { return each.empty() ? begin + k : each[static_cast<size_t>(k)]; }
  // Collects the numbers of the row's keys from an array by position; uses `room` if they must be moved.
  const double* gather(const double* from, Buffer* room) const;
  // Returns where to write the numbers of the row's keys. If their positions are consecutive, that is at these
  // positions of `to`; otherwise it is in `room`. `positions`: the size of `to`.
  double* place_for(int64_t positions, Buffer* to, Buffer* room) const;
  // Moves the numbers that were written there to their positions in `to`, with 0 for hidden keys.
  void spread(const double* from, int64_t positions, Buffer* to) const;
};

struct KeyBlock {
  std::vector<int64_t> panels;      // ascending
  std::vector<KeySpan> spans;       // all their keys, ascending
  std::vector<KeySpan> tile_spans;  // the same, cut at the ends of tiles; only if the kernel has an order
  std::vector<KeyTile> tiles;       // in the order of work

  int64_t positions() const { return static_cast<int64_t>(panels.size()) * kLanes; }
  // The positions of keys in these panels.
  void place(std::span<const int64_t> keys, KeyPlaces* out) const;

  std::vector<int64_t> slots;  // for each panel from panels[0] on: its index in panels
};

// `rows`: each row's visible keys, ascending, none empty. `count`: the number of keys that exist.
void make_key_block(const ErrorModel& model, int64_t first, int64_t count,
                    std::span<const std::span<const int64_t>> rows, KeyBlock* out);

}  // namespace attnfuzz
