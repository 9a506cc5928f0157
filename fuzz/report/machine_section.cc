#include <algorithm>
#include <map>

#include "fuzz/report/html.h"
#include "fuzz/report/sections.h"

namespace attnfuzz::report {
namespace {

std::string fact(const char* name, const std::string& text) {
  return text.empty() ? "" : cat("<dt>", name, "</dt><dd>", escape(text), "</dd>\n");
}

std::string targets(const Report& report) {
  std::string html;
  for (const TargetRecord& t : report.header.targets) {
    html += cat(
        "<div class=\"card\"><h3>", escape(t.name), t.canary ? " <span class=\"badge\">canary</span>" : "",
        "</h3>\n<dl>\n", fact("Kernel", t.kernel), fact("Back end, lane", t.backend + ", " + t.lane),
        fact("Build", t.build), fact("Worker's build", t.worker_build), fact("Compiler", t.compiler),
        fact("Flags", t.flags), fact("Device", t.device), fact("Bounds from", t.calibration), "</dl></div>\n");
  }
  return html;
}

std::string machine_of(const Machine& m) {
  std::string text =
      cat(m.host, ": ", m.cpu, m.cores > 0 ? cat(", ", m.cores, m.cores == 1 ? " core" : " cores") : "",
          m.os.empty() ? "" : ", " + m.os);
  for (const std::string& gpu : m.gpus) text += "; " + gpu;
  return text;
}

std::string sessions(const Report& report) {
  std::string html =
      "<div class=\"scroll\"><table>\n<tr><th></th><th>started</th><th class=\"n\">at</th><th "
      "class=\"n\">lasted</th><th "
      "class=\"n\">of</th><th>ended</th><th class=\"n\">jobs</th><th>machine</th></tr>\n";
  for (size_t n = 0; n < report.header.sessions.size(); ++n) {
    const Session& s = report.header.sessions[n];
    html += cat("<tr><td>", n + 1, "</td><td>", escape(s.started), "</td><td class=\"n\">", duration(s.from),
                "</td><td class=\"n\">", duration(s.seconds), "</td><td class=\"n\">", duration(s.asked),
                "</td><td>", s.ended.empty() ? "still runs, or was killed" : escape(s.ended),
                "</td><td class=\"n\">", s.jobs, s.gpus > 0 ? cat(" + ", s.gpus, " GPU") : "", "</td><td>",
                escape(machine_of(s.machine)), "</td></tr>\n");
    for (const std::string& note : s.notes)
      html += cat("<tr><td></td><td colspan=\"7\" class=\"muted\">", escape(note), "</td></tr>\n");
  }
  return html + "</table></div>\n";
}

std::string jobs(const Report& report) {
  std::string html =
      "<div class=\"scroll\"><table>\n<tr><th>job</th><th>last on</th><th class=\"n\">cases</th><th "
      "class=\"n\">brought to the "
      "corpus</th><th class=\"n\">failures filed</th><th class=\"n\">restarts</th><th class=\"n\">since "
      "something new</th><th "
      "class=\"n\">inside kernels</th></tr>\n";
  for (const Shard& shard : report.shards) {
    const SeriesLine& line = last_of(shard);
    html +=
        cat("<tr><td>", shard.number, "</td><td>", escape(line.target),
            line.gpu >= 0 ? cat(" (GPU ", line.gpu, ")") : "", "</td><td class=\"n\">", grouped(line.cases),
            "</td><td class=\"n\">", grouped(line.corpus), "</td><td class=\"n\">", grouped(line.crashes),
            "</td><td class=\"n\">", grouped(line.restarts), "</td><td class=\"n\">", grouped(line.since_new),
            "</td><td class=\"n\">", percent(line.kernel, line.wall), "</td></tr>\n");
  }
  return html + "</table></div>\n";
}

// How much of the time each GPU had nothing to do: of the time that its jobs were
// at work, what no job spent inside a kernel (two that overlap count once at best).
std::string gpus(const Report& report) {
  struct Use {
    double wall = 0, kernel = 0;
    int jobs = 0;
  };
  std::map<int, Use> uses;
  for (const Shard& shard : report.shards) {
    const SeriesLine& line = last_of(shard);
    if (line.gpu < 0) continue;
    Use& use = uses[line.gpu];
    use.wall = std::max(use.wall, line.wall);
    use.kernel += line.kernel;
    ++use.jobs;
  }
  std::string html;
  for (const auto& [gpu, use] : uses) {
    html += cat("<p>GPU ", gpu, ": ", use.jobs, use.jobs == 1 ? " job" : " jobs", ", ",
                percent(std::min(use.kernel, use.wall), use.wall),
                " of the time inside kernels, launches and copies of a case included; idle at least ",
                percent(std::max(use.wall - use.kernel, 0.0), use.wall), ".</p>\n");
  }
  return html;
}

}  // namespace

bool is_canary(const Report& report, const std::string& target) {
  return std::ranges::any_of(report.header.targets,
                             [&](const TargetRecord& t) { return t.canary && t.name == target; });
}

std::string machine_section(const Report& report) {
  std::string html = "<section id=\"machine\">\n<h2>Build and machine</h2>\n";
  std::string command;
  for (const std::string& word : report.header.command) command += (command.empty() ? "" : " ") + word;
  if (!command.empty()) html += cat("<pre>", escape(command), "</pre>\n");
  html += cat("<div class=\"card\"><h3>Sessions</h3>\n", sessions(report), "</div>\n");
  html += cat("<div class=\"card\"><h3>Jobs</h3>\n", gpus(report), jobs(report), "</div>\n");
  if (!report.canaries.empty()) {
    html +=
        "<div class=\"card\"><h3>Canary</h3>\n<div class=\"scroll\"><table><tr><th "
        "class=\"n\">session</th><th>target</th><th>found</th>"
        "<th class=\"n\">after cases</th><th class=\"n\">after</th><th>as</th></tr>\n";
    for (const Canary& c : report.canaries) {
      html +=
          cat("<tr><td class=\"n\">", c.session + 1, "</td><td>", escape(c.target), "</td><td>",
              c.found ? "<span class=\"badge good\">found</span>" : "<span class=\"badge bad\">missed</span>",
              "</td><td class=\"n\">", grouped(c.cases), "</td><td class=\"n\">", duration(c.seconds),
              "</td><td>", escape(c.found ? c.finding : c.message), "</td></tr>\n");
    }
    html += "</table></div></div>\n";
  }
  return html + targets(report) + "</section>\n";
}

}  // namespace attnfuzz::report
