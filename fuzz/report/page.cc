#include <algorithm>
#include <cmath>

#include "fuzz/report/html.h"
#include "fuzz/report/sections.h"

namespace attnfuzz::report {
namespace {

size_t new_findings(const Report& report) {
  return static_cast<size_t>(std::ranges::count_if(
      report.findings, [](const FindingEntry& e) { return e.finding.tolerated.empty(); }));
}

uint64_t total(const Report& report, uint64_t SeriesLine::* field) {
  uint64_t sum = 0;
  for (const Shard& shard : report.shards) sum += last_of(shard).*field;
  return sum;
}

std::string tile(const std::string& value, const std::string& what) {
  return cat("<div class=\"tile\"><b>", value, "</b><span>", what, "</span></div>\n");
}

std::string counted(uint64_t n, const char* one, const char* many) {
  return cat(grouped(n), " ", n == 1 ? one : many);
}

std::string headline(const Report& report) {
  const size_t fresh = new_findings(report);
  const std::string time = " in " + duration(report.end);
  if (fresh > 0) return counted(fresh, "new finding", "new findings") + time;
  if (report.waiting > 0)
    return counted(report.waiting, "failing case", "failing cases") + ", not looked at yet," + time;
  if (total(report, &SeriesLine::cases) == 0) return "Nothing has been run yet";
  return "Nothing found" + time;
}

std::string canary_note(const Report& report) {
  if (report.canaries.empty()) {
    return "<p class=\"note bad\"><b>No canary was run.</b> No planted bug shows that this campaign could have "
           "found "
           "one: do not trust a green result.</p>\n";
  }
  std::string missed;
  uint64_t cases = 0;
  for (const Canary& canary : report.canaries) {
    cases = std::max(cases, canary.cases);
    if (!canary.found) {
      missed += cat(" ", escape(canary.target), " in session ", canary.session + 1,
                    canary.message.empty() ? "" : ": " + escape(canary.message), ".");
    }
  }
  if (!missed.empty()) {
    return cat("<p class=\"note bad\"><b>The harness is broken: a planted bug was not found.</b>", missed,
               " Nothing below is to be trusted before this is.</p>\n");
  }
  return cat("<p class=\"note good\"><b>The canary was found</b> in every session, after ",
             counted(cases, "case", "cases"), " at most: a planted bug does not get past this harness.</p>\n");
}

std::string tiles(const Report& report) {
  const uint64_t cases = total(report, &SeriesLine::cases);
  std::string html = "<div class=\"tiles\">\n";
  html += tile(grouped(cases), "cases judged");
  html +=
      tile(report.explored > 0 ? compact(static_cast<double>(cases) / report.explored) : "-", "cases a second");
  html += tile(grouped(new_findings(report)), "new findings");
  const size_t tolerated = report.findings.size() - new_findings(report);
  if (tolerated > 0) html += tile(grouped(tolerated), "known failures seen");
  uint64_t corpus = 0;
  for (const auto& [kernel, n] : report.corpus) corpus += n;
  html += tile(grouped(corpus), "cases in the corpus");
  html += tile(percent(static_cast<double>(total(report, &SeriesLine::rejected)), static_cast<double>(cases)),
               "rejected");
  html +=
      tile(percent(static_cast<double>(total(report, &SeriesLine::uninformative)), static_cast<double>(cases)),
           "vacuous");
  html += tile(grouped(total(report, &SeriesLine::restarts)), "jobs restarted");
  return html + "</div>\n";
}

std::string problems(const Report& report) {
  std::string html;
  if (!report.problems.empty()) {
    html += "<div class=\"note bad\"><b>Part of the folder could not be read</b>, and is missing below:<ul>";
    for (const std::string& problem : report.problems) html += cat("<li>", escape(problem), "</li>");
    html += "</ul></div>\n";
  }
  if (report.waiting > 0) {
    html += cat("<p class=\"note\">", counted(report.waiting, "failing case is", "failing cases are"),
                " not reduced yet: start the campaign again with the same folder, and it goes on.</p>\n");
  }
  if (!report.header.sessions.empty() && report.header.sessions.back().ended.empty())
    html += "<p class=\"note\">The last session still runs, or was killed.</p>\n";
  return html;
}

}  // namespace

const SeriesLine& last_of(const Shard& shard) {
  // The series is the newer of the two, but for what a kill has cut off.
  if (shard.series.empty() || shard.series.back().cases < shard.stats.last.cases) return shard.stats.last;
  return shard.series.back();
}

std::string report_html(const Report& report, const std::string& made) {
  std::string kernels;
  for (const TargetRecord& target : report.header.targets) {
    if (!target.canary) kernels += cat(kernels.empty() ? "" : ", ", escape(target.name));
  }
  if (kernels.empty()) kernels = "no target yet";
  const std::string title = headline(report);
  std::string html =
      "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n<meta "
      "charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'\"/>\n";
  html += cat("<title>", title, " - attnfuzz</title>\n<style>", kStyle, "</style>\n</head>\n<body>\n<main>\n");
  html +=
      cat("<header>\n<h1>", title, "</h1>\n<p class=\"lead\">", kernels, ". Begun ",
          escape(report.header.started), ", ", counted(report.header.sessions.size(), "session", "sessions"),
          ", ", counted(report.shards.size(), "job", "jobs"), ", seed ", report.header.seed, ".</p>\n");
  html += canary_note(report) + problems(report) + tiles(report);
  html +=
      "<nav aria-label=\"Sections\"><a href=\"#findings\">Findings</a><a href=\"#time\">Over time</a><a "
      "href=\"#lengths\">Error over lengths</a><a href=\"#audit\">What was checked, and what was not</a><a "
      "href=\"#machine\">Build and machine</a></nav>\n</header>\n";
  html += findings_section(report) + time_section(report) + lengths_section(report) + audit_section(report) +
          machine_section(report);
  html += cat("<footer>Made ", escape(made), " of <code>", escape(report.dir), "</code> by ",
              escape(report.header.version), ". This page is all there is to it: it loads nothing.</footer>\n");
  return html + "</main>\n</body>\n</html>\n";
}

}  // namespace attnfuzz::report
