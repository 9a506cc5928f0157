// What the triage of a failing case and that of a failing sequence of calls have in common: a crash, the worker that
// runs it again, and the finding that it becomes.
#pragma once

#include <filesystem>
#include <functional>
#include <stdexcept>

#include "fuzz/campaign/store/finding_list.h"
#include "fuzz/campaign/store/session_clock.h"
#include "fuzz/campaign/triage/crash_in_hand.h"
#include "fuzz/campaign/triage/finding_files.h"
#include "fuzz/campaign/triage/triage.h"

namespace attnfuzz {

class FiledCrash {
 public:
  FiledCrash(const Triage& t, const CampaignTarget& target, const Crash& crash)
      : t_(t),
        target_(target),
        crash_(crash),
        folder_(t.options.dir + "/crashing/" + crash.id),
        finding_(finding_of(crash)) {}

 protected:
  void save(const std::function<void()>& write) {
    persist(t_.waits, [&] { return t_.shared.finish.load(); }, write);
  }

  void open() {
    std::string error;
    worker_ = target_.open(&error);
    if (worker_ == nullptr) throw std::runtime_error(error);
  }

  void tolerate() {
    if (const KnownFailure* known = tolerated(t_.options.ledger, finding_.key, finding_.name))
      finding_.tolerated = known->reason;
  }

  // Enters the finding in its list. Its files are written before the list that names it. The files of findings that
  // it replaces are removed from `folder`.
  void enter_finding(const std::string& folder, const std::function<void()>& write_files) {
    FindingsFile all = read_findings(t_.options.dir);
    auto& list = finding_.repeats == Repeats::kNever ? all.never_again : all.findings;
    if (enter(list, finding_)) write_files();
    absorb(list, finding_.key, replaced_);
    // Ids whose folders are gone are no longer needed.
    for (Finding& f : list)
      std::erase_if(f.crashes, [&](const std::string& id) {
        return !std::filesystem::exists(t_.options.dir + "/crashing/" + id);
      });
    save([&] { write_findings(t_.options.dir, all); });
    for (const std::string& name : replaced_) {
      if (name != finding_.name) remove_files(folder, name);
    }
  }

  void remove() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  const Triage& t_;
  const CampaignTarget& target_;
  const Crash& crash_;
  const std::string folder_;
  std::unique_ptr<Target> worker_;
  Finding finding_;
  std::vector<std::string> replaced_;  // names of findings that this one explains
};

}  // namespace attnfuzz
