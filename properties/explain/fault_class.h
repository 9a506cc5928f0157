// The likely class of a fault: what a person who has seen many attention bugs
// would guess from what failed, how the error looks and what the reduced case
// still needs.
//
// The classes are those that publicly reported bugs fall into. A guess is the
// first of a table of rules that holds (fault_rules.cc), and comes with that
// rule's reason; where none holds there is no guess, and nothing is said.
//
//   const FaultGuess guess = guess_fault({c, verdict, needs, "plain"});
//   puts(guess.text().c_str());
//     -> "likely masked, empty or unscaled softmax: NaN or infinity, and a query sees no key of a tile"
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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
  kMask,        // what causal, a window, a length, a mask or a bias means
  kRace,        // a barrier, a fence, a wait
  kDispatch,    // grouped heads, head dims, the choice of an instantiation
  kSplit,       // the combination of splits, the LSE
  kNumerics,    // overflow of a format, a constant, a function's range
  kState,       // what a call leaves behind: workspace, caches
};
inline constexpr int kFaultClasses = 12;
const char* to_string(FaultClass fault);  // "masked, empty or unscaled softmax"
const char* id_of(FaultClass fault);      // "softmax": in JSON, and in the heads of known bugs
const char* where_to_look(FaultClass fault);

struct FaultGuess {
  FaultClass likely = FaultClass::kUnknown;
  std::string why;                         // one line
  FaultClass also = FaultClass::kUnknown;  // the next rule's that holds, if it is of another class
  bool known() const { return likely != FaultClass::kUnknown; }
  std::string line() const;  // "likely X: why; could also be Y"; empty if nothing is known
  std::string text() const;  // the same, and where to look, a line each
};

// What more runs of the case tell (clues.h).
struct Clues {
  enum class Answer : uint8_t { kNotAsked, kFails, kPasses };
  enum class Probed : uint8_t { kNot, kAllRight, kFirstWrong };

  FaultClass traced = FaultClass::kUnknown;  // what the one reading that explains all wrong values says
  std::string traced_as = {};                // that reading, or several of its class, in words
  // The kernel's intermediates, where it records them.
  Probed probed = Probed::kNot;
  attn_probe_tag first_wrong = ATTN_PROBE_ROWS;  // of kFirstWrong
  int64_t first_wrong_tile = 0;                  // counted from the first that was recorded
  double off = 0;  // |got - expected| / |expected|; infinity for what is no number
  // With so many keys that the last tile is full; with another number of keys that leaves it partly filled;
  // with so many queries that their last tile is full.
  Answer whole_tiles = Answer::kNotAsked, other_tail = Answer::kNotAsked, whole_rows = Answer::kNotAsked;
  // Of splits some of which have no key: with keys for each.
  Answer full_splits = Answer::kNotAsked;
  // Number of elements of K or V: half the head dim moves the border in keys to twice as many. 0: not so.
  int64_t product_border = 0;
  // With head dims that are multiples of 8, and with none.
  Answer whole_vectors = Answer::kNotAsked, broken_vectors = Answer::kNotAsked;
  // Of a failure that the executor's own order of threads shows, each time: random orders that were tried, and
  // those that failed too.
  int orders = 0, orders_failed = 0;
  // What failed, where that is another case than the minimal one, in a fresh worker with nothing run before it.
  Answer alone = Answer::kNotAsked;
  // With a workspace of zeros; with bias and mask stored for every batch entry, head and query.
  Answer zeroed = Answer::kNotAsked, stored_whole = Answer::kNotAsked;
  // What the kernel says that it takes: a need for the least of a size is no need.
  std::optional<attn_domain> domain = {};
};

// What a guess is made from. All must outlive the call.
struct FaultQuestion {
  const Case& c;  // the reduced case, or the failing one
  const Verdict& verdict;
  std::span<const Need> needs;      // empty if the case was not reduced: then all it has counts
  std::string_view lane = "plain";  // of the kernel that failed
  Clues clues = {};
};
FaultGuess guess_fault(const FaultQuestion& question);

}  // namespace attnfuzz
