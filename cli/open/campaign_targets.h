// The targets of a campaign: each kernel on each back end and in each build, and a seeded bug for each back end
// and build, which the campaign must find there.
#pragma once

#include <string>
#include <vector>

#include "cli/options/options.h"
#include "fuzz/campaign/run/campaign.h"

namespace attnfuzz {

struct CampaignScope {
  std::vector<std::string> kernels, backends = {"cpu"}, build_kinds = {"plain"}, properties;
  TargetOptions target;
  bool no_seeded_bug = false;
  bool sequences = false;  // explore sequences of calls too, on targets that can have them
};

// `finite`: Q, K and V hold neither NaN nor infinity. Throws UserError if a kernel cannot be opened
// or is stale, if two targets would have the same name, or if no property is left for a target.
std::vector<CampaignTarget> targets_of(const CampaignScope& scope, bool finite);

// For --sequences, once the ledger's quarantine is known: throws UserError unless some target has sequences of
// calls.
void expect_sequences(const std::vector<CampaignTarget>& targets);

}  // namespace attnfuzz
