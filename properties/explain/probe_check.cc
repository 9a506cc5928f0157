#include "properties/explain/probe_check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "properties/case/words.h"
#include "properties/data/row_scores.h"
#include "properties/judge/judge.h"
#include "reference/numbers/formats.h"

namespace attnfuzz {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kLog2e = 1.4426950408889634;
constexpr double kLargest = 0x1p127;  // largest score that is still a float after multiplication by log2 e

// A unit in which a score may be recorded.
struct Unit {
  const char* name;
  bool product;  // q.k instead of the score
  double factor;
};

bool differs(const ExpectedValue& e, float got) {
  if (!e.known || std::isnan(e.value)) return false;
  if (std::isnan(got)) return true;
  if (std::isinf(e.value)) return static_cast<double>(got) != e.value;
  return !(std::fabs(got - e.value) <= e.tolerance);
}

class Checker {
 public:
  Checker(const Case& c, const attn_plan& plan, const ProbedWarp& warp)
      : p_(c.problem), plan_(plan), warp_(warp), oracle_(c, plan) {}

  CheckedProbe check() {
    if (!rows_known()) return std::move(checked_);
    for (size_t r = 0; r < kProbedRows; ++r) {
      const ProbedQuery& q = (*warp_.rows)[r];
      if (q.i >= 0) exact_[r] = oracle_.row(q.b, q.h, q.i);
      // If a score exceeds fp32 in some unit, nothing is due in its row.
      due_[r] = q.i >= 0 && std::ranges::none_of(exact_[r].x, [](double x) {
                  return std::isfinite(x) && std::fabs(x) > kLargest;
                });
    }
    const Unit score = score_unit(), maximum = maximum_unit();
    checked_.tiles.resize(warp_.tiles.size());
    for (int r = 0; r < kProbedRows; ++r) {
      if (live(r)) row(r, score, maximum);
    }
    for (const size_t t : walked()) compare(t);
    return std::move(checked_);
  }

 private:
  const ProbedQuery& query(int r) const { return (*warp_.rows)[static_cast<size_t>(r)]; }
  // True if the row can be checked.
  bool live(int r) const { return due_[static_cast<size_t>(r)]; }

  bool rows_known() {
    if (warp_.tiles.empty()) return false;
    if (!warp_.rows) {
      checked_.notes.push_back(
          "the kernel does not record which rows the warp has (ATTN_PROBE_ROWS): nothing to compare with");
      return false;
    }
    for (int r = 0; r < kProbedRows; ++r) {
      const ProbedQuery& q = query(r);
      if (q.i < 0) continue;
      if (q.b < 0 || q.b >= p_.batch || q.h < 0 || q.h >= p_.heads_q || q.i >= p_.seq_q) {
        checked_.notes.push_back(cat("the warp's row ", r, " is said to be (b=", q.b, ",h=", q.h, ",q=", q.i,
                                     "), which the case does not have"));
        return false;
      }
    }
    for (const ProbedTile& tile : warp_.tiles) {
      for (const ProbedMatrix* m : {&tile.s, &tile.p}) {
        if (m->columns == 0 || m->columns == plan_.tile_k) continue;
        checked_.notes.push_back(
            cat("a tile was recorded with ", m->columns, " keys, the plan's has ", plan_.tile_k));
        return false;
      }
    }
    return true;
  }

  int64_t key(const ProbedTile& tile, int64_t column) const { return tile.tile * plan_.tile_k + column; }

  ExpectedValue in(const Unit& unit, int r, int64_t j) const {
    ExpectedValue e;
    e.known = true;
    e.value = -kInf;
    const ExactRow& exact = exact_[static_cast<size_t>(r)];
    if (j >= static_cast<int64_t>(exact.x.size())) return e;
    const auto at = static_cast<size_t>(j);
    if (exact.x[at] == -kInf) return e;
    e.value = (unit.product ? exact.product[at] : exact.x[at]) * unit.factor;
    e.tolerance = (unit.product ? exact.product_tolerance[at] : exact.tolerance[at]) * std::fabs(unit.factor) +
                  0x1p-21 * std::fabs(e.value) + 0x1p-126;
    return e;
  }

