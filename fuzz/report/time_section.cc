#include <algorithm>
#include <map>

#include "fuzz/report/chart.h"
#include "fuzz/report/heat_map.h"
#include "fuzz/report/html.h"
#include "fuzz/report/sections.h"

namespace attnfuzz::report {
namespace {

constexpr int kBins = 80;
constexpr double kLeastBin = 10;  // seconds: two lines of a series

// A sum of a shard at a time: between its lines in proportion.
double at(const Shard& shard, uint64_t SeriesLine::* field, double t) {
  double t0 = 0, v0 = 0;
  for (const SeriesLine& line : shard.series) {
    const auto v1 = static_cast<double>(line.*field);
    if (line.t >= t) return line.t > t0 ? v0 + (v1 - v0) * (t - t0) / (line.t - t0) : v1;
    t0 = line.t;
    v0 = v1;
  }
  return v0;
}

std::vector<double> edges(double end) {
  const int bins = std::clamp(static_cast<int>(end / kLeastBin), 1, kBins);
  std::vector<double> all;
  for (int n = 0; n <= bins; ++n) all.push_back(end * n / bins);
  return all;
}

Chart of(const Report& report, const char* title) {
  Chart chart;
  chart.title = title;
  chart.end = report.explored;
  for (const Session& session : report.header.sessions) {
    if (session.from > 0) chart.sessions.push_back(session.from);
  }
  return chart;
}

Curve sum_curve(const Report& report, uint64_t SeriesLine::* field, bool rate) {
  Curve curve;
  const std::vector<double> times = edges(report.explored);
  double before = 0;
  for (size_t n = 0; n < times.size(); ++n) {
    double sum = 0;
    for (const Shard& shard : report.shards) sum += at(shard, field, times[n]);
    if (!rate) curve.points.emplace_back(times[n], sum);
    if (rate && n > 0) {
      const double value = std::max(sum - before, 0.0) / (times[n] - times[n - 1]);
      if (n == 1) curve.points.emplace_back(times[0], value);
      curve.points.emplace_back((times[n - 1] + times[n]) / 2, value);
      if (n + 1 == times.size()) curve.points.emplace_back(times[n], value);
    }
    before = sum;
  }
  return curve;
}

// In percent of the cases of the same time.
Curve share_curve(const Report& report, uint64_t SeriesLine::* field, const char* name) {
  Curve curve = sum_curve(report, field, true);
  const Curve cases = sum_curve(report, &SeriesLine::cases, true);
  curve.name = name;
  for (size_t n = 0; n < curve.points.size(); ++n) {
    if (cases.points[n].second > 0) curve.points[n].second *= 100 / cases.points[n].second;
  }
  return curve;
}

// What is known of each target, by whoever said it first.
std::vector<Curve> known_curves(const Report& report, uint64_t SeriesLine::* field) {
  std::map<std::string, std::vector<std::pair<double, double>>> lines;
  for (const Shard& shard : report.shards) {
    for (const SeriesLine& line : shard.series)
      lines[line.target].emplace_back(line.t, static_cast<double>(line.*field));
  }
  std::vector<Curve> curves;
  for (auto& [target, points] : lines) {
    std::ranges::sort(points);
    Curve curve;
    curve.name = target;
    curve.steps = true;
    double most = -1;
    for (const auto& [t, value] : points) {
      if (value <= most) continue;
      most = value;
      curve.points.emplace_back(t, value);
    }
    if (most > 0) curves.push_back(std::move(curve));
  }
  return curves;
}

std::string largest(const std::vector<Curve>& curves) {
  double most = 0;
  for (const Curve& curve : curves) most = std::max(most, curve.points.back().second);
  return curves.empty() ? "" : compact(most) + (curves.size() > 1 ? " at most" : "");
}

}  // namespace

std::string time_section(const Report& report) {
  std::string html = "<section id=\"time\">\n<h2>Over time</h2>\n";
  if (std::ranges::any_of(report.header.sessions, [](const Session& s) { return s.from > 0; }))
    html += "<p class=\"muted\">Dashed lines: where a later session took up.</p>\n";
  html += "<div class=\"charts\">\n";
  const bool any = std::ranges::any_of(report.shards, [](const Shard& s) { return !s.series.empty(); });

  uint64_t cases = 0;
  for (const Shard& shard : report.shards) cases += last_of(shard).cases;
  Chart rate = of(report, "Cases a second");
  rate.area = true;
  if (any && report.explored > 0) {
    rate.curves.push_back(sum_curve(report, &SeriesLine::cases, true));
    rate.now = compact(static_cast<double>(cases) / report.explored) + " on average";
  }
  html += chart(rate);

  Chart found = of(report, "Findings");
  found.area = true;
  Curve steps;
  steps.steps = true;
  std::vector<double> times;
  for (const FindingEntry& entry : report.findings) times.push_back(entry.finding.t);
  std::ranges::sort(times);
  if (any) steps.points.emplace_back(0, 0);
  for (size_t n = 0; n < times.size(); ++n) steps.points.emplace_back(times[n], static_cast<double>(n + 1));
  found.curves.push_back(steps);
  found.now = cat(times.size());
  html += chart(found);

  Chart corpus = of(report, "Corpus");
  corpus.area = true;
  if (any && report.explored > 0) {
    corpus.curves.push_back(sum_curve(report, &SeriesLine::corpus, false));
    corpus.now = compact(corpus.curves[0].points.back().second) + " cases";
  }
  html += chart(corpus);

  Chart lost = of(report, "Rejected and vacuous");
  if (any && report.explored > 0) {
    lost.curves = {share_curve(report, &SeriesLine::rejected, "rejected"),
                   share_curve(report, &SeriesLine::uninformative, "vacuous")};
    lost.now = "percent of cases";
  }
  html += chart(lost);

  Chart signals = of(report, "Signals: what cases have shown");
  signals.curves = known_curves(report, &SeriesLine::signals);
  signals.now = largest(signals.curves);
  html += chart(signals);

  if (auto curves = known_curves(report, &SeriesLine::coverage); !curves.empty()) {
    Chart coverage = of(report, "Coverage: edges of the kernel's code");
    coverage.now = largest(curves);
    coverage.curves = std::move(curves);
    html += chart(coverage);
  }
  return html + "</div>\n</section>\n";
}

std::string lengths_section(const Report& report) {
  std::string html =
      "<section id=\"lengths\">\n<h2>Error over lengths</h2>\n<p>The largest error of any element in multiples "
      "of its "
      "bound, of cases that held. Near 1 a bound is tight; above 1 would be a failure.</p>\n<div "
      "class=\"charts\">\n";
  if (report.targets.empty()) html += "<p class=\"muted\">Nothing yet.</p>\n";
  for (const auto& [name, stats] : report.targets) {
    if (!is_canary(report, name)) html += heat_map(name, stats.heat);
  }
  return html + "</div>\n</section>\n";
}

}  // namespace attnfuzz::report
