#include "cli/print/campaign_print.h"

#include <algorithm>
#include <cstdio>

#include "base/printable.h"
#include "cli/print/verdict.h"
#include "cli/terminal/terminal.h"
#include "fuzz/campaign/store/seeded_bug.h"
#include "fuzz/campaign/store/warnings.h"
#include "fuzz/campaign/triage/files/sequence_files.h"

namespace attnfuzz {
namespace {

std::string clock_text(double seconds) {
  char text[32];
  const long s = static_cast<long>(seconds);
  std::snprintf(text, sizeof text, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
  return text;
}

}  // namespace

std::string status_of(const CampaignState& s) {
  char text[400];
  std::snprintf(
      text, sizeof text,
      "%s, %s left%s: %zu finding(s), %llu to reduce; %llu cases, %.0f/s%s; corpus %llu, situations %llu, "
      "coverage %llu",
      clock_text(s.t).c_str(), clock_text(s.left).c_str(),
      s.disk_full  ? ", DISK FULL, waiting"
      : s.draining ? ", ending"
                   : "",
      s.findings, (unsigned long long)s.waiting, (unsigned long long)s.cases, s.cases_per_second,
      s.sequences == 0 ? "" : (", " + std::to_string(s.sequences) + " sequences of calls").c_str(),
      (unsigned long long)s.corpus, (unsigned long long)s.situations, (unsigned long long)s.coverage);
  return text;
}

std::string words_of(const Json& e, const std::vector<CampaignTarget>& targets) {
  const std::string event = e.at("event"), t = "[" + clock_text(e.at("t")) + "] ";
  if (event == "start") {
    std::string text =
        t + "campaign in " + e.at("dir").get<std::string>() + ", " + clock_text(e.at("seconds")) + " to go:";
    for (const auto& target : e.at("targets")) text += " " + target.get<std::string>();
    for (const auto& note : e.at("notes")) text += "\n  " + note.get<std::string>();
    return text;
  }
  if (event == "finding") {
    const std::string known = e.at("tolerated"), of = e.at("target");
    const auto found = std::ranges::find_if(targets, [&](const auto& x) { return x.record.name == of; });
    const std::string kernel = found == targets.end() ? "" : found->record.kernel;
    const std::string peer = found == targets.end() ? "" : found->record.peer;
    const std::string file = e.at("file");
    const std::string replay = found != targets.end() && e.at("property") == kOfSequences
                                   ? sequence_replay_line(file, found->record)
                                   : replay_line(file, kernel, peer);
    return t + (known.empty() ? "FINDING " : "known: ") + e.at("name").get<std::string>() + " (" +
           e.at("target").get<std::string>() + ", " + e.at("repeats").get<std::string>() + ")\n  " +
           e.at("minimal").get<std::string>() + "\n  " + e.at("message").get<std::string>() +
           (known.empty() ? "" : "\n  " + known) + "\n  replay: " + replay;
  }
  if (event == "tolerated") {
    const std::string what = e.at("what");
    return what.empty() ? "" : t + what;
  }
  if (event == "restart") return t + "a job was started anew: " + e.at("why").get<std::string>();
  if (event == "given-up")
    return t + e.at("target").get<std::string>() + " is given up: " + e.at("why").get<std::string>();
  if (event == "disk-full")
    return t + "the disk is full (" + e.at("dir").get<std::string>() + "): " + e.at("what").get<std::string>();
  if (event == "disk-has-room") return t + "there is room again";
  return "";
}

std::string sequences_text(const CampaignHeader& header, const std::map<std::string, TargetStats>& stats) {
  constexpr size_t kMost = 4;
  std::string text;
  for (const TargetRecord& target : header.targets) {
    const std::string name = printable(target.name);
    if (!target.no_sequences.empty())
      text += name + ": no sequences of calls: " + printable(target.no_sequences) + "\n";
    const auto found = stats.find(target.name);
    if (found == stats.end()) continue;
    const SequenceStats& s = found->second.sequences;
    if (s.sequences == 0 && s.left_out.empty()) continue;
    char line[200];
    std::snprintf(
        line, sizeof line, ": %llu sequences of calls, %llu failed; %llu calls; largest error/bound %.2f\n",
        (unsigned long long)s.sequences, (unsigned long long)s.failed, (unsigned long long)s.calls, s.worst);
    text += name + line;
    if (s.bounded > 0)
      text += "  compared within the bound, not bit for bit: " + std::to_string(s.bounded) + " attends\n";
    size_t shown = 0;
    uint64_t hidden = 0;
    for (const auto& [why, n] : s.left_out) {
      if (shown++ < kMost)
        text += "  not run: " + printable(why) + " (" + std::to_string(n) + ")\n";
      else
        hidden += n;
    }
    if (hidden > 0)
      text += "  not run: for " + std::to_string(shown - kMost) + " more reasons (" + std::to_string(hidden) +
              "); the report has all\n";
  }
  return text;
}

report::Report read_and_tell(const std::string& dir) {
  report::Report report = report::read_report(dir);
  for (const std::string& problem : report.problems)
    std::fprintf(stderr, "attnfuzz: %s\n", printable(problem).c_str());
  for (const std::string& target : report.not_judged)
    std::fprintf(stderr, "attnfuzz: not judged: %s\n", printable(target).c_str());
  return report;
}

void print_end(const CampaignSummary& s, const std::string& dir) {
  size_t known = 0;
  for (const Finding& f : s.findings.findings) known += !f.tolerated.empty();
  const std::map<std::string, TargetStats> all = stats_of(dir);
  uint64_t dropped = 0;
  for (const auto& [target, stats] : all) dropped += is_seeded_bug(target) ? 0 : never_looked_at(stats);
  emit("\nended: {}; {} finding(s), {} known, {} never seen again, {} still to reduce{}\n", s.ended,
       s.findings.findings.size() - known, known, s.findings.never_again.size(), s.waiting,
       dropped > 0 ? ", " + std::to_string(dropped) + " counted and not looked at" : "");
  for (const auto* list : {&s.findings.findings, &s.findings.never_again}) {
    for (const Finding& f : *list) {
      print("  " + printable(f.name) + " x" + std::to_string(f.count) + " " + to_string(f.repeats) +
            (f.tolerated.empty() ? "" : printable(", known: " + f.tolerated)) + "\n    " +
            printable(f.minimal) + "\n    " + printable(f.message) + "\n");
    }
  }
  for (const SeededBugResult& c : s.seeded_bugs) {
    if (c.found) {
      emit("seeded bug {}: found within {} cases\n", c.target, c.cases);
    } else if (c.cut_short) {
      emit("seeded bug {}: the session was interrupted before it could be found\n", printable(c.target));
    } else {
      emit(
          "seeded bug {}: NOT FOUND ({}): the harness is broken, and its results for other kernels mean "
          "nothing\n",
          printable(c.target), printable(c.message));
    }
  }
  for (const auto& [target, stats] : all) {
    if (!stats.oracle.device.empty()) print(printable(target) + ":\n" + oracle_text(stats.oracle));
    if (stats.long_parents > 0)
      emit("{}: {} draws did not mutate their case of the corpus: its rows are too long\n", printable(target),
           stats.long_parents);
    if (stats.batch.cleared + stats.batch.doubted > 0)
      print(printable(target) + ": " + words(stats.batch) + "\n");
  }
  print(sequences_text(s.header, all));
  std::vector<std::string> unread;
  for (const WarningFile& warned : read_warnings(dir, &unread))
    print("statistical warning, no finding: " + printable(warned.r.message) +
          "\n  replay: " + replay_line(warned.file, warned.r.kernel, warned.r.peer) + "\n");
  if (s.seeded_bugs.empty()) emit("no seeded bug was run: nothing shows that this campaign finds bugs\n");
  emit("{}\n", dir);
}

}  // namespace attnfuzz
