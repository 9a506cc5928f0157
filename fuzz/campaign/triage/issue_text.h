// A finding as the text of an issue, in Markdown: what happens, the smallest case,
// what it needs and what does not matter, on which build and machine, and the line
// that replays it. For a person who has the reproducer file beside it.
#pragma once

#include <string>

#include "fuzz/campaign/store/archive.h"
#include "properties/reduce/reproducer.h"

namespace attnfuzz {

struct IssueContext {
  const CampaignHeader& header;  // its last session's machine is named
  const TargetRecord& target;
  std::string trace;  // file of the cases that must run before it; empty if none need to
};

std::string issue_text(const Finding& finding, const Reproducer& reproducer, const IssueContext& context);

}  // namespace attnfuzz
