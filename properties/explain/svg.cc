#include "properties/explain/svg.h"

#include <cmath>
#include <stdexcept>

#include "properties/case/places/geometry.h"
#include "properties/case/words.h"
#include "properties/data/tiles.h"
#include "properties/explain/cells.h"
#include "properties/explain/picture.h"
#include "properties/operations/operation.h"

namespace attnfuzz {
namespace {

// Pixels. The panels have equal height, so that a query has the same height in both.
constexpr int kPanel = 360, kGap = 60, kLeft = 48, kTop = 56, kFoot = 44;
constexpr int64_t kMostCells = 120;  // along one side of a panel

constexpr const char* kStyle = R"(<style>
  text { font: 12px sans-serif; fill: #1f2328 } rect { shape-rendering: crispEdges }
  .title { font-weight: bold }
  .frame { fill: none; stroke: #8c959f }
  .tile { stroke: #8c959f; stroke-dasharray: 4 3 }
  .seen { fill: #2da44e } .some { fill: #94d3a2 } .good { fill: #d0d7de } .bad { fill: #fa8072 } .nan { fill: #cf222e }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .frame, .tile { stroke: #6e7681 }
    .seen { fill: #3fb950 } .some { fill: #1b5e2b } .good { fill: #30363d } .bad { fill: #d4605a } .nan { fill: #ff2d3a }
  }
</style>
)";

// A coordinate, rounded to a tenth of a pixel.
std::string px(double x) { return number(std::round(10 * x) / 10); }

// One panel: a matrix of cells, each drawn as a rectangle with a CSS class. An empty class draws nothing.
class Panel {
 public:
  Panel(int left, int64_t rows, int64_t columns, int64_t tile_q, int64_t tile_k)
      : left_(left),
        rows_(rows),
        columns_(columns),
        row_cells_(make_ruler(rows, tile_q, kMostCells)),
        column_cells_(make_ruler(columns, tile_k, kMostCells)) {}

  template <class ClassOf>
  std::string draw(const std::string& title, const std::string& across, ClassOf&& class_of) const {
    std::string svg = text(left_, kTop - 28, title, "title") + text(left_, kTop - 10, across, "");
    for (int64_t r = 0; r < row_cells_.cells(); ++r) {
      // Neighbouring cells of one class form one rectangle.
      std::string open;
      int64_t begin = 0;
      for (int64_t k = 0; k <= column_cells_.cells(); ++k) {
        const std::string now = k < column_cells_.cells() ? class_of(cell(r, k)) : std::string();
        if (k > 0 && now == open) continue;
        if (!open.empty()) svg += rectangle(r, begin, k, open);
        open = now;
        begin = k;
      }
    }
    return svg + borders();
  }

 private:
  Cell cell(int64_t r, int64_t k) const {
    const auto row = static_cast<size_t>(r), column = static_cast<size_t>(k);
    return {row_cells_.starts[row], row_cells_.starts[row + 1], column_cells_.starts[column],
            column_cells_.starts[column + 1]};
  }
  double x(int64_t column) const {
    return left_ + kPanel * static_cast<double>(column) / static_cast<double>(columns_);
  }
  double y(int64_t row) const { return kTop + kPanel * static_cast<double>(row) / static_cast<double>(rows_); }

  std::string rectangle(int64_t r, int64_t begin, int64_t end, const std::string& name) const {
    const auto row = static_cast<size_t>(r);
    const double left = x(column_cells_.starts[static_cast<size_t>(begin)]);
    const double right = x(column_cells_.starts[static_cast<size_t>(end)]);
    const double top = y(row_cells_.starts[row]), bottom = y(row_cells_.starts[row + 1]);
    return cat("<rect class=\"", name, "\" x=\"", px(left), "\" y=\"", px(top), "\" width=\"", px(right - left),
               "\" height=\"", px(bottom - top), "\"/>\n");
  }
  std::string borders() const {
    std::string svg = cat("<rect class=\"frame\" x=\"", left_, "\" y=\"", kTop, "\" width=\"", kPanel,
                          "\" height=\"", kPanel, "\"/>\n");
    for (size_t r = 0; r < row_cells_.border.size(); ++r) {
      const int64_t row = row_cells_.starts[r];
      if (row_cells_.border[r]) svg += line(left_, y(row), left_ + kPanel, y(row));
      if (row_cells_.border[r] || r == 0) svg += text(left_ - 30, y(row) + 10, cat(row), "");
    }
    for (size_t k = 0; k < column_cells_.border.size(); ++k) {
      const int64_t column = column_cells_.starts[k];
      if (column_cells_.border[k]) svg += line(x(column), kTop, x(column), kTop + kPanel);
    }
    return svg;
  }
  static std::string line(double x1, double y1, double x2, double y2) {
    return cat("<line class=\"tile\" x1=\"", px(x1), "\" y1=\"", px(y1), "\" x2=\"", px(x2), "\" y2=\"", px(y2),
               "\"/>\n");
  }

 public:
  static std::string text(double x, double y, const std::string& words, const std::string& name) {
    std::string safe;
    for (const char ch : words) safe += ch == '&' ? "&amp;" : ch == '<' ? "&lt;" : std::string(1, ch);
    return cat("<text class=\"", name, "\" x=\"", px(x), "\" y=\"", px(y), "\">", safe, "</text>\n");
  }
  static std::string legend(double x, double y, const std::string& name, const std::string& words) {
    return cat("<rect class=\"", name, "\" x=\"", px(x), "\" y=\"", px(y - 10),
               "\" width=\"12\" height=\"12\"/>\n") +
           text(x + 18, y, words, "");
  }

 private:
  int left_;
  int64_t rows_, columns_;
  Ruler row_cells_, column_cells_;
};

}  // namespace

std::string svg_picture(const Case& c, const attn_plan& plan, const Reference* reference, const Outputs* got) {
  const Problem& p = c.problem;
  if (p.seq_q == 0 || p.seq_k == 0)
    throw std::invalid_argument("the case has no query or no key, so there is nothing to draw");
  const int64_t tile_q = plan.tile_q > 0 ? plan.tile_q : 64, tile_k = plan.tile_k > 0 ? plan.tile_k : 64;
  std::vector<Compared> outputs;
  if (reference != nullptr && got != nullptr) outputs = compared(*reference, *got);
  const bool both = !outputs.empty();
  const Head head = both ? first_failing_head(p, first_wrong(outputs)) : Head{};
  const int width = kLeft + kPanel + (both ? kGap + kPanel : 0) + 12, height = kTop + kPanel + kFoot;
  const double foot = kTop + kPanel + 26;

  std::string svg = cat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", width, " ", height,
                        "\" width=\"", width, "\" height=\"", height, "\" role=\"img\">\n", kStyle);
  const VisibilityCache visible(c, head.b, both ? query_head(p, first_wrong(outputs), head.h) : head.h);
  svg += Panel(kLeft, p.seq_q, p.seq_k, tile_q, tile_k)
             .draw("Visible keys", cat(p.seq_q, " queries down, ", p.seq_k, " keys across; dashed: tiles"),
                   [&](const Cell& cell) {
                     const double seen = visible_share(visible, cell);
                     return seen == 1 ? "seen" : seen > 0 ? "some" : "";
                   });
  svg += Panel::legend(kLeft, foot, "seen", "visible") +
         Panel::legend(kLeft + 90, foot, "some", "some of the cell");
  if (both) {
    const Compared& output = first_wrong(outputs);
    const bool of_keys = attnfuzz::of_keys(spec_of(output.due.tensor));
    const int64_t first = rows_of(p, output).of(head.b, head.h, 0), columns = output.due.columns;
    const int64_t rows = logical_size(p, output.due.tensor)[2];
    const int left = kLeft + kPanel + kGap;
    svg += Panel(left, rows, columns, of_keys ? tile_k : tile_q, columns)
               .draw("Error of " + title_of(output.due.tensor),
                     cat(rows, of_keys ? " keys down, " : " queries down, ", columns, " columns across"),
                     [&](const Cell& cell) {
                       const double ratio = worst_ratio(output, first, cell);
                       return ratio < 0 ? "" : ratio <= 1 ? "good" : std::isinf(ratio) ? "nan" : "bad";
                     });
    svg += Panel::legend(left, foot, "good", "within its bound") +
           Panel::legend(left + 130, foot, "bad", "outside") +
           Panel::legend(left + 210, foot, "nan", "not a number");
  }
  return svg + "</svg>\n";
}

}  // namespace attnfuzz
