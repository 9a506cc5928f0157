// Runs a case with a probe on, and looks at what it recorded.
//
//   ProbedCase probed = probe_case(*verdict.failing, target, {}, verdict.where);
//   if (!probed.why_not.empty()) die(probed.why_not);
//   puts(probed.checked.first_wrong->words.c_str());
#pragma once

#include <optional>
#include <string>

#include "properties/explain/probe_check.h"
#include "properties/judge/target.h"
#include "properties/judge/verdict.h"

namespace attnfuzz {

struct ProbedCase {
  std::string why_not;  // empty: it ran, and something was recorded
  attn_plan plan = {};
  ProbeRequest at;
  int call = 0;
  ProbedWarp warp;
  CheckedProbe checked;
  std::string ended;  // how the run ended, if not well
};

// Probes block and warp `at`. Nothing given: those that compute query `where`
// (of the first, if there is none), looked for by asking blocks which rows they
// have; of several that do, as with splits, the first whose intermediates are
// wrong. Calls of the case follow one another until one goes wrong.
ProbedCase probe_case(const Case& c, Target& target, const std::optional<ProbeRequest>& at,
                      const std::optional<Where>& where);

}  // namespace attnfuzz
