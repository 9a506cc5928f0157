// The likely class of a fault: what a person who has seen many attention bugs
// would guess from what failed, how the error looks and what the reduced case
// still needs.
//
// The classes are those that publicly reported bugs fall into. A guess is a
// guess: it comes with its reason, with what else it could be, and with where
// in a kernel to look; where nothing stands out it says so.
//
//   const FaultGuess guess = guess_fault(c, verdict, needs, "plain");
//   puts(guess.text().c_str());
//     -> "likely masked or empty softmax: a query sees no key of a tile; ..."
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "properties/case/case.h"
#include "properties/judge/verdict.h"

namespace attnfuzz {

enum class FaultClass {
  kUnknown,
  kSoftmax,     // masked, empty or not rescaled: exp(-inf - -inf), a finite stand-in for -inf
  kZeroLength,  // no query, no key, an empty split
  kTail,        // the last, partial tile; memory outside a tensor
  kOverflow,    // an index or a grid beyond 15, 16 or 31 bits
  kLayout,      // a stride, an offset, an alignment
  kMask,        // what causal, a window, a length, a mask or a bias means
  kRace,        // a barrier, a fence, a wait
  kDispatch,    // grouped heads, head dims, the choice of an instantiation
  kSplit,       // the combination of splits, the LSE
  kNumerics,    // overflow of a format, a constant, a function's range
  kState,       // what a call leaves behind: workspace, caches
};
inline constexpr int kFaultClasses = 12;
const char* to_string(FaultClass fault);  // "masked or empty softmax"
const char* where_to_look(FaultClass fault);

struct FaultGuess {
  FaultClass likely = FaultClass::kUnknown;
  std::string why;               // one line
  std::vector<FaultClass> also;  // nearly as likely
  // "likely X: why; could also be Y"
  std::string line() const;
  // The same, and where to look, a line each.
  std::string text() const;
};

// `needs`: what reduction found (Reduction::needs), "needs seq_k >= 65"; empty if
// the case was not reduced: then all its features count, for less. `lane`: of
// the kernel that failed.
FaultGuess guess_fault(const Case& c, const Verdict& verdict, std::span<const std::string> needs,
                       std::string_view lane);

}  // namespace attnfuzz