  std::vector<Unit> units() const {
    std::vector<Unit> all = {{"scores", false, 1}, {"scores times log2 e", false, kLog2e}};
    const double sign = p_.scale < 0 ? -1 : 1;
    if (p_.softcap == 0 && !p_.bias) {
      all.push_back({sign < 0 ? "-q.k, not yet scaled" : "q.k, not yet scaled", true, sign});
    }
    return all;
  }

  Unit score_unit() {
    Unit best = units().front();
    int64_t least = -1, told = 0;
    double nearest = kInf;  // deviation, among units that fit equally many numbers
    for (const Unit& unit : units()) {
      int64_t wrong = 0;
      double off = 0;
      for (const ProbedTile& tile : warp_.tiles) {
        for (int r = 0; r < kProbedRows && tile.s.columns > 0; ++r) {
          if (!live(r)) continue;
          for (int64_t column = 0; column < tile.s.columns; ++column) {
            const ExpectedValue e = in(unit, r, key(tile, column));
            const bool tells = std::isfinite(e.value) && e.value != 0;
            told += tells;
            wrong += differs(e, tile.s.at(r, column));
            if (tells) off += std::fabs(tile.s.at(r, column) / e.value - 1);
          }
        }
      }
      if (least >= 0 && (wrong > least || (wrong == least && !(off < nearest)))) continue;
      least = wrong;
      nearest = off;
      best = unit;
    }
    if (told > 0) checked_.score_unit = best.name;
    return best;
  }

  // The recorded tiles in the order in which the kernel visits them.
  std::vector<size_t> walked() const {
    std::vector<size_t> tiles(warp_.tiles.size());
    std::iota(tiles.begin(), tiles.end(), size_t{0});
    if (plan_.key_order == ATTN_KEYS_DESCENDING) std::ranges::reverse(tiles);
    return tiles;
  }

  // The largest visible score of a row after each recorded tile.
  std::vector<ExpectedValue> maxima(const Unit& unit, int r) const {
    std::vector<ExpectedValue> all(warp_.tiles.size());
    ExpectedValue most;
    most.known = true;
    most.value = -kInf;
    for (const size_t t : walked()) {
      const ProbedTile& tile = warp_.tiles[t];
      for (int64_t column = 0; column < plan_.tile_k; ++column) {
        const ExpectedValue e = in(unit, r, key(tile, column));
        most.tolerance = std::max(most.tolerance, e.tolerance);
        if (std::isnan(e.value) || e.value > most.value) most.value = e.value;
      }
      all[t] = most;
    }
    return all;
  }

  Unit maximum_unit() {
    Unit best = units()[1];
    int64_t least = -1, told = 0;
    for (const Unit& unit : {units()[1], units()[0], units().back()}) {
      int64_t wrong = 0;
      for (int r = 0; r < kProbedRows; ++r) {
        if (!live(r)) continue;
        const std::vector<ExpectedValue> due = maxima(unit, r);
        for (size_t t = 0; t < warp_.tiles.size(); ++t) {
          if (!warp_.tiles[t].row_max) continue;
          told += std::isfinite(due[t].value) && due[t].value != 0;
          wrong += differs(due[t], (*warp_.tiles[t].row_max)[static_cast<size_t>(r)]);
        }
      }
      if (least >= 0 && wrong >= least) continue;
      least = wrong;
      best = unit;
    }
    if (told > 0) checked_.max_unit = best.name;
    return best;
  }

  // A row of O, summed so far. size: sum of p |v|. slack: what rounding may change in the sum.
  struct PartialRow {
    explicit PartialRow(size_t columns) : o(columns), size(columns), slack(columns), finite(columns, true) {}
    std::vector<double> o, size, slack;
    std::vector<bool> finite;
  };

  void row(int r, const Unit& score, const Unit& max_unit) {
    PartialRow sums(static_cast<size_t>(p_.dim_v));
    const std::vector<ExpectedValue> largest = maxima(units().front(), r), recorded = maxima(max_unit, r);
    double before = -kInf;
    for (const size_t t : walked()) {
      checked_.tiles[t].row_max[static_cast<size_t>(r)] = recorded[t];
      const ExpectedValue& m = largest[t];
      if (std::isnan(m.value) || m.value == kInf) return;  // nothing is due from here on
      rescale(t, r, before, m, sums);
      add_keys(t, r, score, m, sums);
      expect_sums(t, r, sums);
      before = m.value;
    }
  }

