// The keys that a block of rows works on: those that any of its rows sees.
//
// Rows of one (batch, kv head) that are evaluated together (products.h) share what they
// read. Keys count from Operands::first and lie in panels of kLanes (operands.h);
// only panels with a visible key are kept, side by side. Where key j lies in them is its
// position: dense arrays over a row's keys are indexed by it, with 0 for what is hidden.
// Memory is a few such arrays for each row of the block.
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

// One KV tile of the kernel's: spans [begin, end) of KeyBlock::tile_spans.
struct KeyTile {
  int64_t tile;  // its number
  size_t begin, end;
  bool last;  // of its split
};

// Where the keys of one row lie.
struct KeyPlaces {
  int64_t begin = 0;          // of the first, if the others follow it
  std::vector<int64_t> each;  // else of each
  int64_t count = 0;

  int64_t of(int64_t k) const { return each.empty() ? begin + k : each[static_cast<size_t>(k)]; }
  // The numbers of the row's keys, from one a position; in `room` if they have to be moved.
  const double* gather(const double* from, Buffer* room) const;
  // Where numbers of the row's keys are written that belong in `to`, one a position: there at once if they need
  // not be moved, else in `room`.
  double* place_for(int64_t positions, Buffer* to, Buffer* room) const;
  // Puts them there, 0 for what is hidden; `positions` in all.
  void spread(const double* from, int64_t positions, Buffer* to) const;
};

struct KeyBlock {
  std::vector<int64_t> panels;      // ascending
  std::vector<KeySpan> spans;       // all keys of them, ascending
  std::vector<KeySpan> tile_spans;  // the same, cut where tiles end; only if the kernel has an order
  std::vector<KeyTile> tiles;       // in that order

  int64_t positions() const { return static_cast<int64_t>(panels.size()) * kLanes; }
  // Of keys in these panels.
  void place(std::span<const int64_t> keys, KeyPlaces* out) const;

  std::vector<int64_t> slots;  // of each panel from panels[0] on: its index in panels
};

// `rows`: each row's visible keys, ascending, none empty. `count`: the keys that there are.
void make_key_block(const ErrorModel& model, int64_t first, int64_t count,
                    std::span<const std::span<const int64_t>> rows, KeyBlock* out);

}  // namespace attnfuzz
