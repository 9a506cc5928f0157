// The ledger lists known failures, each with its reason, so that a night's report shows what is new.
//
//   {"format": 1, "known": [
//     {"mode": "tolerated", "key": "fa1|wrong|plain|...", "reason": "issue 12: P rounded twice",
//      "reproducer": "fa1-wrong-1a2b3c.attn.json"},
//     {"mode": "quarantined", "kernel": "splitk", "lane": "tsan", "features": ["splits", "window"],
//      "reason": "issue 14: takes the machine down"}]}
//
// A *tolerated* failure is searched for like any other, and reported as known. It hides no other failure, so
// each of its failures is reduced (triage.h); if too many are dropped instead, the campaign does not pass. Its
// key is the dedupe key of the reduced case, or the name of its finding. If it has a reproducer (a path beside
// the ledger), that is run at the beginning of each session (recheck.h); if it passes, a report says that its
// entry should be removed. A *quarantined* case has all the named features (generator.h). It is never launched,
// only counted.
#pragma once

#include <string>
#include <vector>

#include "properties/case/case.h"

namespace attnfuzz {

struct KnownFailure {
  bool quarantined = false;
  std::string reason;
  std::string key, reproducer;  // of a tolerated failure; the path is relative to the ledger's folder
  std::string kernel, backend, build_kind;  // of a quarantined case; empty: any
  std::vector<std::string> features;
};

struct Ledger {
  std::vector<KnownFailure> known;
};

// The names that an entry may use; empty: any.
struct LedgerNames {
  std::vector<std::string> kernels, build_kinds;  // a plug-in is named by its file
};
// Throws std::runtime_error that names the file, the entry and the fault. Without this check, an
// entry with a misspelt name would have no effect.
Ledger read_ledger(const std::string& path, const LedgerNames& names = {});
Ledger parse_ledger(const std::string& text, const std::string& path, const LedgerNames& names);

// The entry, or nullptr.
const KnownFailure* tolerated(const Ledger& ledger, const std::string& key, const std::string& name);

struct WhereRun {
  std::string kernel, backend, build_kind;
  int64_t tile_q = 64, tile_k = 64;
};
const KnownFailure* quarantined(const Ledger& ledger, const Case& c, const WhereRun& where);
// The entry that quarantines cases of this kernel, whatever their features; nullptr if there is none. A
// sequence of calls has no features, so it is not launched if there is one.
const KnownFailure* quarantines_some(const Ledger& ledger, const std::string& kernel,
                                     const std::string& backend, const std::string& build_kind);

}  // namespace attnfuzz
