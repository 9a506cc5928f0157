// Runs a case with a probe, and checks what it recorded.
//
//   ProbedCase probed = probe_case(*verdict.failing, target, {}, verdict.where);
//   if (!probed.why_not.empty()) die(probed.why_not);
//   puts(probed.checked.first_wrong->words.c_str());
#pragma once

#include <optional>
#include <string>

#include "properties/explain/probe_check.h"
#include "properties/judge/target/target.h"
#include "properties/judge/verdict.h"

namespace attnfuzz {

struct ProbedCase {
  std::string why_not;  // empty: the case ran, and something was recorded
  attn_plan plan = {};
  ProbeRequest at;
  int call = 0;
  ProbedWarp warp;
  CheckedProbe checked;
  std::string ended;  // how the run ended, if badly
};

// Probes block and warp `at`. Without `at`, it asks blocks which rows they have until it finds the query
// `where` (the first query, if `where` is not given). If several blocks have the query, as with splits, it
// takes the first with a wrong intermediate. It makes the calls of the case in order until one goes wrong.
ProbedCase probe_case(const Case& c, Target& target, const std::optional<ProbeRequest>& at,
                      const std::optional<Where>& where);

}  // namespace attnfuzz
