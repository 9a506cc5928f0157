// A finding as the text of an issue, in Markdown: what happens, the smallest case, what it needs and what
// does not matter, the build and machine, and the line that replays it. The reader has the reproducer file,
// too.
#pragma once

#include <string>

#include "fuzz/campaign/store/archive.h"
#include "properties/reduce/reproducer.h"

namespace attnfuzz {

struct IssueContext {
  const CampaignHeader& header;  // the machine of its last session is named
  const TargetRecord& target;
  std::string trace;  // file of the cases that must run before it; empty: none
};

// The parts that do not depend on what fails: how often it failed, and the table of the machine and the build.
std::string how_often(const Finding& finding);
std::string where_text(const Finding& finding, const Reproducer& reproducer, const IssueContext& context);

std::string issue_text(const Finding& finding, const Reproducer& reproducer, const IssueContext& context);

}  // namespace attnfuzz
