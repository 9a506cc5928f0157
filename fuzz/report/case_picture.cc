#include "fuzz/report/case_picture.h"

#include <algorithm>
#include <cmath>

#include "fuzz/report/html.h"
#include "properties/case/words.h"
#include "properties/data/recipe.h"

namespace attnfuzz::report {
namespace {

constexpr int64_t kMostRows = 48, kMostColumns = 64;
constexpr int64_t kMostPairs = int64_t{1} << 12;  // looked at in a cell
constexpr double kLeft = 34, kTop = 18, kStrip = 16, kGap = 8, kWidth = 340;

double row_error(const Reference& reference, int64_t row, const std::vector<float>& o,
                 const std::vector<float>* lse) {
  double worst = 0;
  for (int64_t d = 0; d < reference.dim_v; ++d) {
    worst = std::max(worst, ratio_o(reference, row, d, o[static_cast<size_t>(row * reference.dim_v + d)]));
  }
  if (lse && !lse->empty())
    worst = std::max(worst, ratio_lse(reference, row, (*lse)[static_cast<size_t>(row)]));
  return worst;
}

double seen_share(const Case& c, int64_t b, int64_t h, const Cell& cell) {
  const int64_t rows = cell.row_end - cell.row_begin, columns = cell.column_end - cell.column_begin;
  const int64_t step = std::max<int64_t>(rows * columns / kMostPairs, 1);
  int64_t seen = 0, of = 0;
  for (int64_t n = 0; n < rows * columns; n += step, ++of)
    seen += sees(c, b, h, cell.row_begin + n / columns, cell.column_begin + n % columns);
  return of > 0 ? static_cast<double>(seen) / static_cast<double>(of) : 0;
}

std::string rect(double x, double y, double w, double h, const std::string& fill, const std::string& title) {
  return cat("<rect x=\"", point(x), "\" y=\"", point(y), "\" width=\"", point(w), "\" height=\"", point(h),
             "\" style=\"fill:", fill, "\">", title.empty() ? "" : cat("<title>", title, "</title>"),
             "</rect>\n");
}

std::string colour_of(double error) {
  if (error > 1) return "var(--bad)";
  return cat("color-mix(in srgb, var(--good) ", static_cast<int>(25 + 75 * error), "%, var(--card))");
}

}  // namespace

CasePicture draw_case(const Case& c, const attn_plan& plan, const Reference* reference,
                      const std::vector<float>* o, const std::vector<float>* lse) {
  CasePicture picture;
  const Problem& p = c.problem;
  const bool known = reference && o && reference->rows > 0;
  for (int64_t row = 0; known && row < reference->rows; ++row) {
    if (row_error(*reference, row, *o, lse) <= 1) continue;
    picture.b = row / p.seq_q / p.heads_q;
    picture.h = row / p.seq_q % p.heads_q;
    break;
  }
  picture.rows = make_ruler(p.seq_q, plan.tile_q > 0 ? plan.tile_q : std::max<int64_t>(p.seq_q, 1), kMostRows);
  picture.columns =
      make_ruler(p.seq_k, plan.tile_k > 0 ? plan.tile_k : std::max<int64_t>(p.seq_k, 1), kMostColumns);
  if (p.batch == 0 || p.heads_q == 0) return picture;
  for (int64_t r = 0; r < picture.rows.cells(); ++r) {
    const auto at = static_cast<size_t>(r);
    Cell cell = {picture.rows.starts[at], picture.rows.starts[at + 1], 0, 0};
    for (int64_t k = 0; k < picture.columns.cells(); ++k) {
      cell.column_begin = picture.columns.starts[static_cast<size_t>(k)];
      cell.column_end = picture.columns.starts[static_cast<size_t>(k) + 1];
      picture.seen.push_back(seen_share(c, picture.b, picture.h, cell));
    }
    if (!known) continue;
    double worst = 0;
    for (int64_t i = cell.row_begin; i < cell.row_end; ++i)
      worst =
          std::max(worst, row_error(*reference, (picture.b * p.heads_q + picture.h) * p.seq_q + i, *o, lse));
    picture.error.push_back(worst);
  }
  return picture;
}

std::string svg(const CasePicture& picture) {
  const int64_t rows = picture.rows.cells(), columns = picture.columns.cells();
  std::string html = "<figure><figcaption><span>Error over rows and keys</span>";
  html += cat("<small>batch ", picture.b, ", head ", picture.h, "</small></figcaption>\n");
  const auto queries = rows > 0 ? picture.rows.starts.back() : 0,
             keys = columns > 0 ? picture.columns.starts.back() : 0;
  if (rows <= 0 || columns <= 0 || queries == 0 || keys == 0 || picture.seen.empty()) {
    html += cat("<p class=\"muted\">There is nothing to draw: ", queries, " queries, ", keys, " keys.</p>");
  } else {
    const bool error = !picture.error.empty();
    const double left = kLeft + (error ? kStrip + kGap : 0);
    const double w = (kWidth - left - 2) / static_cast<double>(columns);
    const double h = std::clamp(w, 5.0, rows < 4 ? 26.0 : 14.0),
                 height = kTop + h * static_cast<double>(rows) + 2;
    html +=
        cat("<svg viewBox=\"0 0 ", point(kWidth), " ", point(height),
            "\" role=\"img\" aria-label=\"Which keys each query may see, and which queries went wrong\">\n");
    html += cat("<text x=\"", point(left), "\" y=\"11\">key 0</text><text x=\"", point(kWidth - 2),
                "\" y=\"11\" text-anchor=\"end\">", keys - 1, "</text>\n");
    double labelled = -100;
    for (int64_t r = 0; r < rows; ++r) {
      const auto at = static_cast<size_t>(r);
      const double y = kTop + h * static_cast<double>(r);
      const bool bad = error && picture.error[at] > 1;
      if (y - labelled >= 13 && (r == 0 || picture.rows.border[at] || rows < 24 || r % 8 == 0)) {
        html += cat("<text x=\"", point(kLeft - 6), "\" y=\"", point(y + std::min(h, 10.0)),
                    "\" text-anchor=\"end\">", picture.rows.starts[at], "</text>\n");
        labelled = y;
      }
      if (error) {
        html += rect(kLeft, y, kStrip, h - 0.6, colour_of(picture.error[at]),
                     cat("row ", picture.rows.starts[at], ": error/bound ", ratio(picture.error[at])));
      }
      for (int64_t k = 0; k < columns; ++k) {
        const double share = picture.seen[static_cast<size_t>(r * columns + k)];
        const int percent = share > 0 ? static_cast<int>(25 + 75 * share) : 0;
        html += rect(left + w * static_cast<double>(k), y, w - (w > 3 ? 0.6 : 0), h - 0.6,
                     percent == 0 ? "var(--hidden)"
                                  : cat("color-mix(in srgb, var(--", bad ? "bad" : "seen", ") ", percent,
                                        "%, var(--hidden))"),
                     "");
      }
    }
    for (int64_t k = 1; k < columns; ++k) {
      if (!picture.columns.border[static_cast<size_t>(k)]) continue;
      const std::string x = point(left + w * static_cast<double>(k) - 0.3);
      html += cat("<line class=\"border\" x1=\"", x, "\" x2=\"", x, "\" y1=\"", point(kTop - 3), "\" y2=\"",
                  point(height), "\"><title>a KV tile begins at key ",
                  picture.columns.starts[static_cast<size_t>(k)], "</title></line>\n");
    }
    for (int64_t r = 1; r < rows; ++r) {
      if (!picture.rows.border[static_cast<size_t>(r)]) continue;
      const std::string y = point(kTop + h * static_cast<double>(r) - 0.3);
      html += cat("<line class=\"border\" x1=\"", point(kLeft), "\" x2=\"", point(kWidth), "\" y1=\"", y,
                  "\" y2=\"", y, "\"/>\n");
    }
    html += "</svg>\n<ul class=\"legend\">";
    html +=
        "<li><i class=\"box\" style=\"background:var(--seen)\"></i>may be seen</li>"
        "<li><i class=\"box\" style=\"background:var(--hidden)\"></i>hidden</li>";
    if (error) {
      html +=
          "<li><i class=\"box\" style=\"background:var(--bad)\"></i>row outside its bound</li>"
          "<li><i class=\"box\" style=\"background:var(--good)\"></i>row within it</li>";
    }
    html += "<li>lines: tiles</li></ul>\n";
  }
  if (!picture.why.empty()) html += cat("<p class=\"muted\">", escape(picture.why), "</p>\n");
  for (const std::string& line : picture.said) html += cat("<p class=\"muted\">", escape(line), "</p>\n");
  return html + "</figure>\n";
}

}  // namespace attnfuzz::report
