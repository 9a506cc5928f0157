// Guesses the likely class of a fault from the failure, the shape of the error, and what the reduced case
// needs.
//
// The classes are those of publicly reported bugs. A guess is the first rule that holds in a table
// (fault_rules.cc), with that rule's reason. If no rule holds, there is no guess.
//
//   const FaultGuess guess = guess_fault({c, verdict, needs, "plain"});
//   puts(guess.text().c_str());
//     -> "likely masked, empty or unscaled softmax: NaN or infinity, and a query sees no key of a tile"
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "properties/case/case.h"
#include "properties/judge/verdict.h"
#include "properties/reduce/need.h"

namespace attnfuzz {

enum class FaultClass : uint8_t {
  kUnknown,
  kSoftmax,     // masked, empty or not rescaled: exp(-inf - -inf), a finite stand-in for -inf
  kZeroLength,  // no query, no key, an empty split
  kTail,        // the last, partial tile; memory outside a tensor
  kOverflow,    // an index or a grid beyond 15, 16 or 31 bits
  kLayout,      // a stride, an offset, an alignment
  kMask,        // the meaning of causal, a window, a length, a mask or a bias
  kRace,        // a barrier, a fence, a wait
  kDispatch,    // grouped heads, head dims, the choice of an instantiation
  kSplit,       // the merge of splits, the LSE
  kNumerics,    // overflow of a format, a constant, a function's range
  kState,       // state that a call leaves behind: workspace, caches
};
inline constexpr int kFaultClasses = 12;
const char* to_string(FaultClass fault);  // "masked, empty or unscaled softmax"
const char* id_of(FaultClass fault);      // "softmax": in JSON, and in the heads of known bugs
const char* where_to_look(FaultClass fault);

struct FaultGuess {
  FaultClass likely = FaultClass::kUnknown;
  std::string why;                         // one line
  FaultClass also = FaultClass::kUnknown;  // the class of the next rule that holds, if it differs
  bool known() const { return likely != FaultClass::kUnknown; }
  std::string line() const;  // "likely X: why; could also be Y"; empty if nothing is known
  std::string text() const;  // line(), and where to look, each on its own line
};

// Answers of further runs of the case (clues.h).
struct Clues {
  enum class Answer : uint8_t { kNotAsked, kFails, kPasses };
  enum class Probed : uint8_t { kNot, kAllRight, kFirstWrong };

  FaultClass traced = FaultClass::kUnknown;  // the class of the only reading that explains all wrong values
  std::string traced_as = {};                // that reading, or several of its class, in words
  // The kernel's intermediates, if it records them.
  Probed probed = Probed::kNot;
  attn_probe_tag first_wrong = ATTN_PROBE_ROWS;  // for kFirstWrong
  int64_t first_wrong_tile = 0;                  // counted from the first recorded tile
  double off = 0;  // |got - expected| / |expected|; infinity if `got` is NaN or infinite
  // The outcome with a full last tile of keys; with another partial one; and with a full last tile of queries.
  Answer whole_tiles = Answer::kNotAsked, other_tail = Answer::kNotAsked, whole_rows = Answer::kNotAsked;
  // If some splits have no key: the outcome with keys in each split.
  Answer full_splits = Answer::kNotAsked;
  // If halving the head dimension doubles the number of keys at which the failure starts: the number of elements of K
  // or V there. Otherwise 0.
  int64_t product_border = 0;
  // The outcome with head dimensions that are multiples of 8, and with others.
  Answer whole_vectors = Answer::kNotAsked, broken_vectors = Answer::kNotAsked;
  // For a failure that the executor's fixed thread order always shows: the number of random orders that were
  // tried, and how many of them failed.
  int orders = 0, orders_failed = 0;
  // If the failing case is not the minimal one: its outcome in a fresh worker that ran nothing before.
  Answer alone = Answer::kNotAsked;
  // The outcome with a workspace of zeros; and with bias and mask stored for every batch entry, head and query.
  Answer zeroed = Answer::kNotAsked, stored_whole = Answer::kNotAsked;
  // The kernel's declared domain. If the failure needs a size that is the smallest of the domain, that need says
  // nothing.
  std::optional<attn_domain> domain = {};
};

// The input of a guess. All references must outlive the call.
struct FaultQuestion {
  const Case& c;  // the reduced case, or the failing one
  const Verdict& verdict;
  std::span<const Need> needs;      // empty if the case was not reduced: then every feature of the case counts
  std::string_view build_kind = "plain";  // of the kernel that failed
  Clues clues = {};
};
FaultGuess guess_fault(const FaultQuestion& question);

}  // namespace attnfuzz
