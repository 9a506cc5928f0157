#include <algorithm>
#include <string>
#include <vector>

#include "properties/case/words.h"
#include "properties/judge/shape/shape_parts.h"

namespace attnfuzz {
namespace {

// The indices of one axis that have a bad element.
struct Marks {
  std::vector<bool> bad;
  int64_t size() const { return static_cast<int64_t>(bad.size()); }
  int64_t count() const { return std::count(bad.begin(), bad.end(), true); }
  int64_t first() const { return std::find(bad.begin(), bad.end(), true) - bad.begin(); }
  int64_t last() const { return size() - 1 - (std::find(bad.rbegin(), bad.rend(), true) - bad.rbegin()); }
  bool one_run() const { return last() - first() + 1 == count(); }
  bool at(int64_t i) const { return bad[static_cast<size_t>(i)]; }
};

// True if exactly the bad indices satisfy i mod `period` == `phase`.
bool comb(const Marks& m, int64_t period, int64_t phase) {
  if (m.size() < 2 * period || m.count() < 2) return false;
  for (int64_t i = 0; i < m.size(); ++i) {
    if (m.at(i) != (i % period == phase)) return false;
  }
  return true;
}

// Recognises bad indices whose i mod `period` lies in one interval that is not the whole period.
std::string phases(const Marks& m, const char* axis, int64_t period) {
  if (m.size() < 2 * period) return "";
  std::vector<bool> phase(static_cast<size_t>(period));
  for (int64_t i = 0; i < m.size(); ++i) {
    if (m.at(i)) phase[static_cast<size_t>(i % period)] = true;
  }
  const Marks folded{phase};
  if (folded.count() == period || !folded.one_run()) return "";
  for (int64_t i = 0; i < m.size(); ++i) {
    if (m.at(i) != folded.at(i % period)) return "";
  }
  return cat(axis, " with i mod ", period, " in ", folded.first(), "..", folded.last());
}

std::string teeth(const Marks& m, const char* axis, int64_t tile) {
  if (comb(m, 2, 0)) return cat("every other ", axis, ", from 0");
  if (comb(m, 2, 1)) return cat("every other ", axis, ", from 1");
  const std::string many = std::string(axis) + "s";
  for (const int64_t period : {3, 4, 8, 16, 32, 64, 128}) {
    for (int64_t phase = 0; phase < period; ++phase) {
      if (period == tile && phase == 0 && comb(m, period, 0)) return cat("first ", axis, " of each tile");
      if (period == tile && phase == tile - 1 && comb(m, period, phase))
        return cat("last ", axis, " of each tile");
      if (comb(m, period, phase)) return cat("every ", period, "th ", axis, ", from ", phase);
    }
  }
  for (const int64_t period : {4, 8, 16, 32, 64, 128}) {
    if (const std::string text = phases(m, many.c_str(), period); !text.empty()) return text;
  }
  return "";
}

// Describes an axis without tiles: batch entries, heads.
std::string span_of(const Marks& m, const char* axis) {
  if (m.count() == m.size()) return "";
  if (m.count() == 1) return cat("only ", axis, " ", m.first());
  if (m.size() - m.count() == 1) {
    const int64_t good = std::find(m.bad.begin(), m.bad.end(), false) - m.bad.begin();
    return cat("every ", axis, " but ", good);
  }
  if (const std::string text = teeth(m, axis, 0); !text.empty()) return text;
  if (m.one_run() && m.last() == m.size() - 1) return cat(axis, "s >= ", m.first(), " only");
  if (m.one_run() && m.first() == 0) return cat(axis, "s <= ", m.last(), " only");
  if (m.one_run()) return cat("only ", axis, "s ", m.first(), "..", m.last());
  return "";
}

std::string rows(const Marks& m, int64_t tile, const char* tile_name) {
  const int64_t n = m.size();
  if (m.count() == n) return "";
  if (m.count() == 1) {
    return m.first() == n - 1 ? cat("only the last row, ", n - 1) : cat("only row ", m.first());
  }
  if (const std::string text = teeth(m, "row", tile); !text.empty()) return text;
  if (tile > 0 && n > tile) {
    const int64_t first_tile = m.first() / tile, last_tile = m.last() / tile;
    const int64_t end = std::min(n, (first_tile + 1) * tile);
    const bool whole = m.one_run() && m.first() == first_tile * tile && m.last() == end - 1;
    if (first_tile == last_tile) {
      return whole ? cat("only ", tile_name, " ", first_tile)
                   : cat("only ", tile_name, " ", first_tile,
                         m.one_run() ? cat(", rows ", m.first(), "..", m.last()) : "");
    }
    if (m.one_run() && m.first() == tile && m.last() == n - 1) return "rows below the first tile border";
    if (m.one_run() && m.first() % tile == 0 && m.last() == n - 1) {
      return cat(tile_name, "s >= ", first_tile, " only");
    }
    if (m.one_run() && m.first() == 0 && (m.last() + 1) % tile == 0) {
      return cat(tile_name, "s <= ", last_tile, " only");
    }
    if (!m.at(0) && m.first() >= tile && !m.one_run())
      return "rows below the first tile border, not all of them";
  }
  if (m.one_run() && m.last() == n - 1) return cat("rows >= ", m.first(), " only");
  if (m.one_run() && m.first() == 0) return cat("rows <= ", m.last(), " only");
  if (m.one_run()) return cat("only rows ", m.first(), "..", m.last());
  return "";
}

std::string columns(const Marks& m) {
  const int64_t n = m.size();
  if (m.count() == n) return "";
  if (m.count() == 1) {
    return m.first() == n - 1 ? cat("only the last column, ", n - 1) : cat("only column ", m.first());
  }
  if (const std::string text = teeth(m, "column", 0); !text.empty()) return text;
  if (m.one_run() && m.last() == n - 1) return cat("columns >= ", m.first(), " only");
  if (m.one_run() && m.first() == 0) return cat("columns <= ", m.last(), " only");
  if (m.one_run()) return cat("only columns ", m.first(), "..", m.last());
  return "";
}

}  // namespace

Shape shape_of_places(const ShapeInput& in) {
  Marks b{std::vector<bool>(static_cast<size_t>(in.batch))},
      h{std::vector<bool>(static_cast<size_t>(in.heads))}, i{std::vector<bool>(static_cast<size_t>(in.seq_q))},
      c{std::vector<bool>(static_cast<size_t>(in.dim_v))};
  int64_t count = 0;
  for (size_t e = 0; e < in.bad.size(); ++e) {
    if (in.bad[e] == 0) continue;
    ++count;
    const int64_t row = static_cast<int64_t>(e) / in.dim_v, head = row / in.seq_q;
    c.bad[e % static_cast<size_t>(in.dim_v)] = true;
    i.bad[static_cast<size_t>(row % in.seq_q)] = true;
    h.bad[static_cast<size_t>(head % in.heads)] = true;
    b.bad[static_cast<size_t>(head / in.heads)] = true;
  }
  if (count == 1 && in.bad.size() > 1) {
    return cat("one element, (", b.first(), ",", h.first(), ",", i.first(), ",", c.first(), ")");
  }
  std::vector<std::string> parts = {span_of(b, "batch entry"), span_of(h, "head"),
                                    rows(i, in.tile_q, in.tile_name), columns(c)};
  std::erase_if(parts, [](const std::string& part) { return part.empty(); });
  const bool from_border = c.count() > 1 && c.count() < c.size() && c.one_run() && c.last() == c.size() - 1;
  return {join(parts, ", "), from_border ? ShapeKind::kColumnsFrom : ShapeKind::kOther};
}

}  // namespace attnfuzz
