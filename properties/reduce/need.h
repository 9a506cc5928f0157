// One part of a minimal case that a failure needs, and in what way.
//
// A need is data. Triage asks whether another case has it too (fuzz/campaign/triage/explained.h), fault
// rules ask what kind of bug needs such a part (explain/fault_rules.cc), and reproducers store it.
// Its text is for people; nothing parses it.
//
//   {.part = "seq_k", .relation = Relation::kAtLeast, .value = 65, .text = "seq_k >= 65"}
//   {.part = "mask", .relation = Relation::kAsItIs, .text = "mask: only the first key"}
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"

namespace attnfuzz {

enum class Relation : uint8_t {
  kAsItIs,     // the part as the minimal case has it
  kAtLeast,    // the value or more
  kExactly,    // the value and no other that was tried
  kRemainder,  // the same remainder modulo period, and at least `least`
  kOtherThan,  // all values that were tried, except those that `text` names
};
const char* to_string(Relation relation);  // "as it is", "at least", "exactly", "remainder", "other than"

struct Need {
  // The name of an integer or a toggle (case/features/shrink_toggles.h) or another part (Alternatives); or
  // "calls", "values of q", "values of k", "values of v".
  std::string part;
  Relation relation = Relation::kAsItIs;
  int64_t value = 0;      // in the minimal case, if the part is a number
  int64_t period = 0;     // for kRemainder; 2 is "even" or "odd"
  int64_t least = 0;      // with kRemainder and kOtherThan; 0: any
  bool refused = false;   // without it the kernel refuses the case, which says nothing about the failure
  std::string text = {};  // "seq_k >= 65"
  bool operator==(const Need&) const = default;
};

// "needs seq_k >= 65"
std::string line_of(const Need& need);
std::vector<std::string> lines_of(const std::vector<Need>& needs);

// One JSON object for each need. A line of text from an earlier version becomes a need without a part.
// Reading throws Json::exception for a field of the wrong type, and std::invalid_argument for an unknown
// relation.
void to_json(Json& json, const Need& need);
void from_json(const Json& json, Need& need);

}  // namespace attnfuzz
