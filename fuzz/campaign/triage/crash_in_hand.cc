#include "fuzz/campaign/triage/crash_in_hand.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/files.h"
#include "fuzz/campaign/store/finding_list.h"
#include "fuzz/campaign/triage/files/finding_files.h"

namespace attnfuzz {
namespace {

namespace fs = std::filesystem;

constexpr int kMostExits = 2;  // then the crash is given up
constexpr const char *kInHand = "/in_hand", *kAttempts = "/attempts";

}  // namespace

int exits_of_triage(const std::string& crash_folder) {
  const auto text = read_file(crash_folder + kAttempts);
  const auto* n = std::get_if<std::string>(&text);
  return n ? std::atoi(n->c_str()) : 0;
}

bool ends_triage(const std::string& crash_folder) { return exits_of_triage(crash_folder) >= kMostExits; }

void take_in_hand(const std::string& crash_folder) { write_file(crash_folder + kInHand, "\n"); }

void release_crashes(const std::string& dir, bool counts) {
  std::error_code error;
  for (const auto& folder : fs::directory_iterator(dir + "/crashing", error)) {
    const std::string crash = folder.path().string();
    if (!fs::exists(crash + kInHand, error)) continue;
    if (counts) write_file(crash + kAttempts, std::to_string(exits_of_triage(crash) + 1) + "\n");
    fs::remove(crash + kInHand, error);
  }
}

bool is_counted(const std::string& dir, const Crash& crash) {
  const FindingsFile all = read_findings(dir);
  const auto has = [&](const Finding& f) { return std::ranges::find(f.crashes, crash.id) != f.crashes.end(); };
  return std::ranges::any_of(all.findings, has) || std::ranges::any_of(all.never_again, has);
}

void save(const Triage& t, const std::function<void()>& write) {
  persist(t.waits, [&] { return t.shared.finish.load(); }, write);
}

bool count_at_known_site(const Triage& t, const Crash& crash, const Finding& finding) {
  FindingsFile all = read_findings(t.options.dir);
  Finding* known = found_at(all.findings, crash);
  if (known == nullptr) return false;
  count_together(*known, finding);
  save(t, [&] { write_findings(t.options.dir, all); });
  return true;
}

Finding finding_of(const Crash& crash) {
  Finding finding;
  finding.target = crash.target;
  finding.property = crash.property;
  finding.kind = crash.kind;
  finding.message = crash.message;
  finding.t = crash.t;
  finding.count = 1;
  finding.crashes = {crash.id};
  return finding;
}

void enter_finding(const Triage& t, Finding& finding, const std::vector<std::string>& replaced,
                   const std::function<void(const std::string& folder)>& write_files) {
  const std::string& dir = t.options.dir;
  FindingsFile all = read_findings(dir);
  const bool never = finding.repeats == Repeats::kNever;
  auto& list = never ? all.never_again : all.findings;
  if (enter(list, finding)) write_files(dir + (never ? "/never_again" : "/findings"));
  absorb(list, finding.key, replaced);
  // Ids whose folders are gone are no longer needed.
  for (Finding& f : list)
    std::erase_if(f.crashes, [&](const std::string& id) { return !fs::exists(dir + "/crashing/" + id); });
  save(t, [&] { write_findings(dir, all); });
  for (const std::string& name : replaced) {
    if (name != finding.name) remove_files(dir + "/findings", name);
  }
}

}  // namespace attnfuzz
