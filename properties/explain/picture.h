// Pictures of a matrix in a terminal. They are scaled down to fit. A cell never crosses a tile border,
// because attention kernels go wrong there.
//
//   Ruler rows = make_ruler(130, 64, 20), columns = make_ruler(65, 64, 80);
//   draw(rows, columns, [](const Cell& c) { return any(c) ? "#" : "."; }, ascii);
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace attnfuzz {

// One axis, cut into cells. If there are too many tiles for a border each, a cell holds several whole tiles
// and no border is drawn.
struct Ruler {
  std::vector<int64_t> starts;  // the start of each cell, and the end of the last
  std::vector<bool> border;     // true if a tile other than the first begins at this cell
  int64_t tile = 1;
  int64_t cells() const { return static_cast<int64_t>(starts.size()) - 1; }
  int64_t width() const;  // in characters, with borders
};
Ruler make_ruler(int64_t size, int64_t tile, int64_t most_characters);

struct Cell {
  int64_t row_begin, row_end, column_begin, column_end;
};

// Lines of text, each indented by the number of its first row. `glyph` is one character wide, with or
// without colour.
std::string draw(const Ruler& rows, const Ruler& columns, const std::function<std::string(const Cell&)>& glyph,
                 bool ascii);

}  // namespace attnfuzz
