#include "fuzz/report/heat_map.h"

#include <algorithm>
#include <set>
#include <vector>

#include "fuzz/report/html.h"
#include "properties/case/words.h"

namespace attnfuzz::report {
namespace {

constexpr double kCell = 22, kLeft = 40, kTop = 30;

// 0..1 in tenths of the accent colour; what holds may be 1 at most.
std::string fill_of(double worst) {
  if (worst > 1) return "fill:var(--bad)";
  const double share = std::clamp(worst, 0.0, 1.0);
  return cat("fill:color-mix(in srgb, var(--accent) ", static_cast<int>(14 + 86 * share * share),
             "%, var(--card))");
}

// The buckets of one side, ascending, without long stretches that nobody tried:
// each of those is one place, kGap.
constexpr int kGap = -1;
std::vector<int> places(const std::set<int>& tried) {
  std::vector<int> shown;
  for (const int bucket : tried) {
    const int from = shown.empty() ? 0 : shown.back() + 1;
    if (bucket - from > 2) {
      shown.push_back(kGap);
    } else {
      for (int n = from; n < bucket; ++n) shown.push_back(n);
    }
    shown.push_back(bucket);
  }
  return shown;
}

std::string name_at(int bucket) { return bucket == kGap ? "..." : bucket_name(bucket); }

}  // namespace

std::string bucket_name(int bucket) {
  if (bucket <= 0) return "0";
  const int64_t most = bucket > 62 ? INT64_MAX : int64_t{1} << (bucket - 1);
  if (most < 1 << 10) return std::to_string(most);
  return most < 1 << 20 ? cat(most >> 10, "k") : cat(most >> 20, "M");
}

std::string heat_map(const std::string& title, const Heat& heat) {
  std::set<int> queries, keys;
  uint64_t cases = 0;
  double worst = 0;
  for (const auto& [at, cell] : heat) {
    if (at.first < 0 || at.second < 0 || at.first > 64 || at.second > 64) continue;
    queries.insert(at.first);
    keys.insert(at.second);
    cases += cell.cases;
    worst = std::max(worst, cell.worst);
  }
  std::string html = cat("<figure class=\"card\"><figcaption><span>", escape(title), "</span><small>",
                         grouped(cases), " cases, worst ", ratio(worst), "</small></figcaption>\n");
  if (queries.empty()) return html + "<p class=\"muted\">Nothing yet.</p></figure>\n";
  const std::vector<int> rows = places(queries), columns = places(keys);
  // The same scale for all maps: cells do not grow where few lengths were drawn.
  const double width = std::max(kLeft + static_cast<double>(columns.size()) * kCell + 2, 360.0);
  const double height = kTop + static_cast<double>(rows.size()) * kCell + 2;
  html += cat("<svg viewBox=\"0 0 ", point(width), " ", point(height),
              "\" role=\"img\" aria-label=\"Largest error to bound over lengths: ", escape(title), "\">\n");
  html += cat("<text x=\"", point(kLeft), "\" y=\"11\">keys, up to</text><text x=\"", point(kLeft - 6),
              "\" y=\"25\" text-anchor=\"end\">queries</text>\n");
  for (size_t k = 0; k < columns.size(); ++k) {
    html +=
        cat("<text x=\"", point(kLeft + (static_cast<double>(k) + 0.5) * kCell),
            "\" y=\"25\" text-anchor=\"middle\" style=\"font-size:9px\">", name_at(columns[k]), "</text>\n");
  }
  for (size_t q = 0; q < rows.size(); ++q) {
    const double y = kTop + static_cast<double>(q) * kCell;
    html += cat("<text x=\"", point(kLeft - 6), "\" y=\"", point(y + kCell / 2 + 3.5),
                "\" text-anchor=\"end\" style=\"font-size:9px\">", name_at(rows[q]), "</text>\n");
    for (size_t k = 0; k < columns.size(); ++k) {
      const auto found = heat.find({rows[q], columns[k]});
      if (found == heat.end()) continue;
      const HeatCell& cell = found->second;
      html += cat("<rect x=\"", point(kLeft + static_cast<double>(k) * kCell + 0.5), "\" y=\"", point(y + 0.5),
                  "\" width=\"", point(kCell - 1), "\" height=\"", point(kCell - 1), "\" rx=\"2\" style=\"",
                  fill_of(cell.worst), "\"><title>seq_q up to ", name_at(rows[q]), ", seq_k up to ",
                  name_at(columns[k]), ": worst ", ratio(cell.worst), " in ", grouped(cell.cases),
                  " cases</title></rect>\n");
    }
  }
  html += "</svg>\n<ul class=\"legend\">";
  for (const double step : {0.1, 0.5, 0.9, 1.0})
    html += cat("<li><i class=\"box\" style=\"", "background", fill_of(step).substr(4), "\"></i>", ratio(step),
                "</li>");
  return html + "<li>empty: never tried</li></ul></figure>\n";
}

}  // namespace attnfuzz::report
