// What is within its bounds and odd all the same (reference/advice/advice.h), in words. It is no verdict: a
// case that passed has passed. It is printed, counted, and written as a file that shows it again.
//
//   if (auto s = suspect(c, plan, reference, outputs)) puts(s->message.c_str());
//     // "errors of O are 2.3 times what roundings at random come to; only query tile 0"
#pragma once

#include <optional>
#include <string>

#include "properties/case/case.h"
#include "properties/judge/operation.h"
#include "reference/oracle.h"

namespace attnfuzz {

// The kind of the files that show one.
inline constexpr const char* kSuspicious = "suspicious";

struct Suspicion {
  std::string sign;     // "size", "row", "bias" or "lse": the largest of Advice
  std::string message;  // one line for a person
  Case c;               // that shows it, by the property `reference`
};

std::optional<Suspicion> suspect(const Case& c, const attn_plan& plan, const Reference& reference,
                                 const Outputs& outputs);

}  // namespace attnfuzz
