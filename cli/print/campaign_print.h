// Prints a campaign for a person: while it runs, and at its end.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "fuzz/campaign/run/campaign.h"
#include "fuzz/report/report.h"

namespace attnfuzz {

// One line. What matters most comes first: a narrow terminal cuts the end off.
std::string status_of(const CampaignState& s);

// An event in words; empty if the summary at the end says the same.
std::string words_of(const Json& e, const std::vector<CampaignTarget>& targets);

// Says for each target what was done with sequences of calls. Empty if the campaign was not asked for any.
std::string sequences_text(const CampaignHeader& header, const std::map<std::string, TargetStats>& stats);

// The end of the campaign in the folder `dir`, to standard output.
void print_end(const CampaignSummary& s, const std::string& dir);

// Reads a campaign's folder. Prints on stderr which parts cannot be read and what was not judged.
report::Report read_and_tell(const std::string& dir);

}  // namespace attnfuzz