  // Scales the sums down to the new maximum m.
  void rescale(size_t t, int r, double before, const ExpectedValue& m, PartialRow& sums) {
    ExpectedValue& scale = checked_.tiles[t].scale[static_cast<size_t>(r)];
    const double factor = before == -kInf ? 0 : std::exp(before - m.value);
    if (before == -kInf) {
      // It scales zeros, so any number is right.
      scale = {.value = 0, .tolerance = kInf, .known = true};
    } else {
      scale = {.value = factor,
               .tolerance = relative(2 * m.tolerance, m.value - before) * factor + 0x1p-126,
               .known = true};
    }
    for (size_t c = 0; c < sums.o.size(); ++c)
      sums.o[c] *= factor, sums.size[c] *= factor, sums.slack[c] *= factor;
  }

  // Computes S and P of a tile, and adds its keys to the sums.
  void add_keys(size_t t, int r, const Unit& score, const ExpectedValue& m, PartialRow& sums) {
    const ProbedTile& tile = warp_.tiles[t];
    CheckedTile& out = checked_.tiles[t];
    const Unit plain = units().front();
    CheckedMatrix &s = matrix(out.s, tile.s.columns), &p = matrix(out.p, tile.p.columns);
    ExpectedValue& p_sum = out.p_sum[static_cast<size_t>(r)];
    p_sum.known = tile.p.columns > 0;
    for (int64_t column = 0; column < plan_.tile_k; ++column) {
      const int64_t j = key(tile, column);
      const auto cell = static_cast<size_t>(r * plan_.tile_k + column);
      if (s.columns > 0) s.values[cell] = in(score, r, j);
      const ExpectedValue x = in(plain, r, j);
      ExpectedValue weight{.value = 0, .tolerance = 0, .known = true};
      if (x.value != -kInf) {
        weight.value = std::exp(x.value - m.value);
        weight.tolerance = relative(x.tolerance + m.tolerance, m.value - x.value) * weight.value + 0x1p-126;
      }
      if (p.columns > 0) {
        p.values[cell] = weight;
        p_sum.value += weight.value;
        p_sum.tolerance += weight.tolerance + 0x1p-17 * weight.value;
      }
      if (j < p_.seq_k) add_value(r, j, weight, sums);
    }
  }

  void add_value(int r, int64_t j, const ExpectedValue& weight, PartialRow& sums) {
    const ProbedQuery& q = query(r);
    const std::vector<double>& v = oracle_.values(q.b, q.h);
    const double p_rounding = format_of(p_.dtype).unit;
    for (size_t c = 0; c < sums.o.size(); ++c) {
      const double value = v[static_cast<size_t>(j * p_.dim_v) + c];
      // 0 * NaN may enter a tensor core's sum.
      sums.finite[c] = sums.finite[c] && std::isfinite(value);
      if (weight.value == 0) continue;
      sums.o[c] += weight.value * value;
      sums.size[c] += weight.value * std::fabs(value);
      sums.slack[c] += (weight.tolerance + 2 * p_rounding * weight.value + 0x1p-24) * std::fabs(value);
    }
  }

  void expect_sums(size_t t, int r, const PartialRow& sums) {
    CheckedMatrix& o = matrix(checked_.tiles[t].o, warp_.tiles[t].o.columns);
    for (int64_t c = 0; c < std::min<int64_t>(o.columns, p_.dim_v); ++c) {
      const auto at = static_cast<size_t>(c);
      if (!sums.finite[at]) continue;
      o.values[static_cast<size_t>(r * o.columns + c)] = {
          .value = sums.o[at], .tolerance = sums.slack[at] + 0x1p-15 * sums.size[at] + 0x1p-126, .known = true};
    }
  }

  static CheckedMatrix& matrix(CheckedMatrix& m, int64_t columns) {
    m.columns = columns;
    m.values.resize(static_cast<size_t>(kProbedRows * columns));
    return m;
  }

  // Relative tolerance of exp(-distance) if its argument is off by up to `off`.
  double relative(double off, double distance) const {
    const double exp_error = plan_.exp_class == ATTN_EXP_UNKNOWN ? 0x1p-10 : 0x1p-20;
    return std::expm1(std::min(2 * off + exp_error * (1 + std::fabs(distance)), 50.0));
  }

