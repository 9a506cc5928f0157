// A session: calls that a serving engine makes one after another on one paged cache.
//
// Some bugs show only between calls: a page that two sequences share is written without a copy, a plan is kept for a
// table that has changed, a length is not lowered. A session holds all that is needed to run its calls again: the
// sizes of the cache (Setup), and the steps. Page numbers follow from Setup::order and the steps,
// and every key and value from the number of its token.
//
//   Session s;
//   s.steps = {{.verb = Verb::kNew, .entries = {0}},
//              {.verb = Verb::kAppend, .entries = {0}, .count = 3, .token = 100},
//              {.verb = Verb::kAttend, .entries = {0}, .count = 1}};
//
// Model (model.h) says which pages and slots the steps use, run.h runs them, and codec.h reads and writes files.
#pragma once

#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "kernels/attention.h"

namespace attnfuzz::sequences {

// The entries of a row of the block table behind the pages of its sequence.
enum class Tail : uint8_t {
  kFirst,     // 0
  kMinusOne,  // -1
  kLargest,   // 2^31 - 1
  kStale,     // the pages that were there before, else -1
};
inline constexpr const char* kTailNames[] = {"first", "minus_one", "largest", "stale"};

// The content of the workspace before a call.
enum class Workspace : uint8_t {
  kKept,  // what the calls before have left there
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
  int64_t beyond = 0;    // entries of each row of the block table beyond those that the capacity needs
  int32_t index_dtype = ATTN_INDEX_64;
  bool slots_first = false;  // in memory a page is (slot, head, column); else (head, slot, column)
  uint64_t order = 0;        // 0: the lowest free page is taken; else one at random
  Tail tail = Tail::kFirst;
  Workspace workspace = Workspace::kNan;
  bool operator==(const Setup&) const = default;

  int64_t pages_per_entry() const { return (capacity + page_size - 1) / page_size; }
  int64_t columns_of_table() const { return pages_per_entry() + beyond; }
};

enum class Verb : uint8_t {
  kNew,       // entries[0] begins, empty
  kAppend,    // `count` new tokens for each entry, those beyond its capacity dropped
  kAttend,    // the last `count` positions of each entry attend, causal; an entry that is not there has no key
  kFork,      // entries[1] begins with the tokens of entries[0], in the same pages
  kTruncate,  // entries[0] keeps its first `count` tokens
  kFree,      // entries[0] ends
  kMove,      // page `count` of entries[0] moves to a free page
  kReplay,    // the call of step `count` again: its plan, today's contents
};
inline constexpr const char* kVerbNames[] = {"new", "append", "attend", "fork", "truncate", "free", "move", "replay"};

inline constexpr int64_t kMostEntries = 8;       // sequences of a session; their numbers are below
inline constexpr int64_t kTokensOfEntry = 4096;  // from the first token of an entry to that of the next
inline constexpr int64_t kMostKernels = 64;
inline constexpr int64_t kMostTokens = int64_t{1} << 40;

struct Step {
  Verb verb = Verb::kNew;
  std::vector<int64_t> entries = {};
  int64_t count = 0;
  // Of an append or an attend, also of one that is replayed: new row i, or query i, of the e-th entry has the number
  // token + 4096 e + i.
  int64_t token = 0;
  int64_t kernel = 0;  // of several kernels that could make the call, counted modulo their number
  int64_t stream = 0;  // 0 or 1
  // Of an append or an attend whose rows lie packed: how many each entry has, 0 included; `count` is 0 then. Empty:
  // each entry has `count`.
  std::vector<int64_t> counts = {};
  // Of an attend in two calls: the pages of each entry whose keys the first call takes. The second takes all others,
  // and a merge adds the results up. An entry of which a query does not see so many pages has fewer. 0: one call.
  int64_t split = 0;

  int64_t rows(size_t e) const { return counts.empty() ? count : counts[e]; }
  bool operator==(const Step&) const = default;
};

// The second session in which each attend must give the same bits (relations.h).
enum class Relation : uint8_t {
  kNone,
  kRenumbered,  // other pages give the same bits
  kSplit,       // an append is two appends of its parts
  kFresh,       // a replay is a call with a plan of its own
  kUnshared,    // a fork is a new sequence with the same tokens
  kRefilled,    // a truncated sequence is a new one with the tokens that it keeps
  kDecoded,     // an attend of several queries of a sequence is two: the last queries attend after the others
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

// Sessions that run one after another in the same process of each library, with a cache of its own for each. The last
// one is judged. Those before count only for what they leave in the libraries.
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
