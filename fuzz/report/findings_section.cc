#include "fuzz/report/html.h"
#include "fuzz/report/sections.h"

namespace attnfuzz::report {
namespace {

std::string badge(const char* kind, const std::string& text) {
  return cat("<span class=\"badge ", kind, "\">", escape(text), "</span>");
}

std::string fact(const char* name, const std::string& html) {
  return html.empty() ? "" : cat("<dt>", name, "</dt><dd>", html, "</dd>\n");
}

std::string badges(const Finding& f) {
  std::string html = badge("bad", f.kind) + badge("", f.target);
  const std::string repeats = cat(to_string(f.repeats), ", ", f.failed, " of ", f.runs, " runs");
  html += badge(f.repeats == Repeats::kAlways ? "" : "warn", repeats);
  html += badge(
      "", cat("met ", grouped(f.count), f.count == 1 ? " time" : " times", ", first after ", duration(f.t)));
  if (!f.tolerated.empty()) html += badge("good", "known: " + f.tolerated);
  if (!f.reduced) html += badge("warn", "not as small as it gets: the clock ran out");
  return cat("<p>", html, "</p>\n");
}

std::string list(const std::vector<std::string>& items) {
  std::string html;
  for (const std::string& item : items) {
    const size_t begin = item.starts_with("needs ") ? 6 : 0;  // the row says so
    html += cat(html.empty() ? "" : ", ", escape(item.substr(begin)));
  }
  return html;
}

std::string card(const FindingEntry& entry) {
  const Finding& f = entry.finding;
  std::string html = cat("<article class=\"card\" id=\"", escape("finding-" + f.name), "\">\n<h3>",
                         escape(f.message), "</h3>\n", badges(f), "<div class=\"two\"><div>\n<dl>\n");
  html += fact("Smallest case", escape(f.minimal));
  html += fact("Needs", list(f.needs));
  html += fact("Does not matter", list(f.indifferent));
  html += fact("Shape of the error", escape(f.shape));
  html += fact("Likely", escape(f.guess.substr(f.guess.starts_with("likely ") ? 7 : 0)));
  html += fact("Property", escape(f.property));
  html += fact("Also seen as", list(f.also));
  html += "</dl>\n";
  html += cat("<pre>attnfuzz replay ", escape(entry.file), "</pre>\n");
  html += "</div>\n<div>";
  html += entry.picture ? svg(*entry.picture)
                        : std::string("<p class=\"muted\">Without a picture: no case could be read.</p>");
  html += "</div></div>\n<details><summary>As it was found, and the reproducer</summary>\n";
  html += cat("<p>", escape(f.found), "</p>\n<p class=\"muted\">Reduced in ",
              grouped(static_cast<uint64_t>(std::max<int64_t>(f.evaluations, 0))), " evaluations, ",
              duration(f.reduce_seconds), ". Key: <code>", escape(f.key), "</code></p>\n");
  if (!entry.file_text.empty() && entry.file_text.size() <= 64 * 1024)
    html += cat("<pre>", escape(entry.file_text), "</pre>\n");
  return html + "</details>\n</article>\n";
}

}  // namespace

std::string findings_section(const Report& report) {
  std::string html = "<section id=\"findings\">\n<h2>Findings</h2>\n";
  if (report.findings.empty()) {
    html += report.waiting == 0 ? "<p>None: every case that was judged held.</p>\n"
                                : "<p>None yet: what failed has not been looked at.</p>\n";
  }
  for (const FindingEntry& entry : report.findings) html += card(entry);
  if (!report.never_again.empty()) {
    html += cat("<details><summary>", report.never_again.size(),
                " failed once and in no later run</summary>\n<div "
                "class=\"scroll\"><table><tr><th>target</th><th>kind</th>"
                "<th>what was seen</th><th>case</th></tr>\n");
    for (const Finding& f : report.never_again) {
      html += cat("<tr><td>", escape(f.target), "</td><td>", escape(f.kind), "</td><td>", escape(f.message),
                  "</td><td>", escape(f.found), "</td></tr>\n");
    }
    html += "</table></div></details>\n";
  }
  return html + "</section>\n";
}

}  // namespace attnfuzz::report
