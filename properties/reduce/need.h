// What a failure hangs on: one part of a minimal case, and in what way.
//
// A need is data. It is read by whoever asks whether another case has it too
// (fuzz/campaign/triage/explained.h) or what kind of bug wants such a thing
// (explain/fault_rules.h), and it is kept in reproducers. Its text is for people,
// and nothing reads it.
//
//   {.part = "seq_k", .relation = Relation::kAtLeast, .value = 65, .text = "seq_k >= 65"}
//   {.part = "mask", .relation = Relation::kAsItIs, .text = "mask: only the first key"}
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace attnfuzz {

enum class Relation : uint8_t {
  kAsItIs,     // the part as the minimal case has it
  kAtLeast,    // value or more
  kExactly,    // value and no other that was tried
  kRemainder,  // as value modulo period, and at least `least`
  kOtherThan,  // most values, but for some
};
const char* to_string(Relation relation);  // "as it is", "at least", "exactly", "remainder", "other than"

struct Need {
  std::string part;  // the name of a dial, a switch (switches.h) or another part (Others); or
                     // "calls", "values of q", "values of k", "values of v"
  Relation relation = Relation::kAsItIs;
  int64_t value = 0;      // of the minimal case, where the part is a number
  int64_t period = 0;     // of kRemainder; 2 is "even" or "odd"
  int64_t least = 0;      // beside kRemainder and kOtherThan; 0: any
  bool refused = false;   // without it the kernel refuses the case, which says nothing of the failure
  std::string text = {};  // "seq_k >= 65"
  bool operator==(const Need&) const = default;
};

// "needs seq_k >= 65"
std::string line_of(const Need& need);
std::vector<std::string> lines_of(const std::vector<Need>& needs);

// One JSON object a need; an earlier version's line of text becomes a need without a part. Reading throws
// Json::exception on a field of the wrong type, std::invalid_argument on a relation unknown here.
void to_json(Json& json, const Need& need);
void from_json(const Json& json, Need& need);

}  // namespace attnfuzz
