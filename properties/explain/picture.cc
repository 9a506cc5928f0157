#include "properties/explain/picture.h"

#include <algorithm>

namespace attnfuzz {
namespace {

constexpr int kLabel = 8;  // characters for the number of a row

std::string padded(int64_t value, int width) {
  const std::string text = std::to_string(value);
  return std::string(static_cast<size_t>(std::max<int>(width - static_cast<int>(text.size()), 0)), ' ') + text;
}

// Writes the first key of each cell that begins a tile, if there is room.
std::string header(const Ruler& columns) {
  std::string line(kLabel, ' ');
  size_t at = kLabel;
  for (int64_t c = 0; c < columns.cells(); ++c) {
    const auto cell = static_cast<size_t>(c);
    if (columns.border[cell]) ++at;
    const std::string text = std::to_string(columns.starts[cell]);
    const bool marked = c == 0 || columns.border[cell];
    if (marked && line.size() <= at) {
      line += std::string(at - line.size(), ' ') + text + " ";
    }
    ++at;
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line + "\n";
}

}  // namespace

int64_t Ruler::width() const { return cells() + std::ranges::count(border, true); }

Ruler make_ruler(int64_t size, int64_t tile, int64_t most_characters) {
  Ruler ruler;
  ruler.tile = std::max<int64_t>(tile, 1);
  const int64_t tiles = (size + ruler.tile - 1) / ruler.tile;
  most_characters = std::max<int64_t>(most_characters, 1);
  if (2 * tiles - 1 > most_characters) {
    const int64_t together = (tiles + most_characters - 1) / most_characters;
    for (int64_t t = 0; t < tiles; t += together) {
      ruler.starts.push_back(t * ruler.tile);
      ruler.border.push_back(false);
    }
  } else {
    // The last tile may be partial; its cells are as large as in a whole tile.
    const int64_t whole = std::min(size, ruler.tile);
    const int64_t cells = std::max<int64_t>((most_characters - (tiles - 1)) / std::max<int64_t>(tiles, 1), 1);
    const int64_t step = std::max<int64_t>((whole + cells - 1) / cells, 1);
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t end = std::min(size, (t + 1) * ruler.tile);
      for (int64_t i = t * ruler.tile; i < end; i += step) {
        ruler.starts.push_back(i);
        ruler.border.push_back(t > 0 && i == t * ruler.tile);
      }
    }
  }
  ruler.starts.push_back(std::max<int64_t>(size, 0));
  return ruler;
}

std::string draw(const Ruler& rows, const Ruler& columns, const std::function<std::string(const Cell&)>& glyph,
                 bool ascii) {
  const char* vertical = ascii ? "|" : "\u2502";
  const char* horizontal = ascii ? "-" : "\u2500";
  const char* cross = ascii ? "+" : "\u253c";
  std::string text = header(columns);
  for (int64_t r = 0; r < rows.cells(); ++r) {
    const auto row = static_cast<size_t>(r);
    if (rows.border[row]) {
      text += std::string(kLabel, ' ');
      for (int64_t c = 0; c < columns.cells(); ++c) {
        if (columns.border[static_cast<size_t>(c)]) text += cross;
        text += horizontal;
      }
      text += "\n";
    }
    text += padded(rows.starts[row], kLabel - 2) + "  ";
    for (int64_t c = 0; c < columns.cells(); ++c) {
      const auto column = static_cast<size_t>(c);
      if (columns.border[column]) text += vertical;
      text +=
          glyph({rows.starts[row], rows.starts[row + 1], columns.starts[column], columns.starts[column + 1]});
    }
    text += "\n";
  }
  return text;
}

}  // namespace attnfuzz
