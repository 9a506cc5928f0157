// Recognises the values of an error: "all NaN", "constant ratio 1.48", "grows with the row", "only the last
// key's contribution". shape_places.cc recognises where they lie.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <optional>
#include <vector>

#include "properties/case/words.h"
#include "properties/judge/shape/shape_parts.h"

namespace attnfuzz {
namespace {

// Two bf16 roundings of one number differ by less.
constexpr double kClose = 0.02;

std::string three_digits(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", x);
  return text;
}

struct Bad {
  const ShapeInput& in;
  std::vector<size_t> elements = {};
  double size = 0;  // largest |expected| of the bad elements

  explicit Bad(const ShapeInput& input) : in(input) {
    for (size_t e = 0; e < in.bad.size(); ++e) {
      if (in.bad[e] == 0) continue;
      elements.push_back(e);
      if (std::isfinite(in.expected[e])) size = std::max(size, std::fabs(in.expected[e]));
    }
  }
  int64_t row(size_t e) const { return static_cast<int64_t>(e) / in.dim_v; }
  int64_t query(size_t e) const { return row(e) % in.seq_q; }
  template <typename Test>
  bool all(Test&& test) const {
    return std::all_of(elements.begin(), elements.end(), test);
  }
  bool close(double a, double b) const {
    return std::fabs(a - b) <= kClose * std::max(std::fabs(b), 0.05 * size);
  }
};

// One value or property that all bad elements have, whatever was expected.
Shape one_value(const Bad& bad) {
  const auto got = [&](size_t e) { return bad.in.got[e]; };
  if (bad.all([&](size_t e) { return std::isnan(got(e)); })) return "all NaN";
  if (bad.all([&](size_t e) { return std::isinf(got(e)); })) return "all infinite";
  if (bad.all([&](size_t e) { return !std::isfinite(got(e)); })) return "NaN and infinities";
  if (bad.all([&](size_t e) { return got(e) == 0; })) return {"all zero", ShapeKind::kAllZero};
  const bool dead = !bad.in.dead.empty() &&
                    bad.all([&](size_t e) { return bad.in.dead[static_cast<size_t>(bad.row(e))] != 0; });
  const float first = got(bad.elements[0]);
  if (bad.elements.size() > 2 && bad.all([&](size_t e) { return got(e) == first; })) {
    if (dead) return {"all " + number(first) + " where nothing is visible", ShapeKind::kDeadRows};
    return "all " + number(first);
  }
  if (dead) return {"values where nothing is visible", ShapeKind::kDeadRows};
  if (bad.all([&](size_t e) { return std::isnan(bad.in.expected[e]); })) return "a number where NaN is due";
  return {};
}

// got / expected for each element whose expected value is far enough from 0.
std::vector<std::pair<int64_t, double>> ratios(const Bad& bad) {
  std::vector<std::pair<int64_t, double>> found;
  for (const size_t e : bad.elements) {
    if (!std::isfinite(bad.in.got[e]) || !std::isfinite(bad.in.expected[e])) return {};
    if (std::fabs(bad.in.expected[e]) < 0.05 * bad.size || bad.in.expected[e] == 0) continue;
    found.emplace_back(bad.row(e), bad.in.got[e] / bad.in.expected[e]);
  }
  return found;
}

bool steady(double low, double high) {
  return high - low <= kClose * std::max(std::fabs(low), std::fabs(high));
}

Shape constant_ratio(const Bad& bad) {
  auto all = ratios(bad);
  if (all.size() < 2) return {};
  std::ranges::sort(all, {}, [](const auto& r) { return r.second; });
  const double low = all.front().second, high = all.back().second;
  if (steady(low, high)) {
    const double middle = all[all.size() / 2].second;
    if (std::fabs(middle + 1) < kClose) return "the sign is flipped";
    const auto near = [&](double ratio) { return std::fabs(middle - ratio) < 5e-3; };
    const bool log_base = near(1 / std::log(2.0)) || near(std::log(2.0));
    if (std::fabs(middle - 1) > kClose) {
      return {"constant ratio " + three_digits(middle), log_base ? ShapeKind::kLogBase : ShapeKind::kOther};
    }
    return {};
  }
  // One ratio for each row means a wrong denominator.
  struct OfRow {
    int64_t row;
    double least, most;
    int count;
  };
  std::vector<OfRow> rows;
  std::ranges::sort(all);
  for (const auto& [row, ratio] : all) {
    if (rows.empty() || rows.back().row != row) rows.push_back({row, ratio, ratio, 0});
    rows.back().most = ratio;  // ratios are ascending
    ++rows.back().count;
  }
  if (rows.size() < 3) return {};
  bool grows = true, falls = true;
  for (size_t r = 0; r < rows.size(); ++r) {
    // A single element says nothing about the rest of its row.
    if (rows[r].count < 2 || !steady(rows[r].least, rows[r].most)) return {};
    if (r == 0 || rows[r].row / bad.in.seq_q != rows[r - 1].row / bad.in.seq_q) continue;
    grows &= rows[r].most >= rows[r - 1].least;
    falls &= rows[r].least <= rows[r - 1].most;
  }
  const std::string range = three_digits(low) + " to " + three_digits(high);
  if (grows) return "one ratio a row, growing with the row: " + range;
  if (falls) return "one ratio a row, falling with the row: " + range;
  return "one ratio a row, " + range;
}

Shape constant_offset(const Bad& bad) {
  double low = INFINITY, high = -INFINITY;
  for (const size_t e : bad.elements) {
    const double off = bad.in.got[e] - bad.in.expected[e];
    if (!std::isfinite(off)) return {};
    low = std::min(low, off);
    high = std::max(high, off);
  }
  const double middle = (low + high) / 2;
  if (bad.elements.size() < 3 || high - low > kClose * std::fabs(middle)) return {};
  // Offsets of an LSE that a person recognises.
  if (std::fabs(std::fabs(middle) - std::log(2.0)) < 1e-3)
    return {middle > 0 ? "off by + ln 2" : "off by - ln 2", ShapeKind::kLogBase};
  return "off by " + three_digits(middle);
}

// Recognises the result of another row, head or batch entry.
Shape displaced(const Bad& bad) {
  const ShapeInput& in = bad.in;
  const int64_t n = in.dim_v;
  const auto holds = [&](const std::function<std::optional<int64_t>(int64_t)>& source) {
    size_t differs = 0;
    for (const size_t e : bad.elements) {
      const std::optional<int64_t> from = source(bad.row(e));
      if (!from) return false;
      const auto other = static_cast<size_t>(*from * n) + e % static_cast<size_t>(n);
      if (!std::isfinite(in.got[e]) || !bad.close(in.got[e], in.expected[other])) return false;
      differs += !bad.close(in.expected[other], in.expected[e]);
    }
    return differs > 0;
  };
  for (const int64_t shift : {1, -1, 2, -2, 8, -8, 16, -16, 32, -32, 64, -64}) {
    const auto source = [&](int64_t row) -> std::optional<int64_t> {
      const int64_t query = row % in.seq_q + shift;
      if (query < 0 || query >= in.seq_q) return std::nullopt;
      return row + shift;
    };
    if (holds(source))
      return {cat("row i holds the result of row i", shift > 0 ? " + " : " - ", std::abs(shift)),
              ShapeKind::kOtherRow};
  }
  for (int64_t tile = in.tile_q; tile > 0 && tile < in.seq_q; tile = 0) {
    const auto source = [&](int64_t row) -> std::optional<int64_t> {
      return row - row % in.seq_q + row % in.seq_q % tile;
    };
    if (holds(source)) return {"each tile holds the result of tile 0", ShapeKind::kOtherRow};
  }
  for (int64_t head = 0; head < in.heads && in.heads > 1; ++head) {
    const auto source = [&](int64_t row) -> std::optional<int64_t> {
      const int64_t plane = row / in.seq_q, b = plane / in.heads;
      return (b * in.heads + head) * in.seq_q + row % in.seq_q;
    };
    if (holds(source)) return {cat("holds the result of head ", head), ShapeKind::kOtherHead};
  }
  for (int64_t b = 0; b < in.batch && in.batch > 1; ++b) {
    const auto source = [&](int64_t row) -> std::optional<int64_t> {
      return (b * in.heads + row / in.seq_q % in.heads) * in.seq_q + row % in.seq_q;
    };
    if (holds(source)) return {cat("holds the result of batch entry ", b), ShapeKind::kOtherBatch};
  }
  return {};
}

// Traces the error to a key: `got` is the key's value, or lacks the key. Without key j, the result lies on
// the line from V(j) through the right result, beyond it.
Shape of_one_key(const Bad& bad) {
  const ShapeInput& in = bad.in;
  const int64_t n = in.dim_v;
  if (in.heads_kv < 1 || in.seq_k < 1 || n < 1 || in.heads % in.heads_kv != 0) return {};
  if (static_cast<int64_t>(in.value.size()) != in.batch * in.heads_kv * in.seq_k * n) return {};
  const auto value = [&](int64_t row, int64_t key, int64_t column) {
    const int64_t plane = row / in.seq_q, b = plane / in.heads, g = plane % in.heads / (in.heads / in.heads_kv);
    return in.value[static_cast<size_t>(((b * in.heads_kv + g) * in.seq_k + key) * n + column)];
  };
  const auto only = [&](int64_t key) {
    return bad.all(
        [&](size_t e) { return bad.close(in.got[e], value(bad.row(e), key, static_cast<int64_t>(e) % n)); });
  };
  const auto lacks = [&](int64_t key) {
    if (n < 2) return false;
    for (size_t at = 0; at < bad.elements.size();) {
      const int64_t row = bad.row(bad.elements[at]);
      double dot = 0, error = 0, away = 0;
      for (int64_t c = 0; c < n; ++c) {
        const auto e = static_cast<size_t>(row * n + c);
        const double wrong = in.got[e] - in.expected[e], from = in.expected[e] - value(row, key, c);
        if (!std::isfinite(wrong) || !std::isfinite(from)) return false;
        dot += wrong * from;
        error += wrong * wrong;
        away += from * from;
      }
      if (dot <= 0 || dot < 0.98 * std::sqrt(error * away)) return false;
      while (at < bad.elements.size() && bad.row(bad.elements[at]) == row) ++at;
    }
    return true;
  };
  if (in.seq_k > 1) {
    if (only(in.seq_k - 1)) return "only the last key's contribution";
    if (only(0)) return "only the first key's contribution";
    if (lacks(in.seq_k - 1)) return {"the last key's contribution is missing", ShapeKind::kLastKeyMissing};
    if (lacks(0)) return "the first key's contribution is missing";
  }
  return {};
}

// Tests whether |got - expected| is monotone over queries or columns: strictly larger in each quarter than
// in the previous one, or strictly smaller.
Shape trend(const Bad& bad) {
  const auto quarters = [&](int64_t size, const std::function<int64_t(size_t)>& index) -> int {
    if (size < 4) return 0;
    double sum[4] = {}, count[4] = {};
    for (const size_t e : bad.elements) {
      const double wrong = std::fabs(bad.in.got[e] - bad.in.expected[e]);
      if (!std::isfinite(wrong)) return 0;
      const auto quarter = static_cast<size_t>(index(e) * 4 / size);
      sum[quarter] += wrong;
      count[quarter] += 1;
    }
    bool up = true, down = true;
    for (size_t q = 0; q < 4; ++q) {
      if (count[q] == 0) return 0;
      if (q == 0) continue;
      const double now = sum[q] / count[q], before = sum[q - 1] / count[q - 1];
      up &= now > 1.2 * before;
      down &= before > 1.2 * now;
    }
    return up ? 1 : down ? -1 : 0;
  };
  const int rows = quarters(bad.in.seq_q, [&](size_t e) { return bad.query(e); });
  if (rows != 0) return rows > 0 ? "grows with the row" : "falls with the row";
  const int columns = quarters(bad.in.dim_v, [&](size_t e) { return static_cast<int64_t>(e) % bad.in.dim_v; });
  if (columns != 0) return columns > 0 ? "grows with the column" : "falls with the column";
  return {};
}

Shape shape_of_values(const ShapeInput& input) {
  const Bad bad(input);
  for (const auto recognise : {one_value, of_one_key, constant_ratio, displaced, constant_offset, trend}) {
    if (Shape shape = recognise(bad); !shape.empty()) return shape;
  }
  return {};
}

bool consistent(const ShapeInput& in) {
  if (in.batch < 0 || in.heads < 0 || in.seq_q < 0 || in.dim_v < 0) return false;
  const auto n = static_cast<size_t>(in.batch * in.heads * in.seq_q * in.dim_v);
  const auto rows = static_cast<size_t>(in.batch * in.heads * in.seq_q);
  if (!in.dead.empty() && in.dead.size() != rows) return false;
  return in.got.size() == n && in.expected.size() == n && in.bad.size() == n;
}

}  // namespace

std::vector<Shape> error_shape(const ShapeInput& input) {
  if (!consistent(input) || std::ranges::count(input.bad, 0) == std::ssize(input.bad)) return {};
  std::vector<Shape> shapes = {shape_of_places(input), shape_of_values(input)};
  std::erase_if(shapes, &Shape::empty);
  return shapes;
}

std::string text_of(const std::vector<Shape>& shapes) {
  std::string text;
  for (const Shape& shape : shapes) text += (text.empty() ? "" : "; ") + shape.text;
  return text;
}

}  // namespace attnfuzz
