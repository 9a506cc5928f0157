// A statistical warning in words: all elements are within their bounds, but the errors are unlikely for
// random rounding (reference/warnings/error_statistics.h). It is no verdict; the case has passed. The warning
// is printed, counted, and written to a file that shows it again.
//
//   if (auto w = statistical_warning(c, plan, reference, outputs)) puts(w->message.c_str());
//     // "errors of O are 2.3 times what random rounding gives; only query tile 0"
#pragma once

#include <optional>
#include <string>

#include "properties/case/case.h"
#include "properties/operations/operation.h"
#include "reference/oracle.h"

namespace attnfuzz {

// The kind of files that show a warning.
inline constexpr const char* kWarningKind = "suspicious";

struct StatisticalWarning {
  std::string sign;     // "size", "row", "bias" or "lse": the largest entry of ErrorStatistics
  std::string message;  // one line for people
  Case c;               // the case that shows it, by the property `reference`
};

std::optional<StatisticalWarning> statistical_warning(const Case& c, const attn_plan& plan,
                                                      const Reference& reference, const Outputs& outputs);

}  // namespace attnfuzz