  // Marks wrong values of a tile, in the order in which they were computed.
  void compare(size_t t) {
    const ProbedTile& tile = warp_.tiles[t];
    CheckedTile& out = checked_.tiles[t];
    const auto one = [&](attn_probe_tag tag, int r, int64_t column, ExpectedValue& e, float got) {
      e.wrong = differs(e, got);
      if (e.wrong && !checked_.first_wrong) found(tag, t, r, column, e, got);
    };
    const auto whole = [&](attn_probe_tag tag, const ProbedMatrix& got, CheckedMatrix& expected) {
      for (int r = 0; r < kProbedRows && expected.columns > 0; ++r) {
        for (int64_t column = 0; live(r) && column < got.columns; ++column) {
          if (tag == ATTN_PROBE_O && column >= p_.dim_v) break;
          one(tag, r, column, expected.values[static_cast<size_t>(r * got.columns + column)],
              got.at(r, column));
        }
      }
    };
    const auto rows = [&](attn_probe_tag tag, const auto& got, auto& expected) {
      for (int r = 0; got && r < kProbedRows; ++r) {
        if (live(r)) one(tag, r, 0, expected[static_cast<size_t>(r)], (*got)[static_cast<size_t>(r)]);
      }
    };
    whole(ATTN_PROBE_S, tile.s, out.s);
    rows(ATTN_PROBE_ROW_MAX, tile.row_max, out.row_max);
    rows(ATTN_PROBE_SCALE, tile.scale, out.scale);
    whole(ATTN_PROBE_P, tile.p, out.p);
    for (int r = 0; r < kProbedRows && tile.p.columns > 0; ++r) {
      double& sum = out.p_sum_got[static_cast<size_t>(r)];
      for (int64_t column = 0; column < tile.p.columns; ++column) sum += tile.p.at(r, column);
      ExpectedValue& e = out.p_sum[static_cast<size_t>(r)];
      if (live(r)) e.wrong = differs(e, static_cast<float>(sum));
    }
    whole(ATTN_PROBE_O, tile.o, out.o);
  }

  void found(attn_probe_tag tag, size_t t, int r, int64_t column, const ExpectedValue& e, float got) {
    const ProbedQuery& q = query(r);
    const ProbedTile& tile = warp_.tiles[t];
    WrongIntermediate w;
    w.tag = tag;
    w.index = t;
    w.tile = tile.tile;
    w.row = r;
    w.column = column;
    w.got = got;
    w.expected = e.value;
    w.words = cat(to_string(tag), " of tile ", tile.tile, " at (b=", q.b, ",h=", q.h, ",q=", q.i, ")");
    if (tag == ATTN_PROBE_S || tag == ATTN_PROBE_P) w.words += cat(", key ", key(tile, column));
    if (tag == ATTN_PROBE_O) w.words += cat(", column ", column);
    w.words += ": " + digits(got) +
               (std::isinf(e.tolerance) ? std::string(", a number is due") : ", expected " + digits(e.value));
    checked_.first_wrong = std::move(w);
  }

  const Problem& p_;
  const attn_plan& plan_;
  const ProbedWarp& warp_;
  RowOracle oracle_;
  std::array<ExactRow, kProbedRows> exact_;
  std::array<bool, kProbedRows> due_ = {};
  CheckedProbe checked_;
};

}  // namespace

const char* to_string(attn_probe_tag tag) {
  switch (tag) {
    case ATTN_PROBE_S:
      return "S";
    case ATTN_PROBE_ROW_MAX:
      return "the row maximum";
    case ATTN_PROBE_SCALE:
      return "the rescale factor";
    case ATTN_PROBE_P:
      return "P";
    case ATTN_PROBE_O:
      return "the accumulator O";
    case ATTN_PROBE_ROWS:
      return "the rows";
  }
  return "?";
}

CheckedProbe check_probe(const Case& c, const attn_plan& plan, const ProbedWarp& warp) {
  if (std::string why = cannot_score(c.problem); !why.empty()) return {.notes = {std::move(why)}};
  if (plan.p_order == ATTN_P_NORMALISED)
    return {.notes = {"the plan divides P by its sum before P is rounded (p_order): a trace does not follow that"}};
  return Checker(c, plan, warp).check();
}

}  // namespace attnfuzz
