#include "fuzz/campaign/triage/files/case_picture.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "base/files.h"
#include "base/json.h"
#include "properties/data/recipe.h"

namespace attnfuzz {
namespace {

constexpr int64_t kMostRows = 48, kMostColumns = 64;
constexpr int64_t kMostPairs = int64_t{1} << 12;  // pairs that are examined in a cell

// True if the output has a row of numbers for each query of a query head, as the picture has.
bool is_drawn(const Expected& output) {
  const TensorSpec& spec = spec_of(output.tensor);
  return of_queries(spec) && spec.shape[1] == Size::kHeadsQ && output.integer.empty();
}

double row_error(const Reference& reference, int64_t row, const Outputs& got) {
  double worst = 0;
  for (const Expected& output : reference.outputs) {
    const std::vector<float>& values = got[output.tensor];
    if (values.empty() || !is_drawn(output)) continue;
    for (int64_t d = 0; d < output.columns; ++d)
      worst = std::max(worst, output.ratio(row, d, values[static_cast<size_t>(row * output.columns + d)]));
  }
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

Json axis_json(const Ruler& ruler) {
  std::vector<size_t> borders;
  for (size_t n = 0; n < ruler.border.size(); ++n) {
    if (ruler.border[n]) borders.push_back(n);
  }
  return {{"starts", ruler.starts}, {"border", borders}, {"tile", ruler.tile}};
}

Ruler axis_of(const Json& j) {
  Ruler ruler;
  j.at("starts").get_to(ruler.starts);
  j.at("tile").get_to(ruler.tile);
  const bool fits = !ruler.starts.empty() && ruler.starts.size() <= kMostColumns + 1 &&
                    ruler.starts.front() == 0 && std::ranges::is_sorted(ruler.starts);
  if (!fits) throw std::runtime_error("one of its axes is invalid");
  ruler.border.assign(ruler.starts.size(), false);
  for (const auto& at : j.at("border")) ruler.border.at(at.get<size_t>()) = true;
  return ruler;
}

}  // namespace

CasePicture draw_case(const Case& c, const attn_plan& plan, const Reference* reference, const Outputs* got) {
  CasePicture picture;
  const Problem& p = c.problem;
  const RowSpace rows(p);
  const bool known = reference && got && reference->rows > 0 &&
                     std::ranges::any_of(reference->outputs, [&](const Expected& output) {
                       return is_drawn(output) && !(*got)[output.tensor].empty();
                     });
  for (int64_t row = 0; known && row < reference->rows; ++row) {
    if (row_error(*reference, row, *got) <= 1) continue;
    picture.b = rows.at(row).b;
    picture.h = rows.at(row).h;
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
      worst = std::max(worst, row_error(*reference, rows.of(picture.b, picture.h, i), *got));
    picture.error.push_back(worst);
  }
  return picture;
}

CasePicture picture_without_error(const Case& c, const std::string& why) {
  CasePicture picture = draw_case(c, {}, nullptr, nullptr);
  picture.why = why;
  return picture;
}

Json picture_json(const CasePicture& picture) {
  std::vector<int> seen;
  for (const double share : picture.seen) seen.push_back(static_cast<int>(std::ceil(100 * share)));
  return {{"batch", picture.b},
          {"head", picture.h},
          {"rows", axis_json(picture.rows)},
          {"columns", axis_json(picture.columns)},
          {"seen", seen},
          {"error", picture.error},
          {"why", picture.why},
          {"said", picture.said}};
}

CasePicture read_picture(const std::string& path) {
  const std::string text = file_text(path, kInFolder);
  try {
    const Json j = json_of(text);
    if (!j.is_object()) throw std::runtime_error("no JSON object");
    CasePicture picture;
    j.at("batch").get_to(picture.b);
    j.at("head").get_to(picture.h);
    picture.rows = axis_of(j.at("rows"));
    picture.columns = axis_of(j.at("columns"));
    for (const int percent : j.at("seen").get<std::vector<int>>())
      picture.seen.push_back(std::clamp(percent, 0, 100) / 100.0);
    for (const auto& error : j.at("error"))
      picture.error.push_back(error.is_null() ? std::numeric_limits<double>::infinity() : error.get<double>());
    j.at("why").get_to(picture.why);
    j.at("said").get_to(picture.said);
    const auto rows = static_cast<size_t>(picture.rows.cells());
    const auto columns = static_cast<size_t>(picture.columns.cells());
    const bool nothing = picture.seen.empty() && picture.error.empty();
    if (!nothing &&
        (picture.seen.size() != rows * columns || (!picture.error.empty() && picture.error.size() != rows)))
      throw std::runtime_error("its cells do not fit its axes");
    return picture;
  } catch (const std::exception& e) {
    throw std::runtime_error(path + " is no picture of a case: " + e.what());
  }
}

void write_picture(const std::string& path, const CasePicture& picture) {
  write_file(path, json_text(picture_json(picture)) + "\n");
}

}  // namespace attnfuzz
