// Prints the pages of --probe. For each KV tile a page shows the part of S and P around the first wrong value,
// and each row's maximum, rescale factor, sum of P and accumulator.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/json.h"
#include "cli/print/probe.h"
#include "properties/case/words.h"
#include "properties/data/tiles.h"

namespace attnfuzz {
namespace {

constexpr int kRowsShown = 3;
constexpr int64_t kColumnsShown = 6;
constexpr size_t kTilesShown = 6;

std::string padded(const std::string& text, size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

std::string number_of(double x) {
  if (std::isnan(x)) return "nan";
  char text[32];
  std::snprintf(text, sizeof text, "%.5g", x);
  return text;
}

std::string due(const ExpectedValue& e) {
  if (!e.known || std::isnan(e.value)) return "-";
  return std::isinf(e.tolerance) ? "any" : number_of(e.value);
}

std::string marked(double got, const ExpectedValue& e) { return number_of(got) + (e.wrong ? "!" : " "); }

class Page {
 public:
  Page(const Case& c, const ProbedCase& probed)
      : c_(c), probed_(probed), warp_(probed.warp), checked_(probed.checked) {
    if (checked_.first_wrong) centre_row_ = static_cast<int>(checked_.first_wrong->row);
    if (warp_.rows) {
      while (centre_row_ > 0 && (*warp_.rows)[static_cast<size_t>(centre_row_)].i < 0) --centre_row_;
    }
  }

  std::string text() {
    head();
    const std::vector<size_t> shown = tiles_shown();
    for (size_t n = 0; n < shown.size(); ++n) {
      if (n > 0 && shown[n] != shown[n - 1] + 1)
        line(cat("... ", shown[n] - shown[n - 1] - 1, " tiles without a mark"));
      tile(shown[n]);
    }
    if (!shown.empty() && shown.back() + 1 < warp_.tiles.size()) {
      line(cat("... and ", warp_.tiles.size() - shown.back() - 1, " tiles more"));
    }
    text_ += "\n";
    if (checked_.first_wrong) {
      line("first wrong: " + checked_.first_wrong->words);
    } else if (!checked_.tiles.empty()) {
      line("no intermediate of this warp is wrong");
    }
    return std::move(text_);
  }

 private:
  void line(const std::string& what) { text_ += "  " + what + "\n"; }

  void head() {
    const auto& b = probed_.at.block;
    text_ += cat("PROBE of block ", b[0], ",", b[1], ",", b[2], " warp ", probed_.at.warp,
                 c_.calls.size() > 1 ? cat(", call ", probed_.call) : "", "\n");
    if (!probed_.ended.empty()) line("the run ended badly: " + probed_.ended);
    if (warp_.rows) line("its rows: " + rows_words());
    if (!checked_.score_unit.empty()) line("S holds " + checked_.score_unit);
    if (!checked_.max_unit.empty()) line("the row maximum is one of " + checked_.max_unit);
    for (const std::string& note : warp_.notes) line("note: " + note);
    for (const std::string& note : checked_.notes) line("note: " + note);
    line(
        "due: the value in double precision; ! marks a number whose error is larger than fp32 can "
        "explain");
  }

  // "b=0 h=1 q=0..15": consecutive queries of one head are joined.
  std::string rows_words() const {
    std::vector<std::string> parts;
    std::vector<int64_t> queries;
    const auto& rows = *warp_.rows;
    for (size_t r = 0; r < rows.size(); ++r) {
      if (rows[r].i < 0) continue;
      queries.push_back(rows[r].i);
      const bool same =
          r + 1 < rows.size() && rows[r + 1].i >= 0 && rows[r + 1].b == rows[r].b && rows[r + 1].h == rows[r].h;
      if (same) continue;
      parts.push_back(cat("b=", rows[r].b, " h=", rows[r].h, " q=", ranges(queries)));
      queries.clear();
    }
    return parts.empty() ? "none: all lie past the last query" : join(parts, "; ");
  }

  // Returns the first two tiles, and all tiles from the one before the first wrong tile on, kTilesShown at
  // most.
  std::vector<size_t> tiles_shown() const {
    std::vector<size_t> shown;
    const size_t wrong = checked_.first_wrong ? checked_.first_wrong->index : 0;
    for (size_t t = 0; t < warp_.tiles.size() && shown.size() < kTilesShown; ++t) {
      if (t < 2 || t + 1 >= wrong) shown.push_back(t);
    }
    return shown;
  }

  std::string query(int row) const {
    if (!warp_.rows) return cat("row ", row);
    const ProbedQuery& q = (*warp_.rows)[static_cast<size_t>(row)];
    return one_head() ? cat("q=", q.i) : cat("h=", q.h, " q=", q.i);
  }
  // True if all rows are of one head, which is usual.
  bool one_head() const {
    return std::ranges::all_of(*warp_.rows, [&](const ProbedQuery& q) {
      return q.i < 0 || (q.b == warp_.rows->front().b && q.h == warp_.rows->front().h);
    });
  }
  bool live(int row) const { return !warp_.rows || (*warp_.rows)[static_cast<size_t>(row)].i >= 0; }

  void tile(size_t t) {
    const ProbedTile& tile = warp_.tiles[t];
    const CheckedTile* due_tile = t < checked_.tiles.size() ? &checked_.tiles[t] : nullptr;
    const int64_t keys = std::max(tile.s.columns, tile.p.columns);
    text_ += "\n";
    line(cat("tile ", tile.tile,
             keys > 0 ? cat(", keys ", tile.tile * keys, "..", (tile.tile + 1) * keys - 1) : ""));
    matrix("S", tile.s, due_tile ? &due_tile->s : nullptr, tile.tile * keys);
    matrix("P", tile.p, due_tile ? &due_tile->p : nullptr, tile.tile * keys);
    rows(tile, due_tile);
  }

  // The first column to show: the one before the first wrong column of the middle row; 0 if none is wrong.
  int64_t first_column(const ProbedMatrix& got, const CheckedMatrix* expected) const {
    const int64_t last = std::max<int64_t>(got.columns - kColumnsShown, 0);
    if (expected == nullptr || expected->columns == 0) return 0;
    for (int64_t column = 0; column < got.columns; ++column) {
      if (expected->at(centre_row_, column).wrong) return std::clamp<int64_t>(column - 1, 0, last);
    }
    return 0;
  }

  void matrix(const char* name, const ProbedMatrix& got, const CheckedMatrix* expected, int64_t first_key) {
    if (got.columns == 0) return;
    const bool compared = expected != nullptr && expected->columns > 0;
    const int64_t begin = first_column(got, expected), end = std::min(begin + kColumnsShown, got.columns);
    std::string heading = padded(name, 4) + padded("key", 8);
    for (int64_t column = begin; column < end; ++column) heading += padded(cat(first_key + column), 12);
    line(heading);
    const int first = std::clamp(centre_row_ - 1, 0, kProbedRows - kRowsShown);
    for (int row = first; row < first + kRowsShown; ++row) {
      if (!live(row)) continue;
      std::string values = padded(query(row), 12), dues = padded("due", 12);
      int64_t wrong = 0;
      for (int64_t column = 0; column < got.columns; ++column) {
        const ExpectedValue e = compared ? expected->at(row, column) : ExpectedValue{};
        wrong += e.wrong;
        if (column < begin || column >= end) continue;
        values += padded(marked(got.at(row, column), e), 12);
        dues += padded(due(e) + " ", 12);
      }
      line(values + (wrong > 0 ? cat("   ", wrong, " of ", got.columns, " wrong") : ""));
      if (compared) line(dues);
    }
  }

  void rows(const ProbedTile& tile, const CheckedTile* due_tile) {
    line(padded("", 12) + padded("row max", 12) + padded("due", 11) + " " + padded("rescale", 12) +
         padded("due", 11) + " " + padded("sum of P", 12) + padded("due", 11) + "   O: wrong, worst column");
    const int first = std::clamp(centre_row_ - 1, 0, kProbedRows - kRowsShown);
    for (int row = first; row < first + kRowsShown; ++row) {
      if (!live(row)) continue;
      const auto at = static_cast<size_t>(row);
      const auto pair = [&](bool recorded, double got, const ExpectedValue& e) {
        return recorded ? padded(marked(got, e), 12) + padded(due(e), 11) + " " : padded("-", 24);
      };
      const ExpectedValue none;
      std::string text = padded(query(row), 12);
      text += pair(tile.row_max.has_value(), tile.row_max ? (*tile.row_max)[at] : 0,
                   due_tile ? due_tile->row_max[at] : none);
      text += pair(tile.scale.has_value(), tile.scale ? (*tile.scale)[at] : 0,
                   due_tile ? due_tile->scale[at] : none);
      text += pair(due_tile && tile.p.columns > 0, due_tile ? due_tile->p_sum_got[at] : 0,
                   due_tile ? due_tile->p_sum[at] : none);
      line(text + "  " + accumulator(tile, due_tile, row));
    }
  }

  std::string accumulator(const ProbedTile& tile, const CheckedTile* due_tile, int row) const {
    const int64_t columns = std::min(tile.o.columns, c_.problem.dim_v);
    if (columns == 0) return "not recorded";
    if (!due_tile || due_tile->o.columns == 0) return cat("column 0 is ", number_of(tile.o.at(row, 0)));
    int64_t wrong = 0, worst = 0;
    double most = -1;
    for (int64_t column = 0; column < columns; ++column) {
      const ExpectedValue& e = due_tile->o.at(row, column);
      wrong += e.wrong;
      const double off = std::fabs(tile.o.at(row, column) - e.value) / std::max(e.tolerance, 1e-300);
      if (e.known && (std::isnan(off) ? INFINITY : off) > most) {
        most = std::isnan(off) ? INFINITY : off;
        worst = column;
      }
    }
    return cat(wrong, " of ", columns, ", column ", worst, " is ", number_of(tile.o.at(row, worst)), ", due ",
               due(due_tile->o.at(row, worst)));
  }

  const Case& c_;
  const ProbedCase& probed_;
  const ProbedWarp& warp_;
  const CheckedProbe& checked_;
  int centre_row_ = 0;
  std::string text_;
};

// JSON knows no NaN and no infinity.
Json plain(double x) {
  if (std::isfinite(x)) return x;
  return std::isnan(x) ? "nan" : x > 0 ? "inf" : "-inf";
}

Json plain(const ExpectedValue& e) {
  if (!e.known || std::isinf(e.tolerance)) return nullptr;
  return plain(e.value);
}

Json matrix_json(const ProbedMatrix& got, const CheckedMatrix* expected) {
  Json values = Json::array(), dues = Json::array();
  int64_t wrong = 0;
  for (int row = 0; row < kProbedRows && got.columns > 0; ++row) {
    Json value = Json::array(), is_due = Json::array();
    for (int64_t column = 0; column < got.columns; ++column) {
      value.push_back(plain(got.at(row, column)));
      if (expected == nullptr || expected->columns == 0) continue;
      is_due.push_back(plain(expected->at(row, column)));
      wrong += expected->at(row, column).wrong;
    }
    values.push_back(std::move(value));
    dues.push_back(std::move(is_due));
  }
  return {{"values", values}, {"due", dues}, {"wrong", wrong}};
}

template <class Values, class Dues>
Json rows_json(const Values& got, const Dues* expected) {
  Json values = Json::array(), dues = Json::array();
  int wrong = 0;
  for (size_t row = 0; row < kProbedRows; ++row) {
    values.push_back(plain(got[row]));
    if (expected == nullptr) continue;
    dues.push_back(plain((*expected)[row]));
    wrong += (*expected)[row].wrong;
  }
  return {{"values", values}, {"due", dues}, {"wrong", wrong}};
}

}  // namespace

std::string probe_text(const Case& c, const ProbedCase& probed) {
  if (!probed.why_not.empty()) return "no probe: " + probed.why_not + "\n";
  return Page(c, probed).text();
}

std::string probe_json(const Case& c, const ProbedCase& probed) {
  if (!probed.why_not.empty()) return json_text(Json{{"why_not", probed.why_not}}) + "\n";
  const CheckedProbe& checked = probed.checked;
  Json out = {
      {"case", describe(c)}, {"block", probed.at.block}, {"warp", probed.at.warp}, {"call", probed.call}};
  if (!probed.ended.empty()) out["ended"] = probed.ended;
  if (probed.warp.rows) {
    Json rows = Json::array();
    for (const ProbedQuery& q : *probed.warp.rows) rows.push_back({q.b, q.h, q.i});
    out["rows"] = rows;
  }
  out["score_unit"] = checked.score_unit;
  out["max_unit"] = checked.max_unit;
  Json notes = probed.warp.notes;
  for (const std::string& note : checked.notes) notes.push_back(note);
  out["notes"] = notes;
  out["first_wrong"] = nullptr;
  if (const auto& w = checked.first_wrong) {
    out["first_wrong"] = {{"what", to_string(w->tag)}, {"tile", w->tile},      {"row", w->row},
                          {"column", w->column},       {"got", plain(w->got)}, {"due", plain(w->expected)},
                          {"words", w->words}};
  }
  out["tiles"] = Json::array();
  for (size_t t = 0; t < probed.warp.tiles.size(); ++t) {
    const ProbedTile& tile = probed.warp.tiles[t];
    const CheckedTile* due_tile = t < checked.tiles.size() ? &checked.tiles[t] : nullptr;
    Json j = {{"tile", tile.tile}};
    if (tile.s.columns > 0) j["s"] = matrix_json(tile.s, due_tile ? &due_tile->s : nullptr);
    if (tile.row_max) j["row_max"] = rows_json(*tile.row_max, due_tile ? &due_tile->row_max : nullptr);
    if (tile.scale) j["scale"] = rows_json(*tile.scale, due_tile ? &due_tile->scale : nullptr);
    if (tile.p.columns > 0) j["p"] = matrix_json(tile.p, due_tile ? &due_tile->p : nullptr);
    if (due_tile && tile.p.columns > 0) j["p_sum"] = rows_json(due_tile->p_sum_got, &due_tile->p_sum);
    if (tile.o.columns > 0) j["o"] = matrix_json(tile.o, due_tile ? &due_tile->o : nullptr);
    out["tiles"].push_back(std::move(j));
  }
  return json_text(out) + "\n";
}

}  // namespace attnfuzz
