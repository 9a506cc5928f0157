// A session: calls that a serving engine makes one after another on one paged cache.
//
// Some bugs show only across calls: a page that two sequences share is written without a copy, a plan is kept
// for a table that has changed, a length is not lowered. A session holds all that is needed to run its calls
// again: the sizes of the cache (Setup), and the steps. Page numbers derive from Setup::order and the steps,
// and each key and value derives from the number of its token.
//
//   Session s;
//   s.steps = {{.verb = Verb::kNew, .entries = {0}},
//              {.verb = Verb::kAppend, .entries = {0}, .count = 3, .token = 100},
//              {.verb = Verb::kAttend, .entries = {0}, .count = 1}};
//
// Model (model.h) says which pages and slots the steps use, run.h runs them, and codec.h reads and writes
// files.
#pragma once

#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "kernels/attention.h"

namespace attnfuzz::sequences {

// The content of a row of the block table behind the pages of its sequence.
enum class Tail : uint8_t {
  kFirst,     // 0
  kMinusOne,  // -1
  kLargest,   // 2^31 - 1
  kStale,     // pages that were there earlier, or -1 if there were none
};
inline constexpr const char* kTailNames[] = {"first", "minus_one", "largest", "stale"};

// The content of the workspace before a call.
enum class Workspace : uint8_t {
  kKept,  // the content that earlier calls left there
  kNan,   // NaN
  kZero,  // zeros
};
inline constexpr const char* kWorkspaceNames[] = {"kept", "nan", "zero"};

struct Setup {
  int32_t dtype = ATTN_F16;  // ATTN_F16 or ATTN_BF16
  int64_t heads_q = 1, heads_kv = 1, dim_qk = 1, dim_v = 1;
  int64_t page_size = 1;
  int64_t pages = 1;     // of K and of V
  int64_t capacity = 1;  // keys of a sequence
  int64_t beyond = 0;    // extra entries of each row of the block table, beyond those that the capacity needs
  int32_t index_dtype = ATTN_INDEX_64;
  bool slots_first = false;  // in memory a page is (slot, head, column); else (head, slot, column)
  uint64_t order = 0;        // 0: the lowest free page is taken; else a random free page, seeded by this number
  Tail tail = Tail::kFirst;
  Workspace workspace = Workspace::kNan;
  bool operator==(const Setup&) const = default;

  int64_t pages_per_entry() const { return (capacity + page_size - 1) / page_size; }
  int64_t columns_of_table() const { return pages_per_entry() + beyond; }
};

enum class Verb : uint8_t {
  kNew,       // entries[0] begins, empty
  kAppend,    // `count` new tokens for each entry; tokens beyond the capacity are dropped
  kAttend,    // the last `count` positions of each entry attend, causal; an entry that is not live has no key
  kFork,      // entries[1] begins with the tokens of entries[0], in the same pages
  kTruncate,  // entries[0] keeps its first `count` tokens
  kFree,      // entries[0] ends
  kMove,      // page `count` of entries[0] moves to a free page
  kReplay,    // makes the call of step `count` again, with its plan and the current contents
};
inline constexpr const char* kVerbNames[] = {"new",      "append", "attend", "fork",
                                             "truncate", "free",   "move",   "replay"};

inline constexpr int64_t kMostEntries = 8;  // the most sequences of a session, numbered from 0
inline constexpr int64_t kTokensOfEntry =
    4096;  // distance of the first tokens of two successive entries of a step
inline constexpr int64_t kMostKernels = 64;
inline constexpr int64_t kMostRows = 1024;  // of an entry in an append or an attend
inline constexpr size_t kMostSteps = 1024;  // of a session
inline constexpr int64_t kMostTokens = int64_t{1} << 40;

struct Step {
  Verb verb = Verb::kNew;
  std::vector<int64_t> entries = {};
  int64_t count = 0;
  // For an append, an attend or a replay of these: new row i, or query i, of the e-th entry has the number
  // token + 4096 e + i.
  int64_t token = 0;
  int64_t kernel = 0;  // which of the kernels that can make the call, modulo their number
  int64_t stream = 0;  // 0 or 1
  // For an append or an attend with packed rows: how many rows each entry has, possibly 0; `count` is then 0.
  // Empty: each entry has `count` rows.
  std::vector<int64_t> counts = {};
  // For an attend in two calls: how many pages of each entry the first call takes. The second call takes all
  // others, and a merge combines the results. If some query of an entry does not see so many pages, the first
  // call takes fewer pages of that entry. 0: one call.
  int64_t split = 0;

  int64_t rows(size_t e) const { return counts.empty() ? count : counts[e]; }
  bool operator==(const Step&) const = default;
};

// A relation makes a second session from a session. Each attend of both must give the same bits (relations.h).
enum class Relation : uint8_t {
  kNone,
  kRenumbered,  // pages have other numbers
  kSplit,       // an append becomes two appends of its parts
  kFresh,       // a replay becomes a call with its own plan
  kUnshared,    // a fork becomes a new sequence with the same tokens
  kRefilled,    // a truncated sequence becomes a new one with the tokens that it keeps
  kDecoded,     // an attend of several queries of one sequence becomes two: the last queries attend after the
                // others
};
inline constexpr const char* kRelationNames[] = {"none",     "renumbered", "split",  "fresh",
                                                 "unshared", "refilled",   "decoded"};
inline constexpr int64_t kRelations = std::size(kRelationNames);

struct Session {
  Setup setup;
  std::vector<Step> steps;
  Relation relation = Relation::kNone;
  bool operator==(const Session&) const = default;
};

// Sessions that run one after another in the same process of each library, each with its own cache. Only the
// last one is judged. The earlier ones matter only for the state that they leave in the libraries.
struct Chain {
  Session last;
  std::vector<Session> before;
  bool operator==(const Chain&) const = default;
};

// "append 3 tokens to s0", without a full stop.
std::string describe(const Step& step);
// "8 pages of 16 keys, capacity 40, heads 4/2, D=64/64 f16"
std::string describe(const Setup& setup);

}  // namespace attnfuzz::sequences
