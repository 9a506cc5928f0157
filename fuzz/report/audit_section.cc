#include <algorithm>
#include <cmath>

#include "fuzz/report/html.h"
#include "fuzz/report/sections.h"

namespace attnfuzz::report {
namespace {

constexpr size_t kMostReasons = 25;

std::string number_cell(const std::string& text) { return cat("<td class=\"n\">", text, "</td>"); }
std::string count_cell(uint64_t n) { return number_cell(n == 0 ? "-" : grouped(n)); }

// The middle of the error/bound of all runs, as "at most a power of two".
std::string middle(const PropertyStats& p) {
  uint64_t all = 0, seen = 0;
  for (const auto& [bucket, n] : p.ratios) all += n;
  for (const auto& [bucket, n] : p.ratios) {
    seen += n;
    if (2 * seen >= all && all > 0) return bucket == PropertyStats::kExact ? "0" : ratio(std::exp2(bucket + 1));
  }
  return "-";
}

std::string properties_table(const TargetStats& stats) {
  std::string html =
      "<div class=\"scroll\"><table>\n<tr><th>property</th><th class=\"n\">cases</th><th "
      "class=\"n\">held</th><th "
      "class=\"n\">rejected</th><th class=\"n\">vacuous</th><th class=\"n\">failed</th><th class=\"n\">worst "
      "error/bound</th><th class=\"n\">half below</th></tr>\n";
  for (const auto& [name, p] : stats.properties) {
    const bool silent = p.cases > 0 && p.passed + p.failed == 0;
    html += cat(
        "<tr><td>", escape(name), silent ? " <span class=\"badge warn\">checked nothing</span>" : "", "</td>",
        count_cell(p.cases), count_cell(p.passed), count_cell(p.rejected), count_cell(p.uninformative),
        p.failed > 0 ? cat("<td class=\"n\"><span class=\"badge bad\">", grouped(p.failed), "</span></td>")
                     : count_cell(0),
        number_cell(ratio(p.worst)), number_cell(middle(p)), "</tr>\n");
  }
  return html + "</table></div>\n";
}

std::vector<std::pair<std::string, uint64_t>> by_count(const std::map<std::string, uint64_t>& counts) {
  std::vector<std::pair<std::string, uint64_t>> sorted(counts.begin(), counts.end());
  std::ranges::sort(sorted, {}, [](const auto& one) { return std::pair(~one.second, one.first); });
  return sorted;
}

std::string counts_table(const std::map<std::string, uint64_t>& counts, const char* what, uint64_t of) {
  if (counts.empty()) return "";
  std::string html =
      cat("<div class=\"scroll\"><table>\n<tr><th>", what, "</th><th class=\"n\">cases</th><th></th></tr>\n");
  const auto sorted = by_count(counts);
  for (size_t n = 0; n < std::min(sorted.size(), kMostReasons); ++n) {
    const double share =
        of > 0 ? std::min(static_cast<double>(sorted[n].second) / static_cast<double>(of), 1.0) : 0;
    html += cat("<tr><td>", escape(sorted[n].first), "</td>", count_cell(sorted[n].second),
                "<td style=\"min-width:9rem\"><span class=\"bar\" style=\"width:", point(6 * share),
                "rem\"></span> <span class=\"muted\">",
                percent(static_cast<double>(sorted[n].second), static_cast<double>(of)), "</span></td></tr>\n");
  }
  html += "</table></div>\n";
  if (sorted.size() > kMostReasons)
    html += cat("<p class=\"muted\">and ", sorted.size() - kMostReasons, " more.</p>\n");
  return html;
}

std::string time_split(const TargetStats& stats) {
  const std::pair<const char*, double> stages[] = {
      {"lay out", stats.lay_out}, {"kernel", stats.kernel}, {"oracle", stats.oracle}, {"judge", stats.judge}};
  double all = 0;
  for (const auto& [name, seconds] : stages) all += std::max(seconds, 0.0);
  if (!(all > 0)) return "";
  std::string bars, legend;
  for (size_t n = 0; n < 4; ++n) {
    const double share = std::max(stages[n].second, 0.0) / all;
    bars += cat("<span style=\"width:", point(100 * share), "%;background:var(--s", n, ")\"></span>");
    legend += cat("<li><i class=\"box\" style=\"background:var(--s", n, ")\"></i>", stages[n].first, " ",
                  percent(share, 1), "</li>");
  }
  return cat("<p class=\"muted\">Where the time went</p><div class=\"split\" aria-hidden=\"true\">", bars,
             "</div><ul class=\"legend\">", legend, "</ul>\n");
}

std::string origins(const TargetStats& stats) {
  std::string text;
  for (const auto& [name, n] : by_count(stats.origins))
    text += cat(text.empty() ? "" : ", ", grouped(n), " ", escape(name));
  return text.empty() ? "" : cat("<p>Cases: ", text, ".</p>\n");
}

std::string rows(const TargetStats& stats) {
  if (stats.rows == 0) return "<p class=\"note\">No row of any result was compared.</p>\n";
  const auto all = static_cast<double>(stats.rows);
  return cat("<p>", grouped(stats.rows), " rows were compared. Of them ",
             percent(static_cast<double>(stats.dead_rows), all),
             " see no key (held to O = 0, LSE = -inf exactly), ",
             percent(static_cast<double>(stats.uninformative_rows), all),
             " have scores too uncertain to say more than that O lies among its values, and ",
             percent(static_cast<double>(stats.unconstrained_rows), all),
             " may hold anything, for an input is infinite or an intermediate may overflow.</p>\n");
}

std::string warnings(const TargetStats& stats) {
  std::string html;
  for (const std::string& floor : stats.features.broken_floors())
    html += cat("<p class=\"note\">The draw is thinner than it should be: ", escape(floor), "</p>\n");
  if (stats.quarantined > 0)
    html += cat("<p class=\"note\">", grouped(stats.quarantined),
                " cases were drawn and never launched: the ledger quarantines them.</p>\n");
  for (const auto& [kind, n] : stats.not_filed)
    html += cat("<p class=\"note\">", grouped(n), " failures (", escape(kind),
                ") were counted and not filed: enough of their kind were waiting.</p>\n");
  return html;
}

}  // namespace

std::string audit_section(const Report& report) {
  std::string html =
      "<section id=\"audit\">\n<h2>What was checked, and what was not</h2>\n<p>A rejected case was refused by "
      "the kernel "
      "with a reason, or says nothing about the property; a vacuous one ran, and its inputs allow any result. "
      "A green "
      "night is worth what is left.</p>\n";
  if (report.targets.empty()) html += "<p class=\"muted\">Nothing yet.</p>\n";
  for (const auto& [name, stats] : report.targets) {
    if (is_canary(report, name)) continue;
    html += cat("<div class=\"card\">\n<h3>", escape(name), "</h3>\n", warnings(stats), origins(stats),
                rows(stats), time_split(stats));
    html +=
        cat("<details open=\"open\"><summary>Properties</summary>\n", properties_table(stats), "</details>\n");
    uint64_t rejected = 0;
    for (const auto& [reason, n] : stats.rejections) rejected += n;
    if (rejected > 0) {
      html += cat("<details><summary>Why ", grouped(rejected), " were rejected</summary>\n",
                  counts_table(stats.rejections, "reason", rejected), "</details>\n");
    }
    if (!stats.features.counts.empty()) {
      std::map<std::string, uint64_t> features(stats.features.counts.begin(), stats.features.counts.end());
      html += cat("<details><summary>What the cases had in them</summary>\n",
                  counts_table(features, "feature", stats.features.cases), "</details>\n");
    }
    html += "</div>\n";
  }
  if (!report.newest.empty()) {
    html +=
        "<details><summary>The newest of the corpus</summary>\n<div "
        "class=\"scroll\"><table><tr><th>after</th><th>kernel</th>"
        "<th>target</th><th>origin</th><th>property</th><th class=\"n\">new signals</th><th class=\"n\">new "
        "edges</th><th>case</th></tr>\n";
    for (const CorpusEntry& entry : report.newest) {
      html += cat("<tr><td>", duration(entry.t), "</td><td>", escape(entry.kernel), "</td><td>",
                  escape(entry.target), "</td><td>", escape(entry.origin), "</td><td>", escape(entry.property),
                  "</td>", count_cell(entry.signals.size()), count_cell(entry.edges.size()), "<td><code>",
                  escape(entry.id.substr(0, 12)), "</code></td></tr>\n");
    }
    html += "</table></div></details>\n";
  }
  return html + "</section>\n";
}

}  // namespace attnfuzz::report
