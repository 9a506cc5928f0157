// The problem of a case: sizes, visibility, terms of scores, and where keys and values lie. Tensors without
// values of their own in Case (bias, mask, sinks, slopes, block tables, lists) have their recipes here.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/attention.h"
#include "properties/case/codec_form.h"
#include "reference/call/tensor_spec.h"

namespace attnfuzz {

// The pairs (b,h,i,j) that a mask shows, or at which a bias is above -inf.
enum class PatternKind : uint8_t {
  kAll,        // everything
  kNothing,    // nothing: every row is dead
  kFirstKey,   // key 0 only
  kLastKey,    // the last key only
  kPrefix,     // keys < parameter, or j <= i (prefix-LM)
  kDocuments,  // i and j in the same document of `parameter` positions
  kDeadRows,   // everything, except that every parameter-th row sees nothing
  kDeadTiles,  // keys in runs of `parameter`; each run hidden at random per query, one time in two
  kStripes,    // keys with j mod parameter == 0 hidden
  kRandom,     // each pair hidden with probability parameter / 16
  // In these kinds query i stands at key i + seq_k - seq_q.
  kTree,        // a draft tree: the keys before query 0, and query i's ancestors and itself (mask_values.h)
  kSinkWindow,  // the first `seed` keys, and the last `parameter` keys up to the query's own
  kBlockwise,   // blocks of 16 to 128 queries and 16 to 128 keys, each hidden at random one time in two
};
inline constexpr int kPatternKinds = 13;
// The draw's axes choose from the first ten kinds. The others are drawn later (features/visibility/pattern.h).
inline constexpr int kFirstPatternKinds = 10;

struct Pattern {
  PatternKind kind = PatternKind::kAll;
  int64_t parameter = 1;  // > 0
  uint64_t seed = 0;      // of the random kinds; of kSinkWindow: a number of keys
  bool operator==(const Pattern&) const = default;
};

// The sizes of the blocks of kBlockwise: 16, 32, 64 or 128.
constexpr int64_t block_queries(const Pattern& p) { return int64_t{16} << (p.parameter - 1) % 4; }
constexpr int64_t block_keys(const Pattern& p) { return int64_t{16} << (p.parameter - 1) / 4 % 4; }

// Dimensions that a bias or a mask repeats (stride 0) instead of storing.
struct Broadcast {
  bool batch = false, head = false, query = false;
  bool operator==(const Broadcast&) const = default;
};

// The values of a bias where it is finite.
enum class BiasKind : uint8_t {
  kZero,
  kRowConstant,   // one random value a query: it changes only the LSE
  kGaussian,      // deviation 1
  kAlibi,         // -(distance from the diagonal) / 2^(1 + h mod 8)
  kVeryNegative,  // finite: -1e4, -5e4 or the format's lowest, chosen per query: not a dead row
  kMasking,       // 0; instead of -inf the format's lowest finite number, as many frameworks write a mask
  kWide,          // Gaussian of deviation 2, 8, 32 or 128, chosen per query
  kFarBelow,  // -3e4, -2^70 or the format's lowest, chosen per query: kernels start maxima at -1e4, -1e9, ...
};
inline constexpr int kBiasKinds = 8;

struct Bias {
  int32_t dtype = ATTN_F32;
  BiasKind kind = BiasKind::kZero;
  Pattern finite;  // where the bias is not -inf
  Broadcast broadcast;
  uint64_t seed = 0;
  bool operator==(const Bias&) const = default;
};

struct Mask {
  Pattern visible;
  Broadcast broadcast;
  bool operator==(const Mask&) const = default;
};

// The sinks of the query heads (attn_problem.has_sink). They are numbers of their own format.
enum class SinkKind : uint8_t {
  kZero,      // 0: like a key whose score is 0
  kAbove,     // 8 to 40: above most scores, so that O is small
  kGaussian,  // deviation 2
  kBelow,     // -40 to -8: a small part of a row that sees keys, and all of one that sees none
  kMinusInf,  // -inf: like no sink
  kMixed,     // each head has one of these
  kFarBelow,  // -60000; by an odd seed -1e30, which fp16 does not hold: no part of a row that sees keys
};
inline constexpr int kSinkKinds = 7;

struct Sink {
  int32_t dtype = ATTN_F32;
  SinkKind kind = SinkKind::kZero;
  uint64_t seed = 0;
  bool operator==(const Sink&) const = default;
};

// The slopes of the query heads (attn_problem.has_alibi), fp32.
enum class SlopeKind : uint8_t {
  kZero,      // 0: distance does not matter
  kPowers,    // 2^-(1 + h mod 8): most products with a distance are exact
  kUneven,    // 1/32 to 1 with all bits in use: products are rounded
  kNegative,  // the same below 0: far keys count more
  kSteep,     // 8 to 64: a query sees hardly more than the nearest key
  kMixed,     // each head has one of these
};
inline constexpr int kSlopeKinds = 6;

struct Slopes {
  SlopeKind kind = SlopeKind::kZero;
  bool entries = false;  // each batch entry has slopes of its own; else all have the same, stored once
  uint64_t seed = 0;
  bool operator==(const Slopes&) const = default;
};

// The queries, or the keys, of all batch entries lie packed, one entry behind the other (attn_problem.ragged).
struct Packing {
  std::vector<int64_t> lengths;  // one for each batch entry; more than seq_q or seq_k counts as that
  int64_t slack = 0;             // rows behind the last entry, which belong to none
  bool numbers = false;          // these rows hold numbers of the tensor's fill, not NaN
  bool operator==(const Packing&) const = default;
};

// The numbers in entries of a block table that no key needs.
enum class PageJunk : uint8_t {
  kFirst,     // 0
  kMinusOne,  // -1
  kLargest,   // 2^31 - 1
  kSpare,     // a page that no batch entry has; -1 if there is none
  kAnother,   // a page of any batch entry; -1 if there is none
  kMixed,     // each is one of the first four
};
inline constexpr int kPageJunks = 6;

// Keys lie in pages of pools (attn_problem.page_size). There are as many pages as the key lengths need, and
// spare ones.
struct Paging {
  int64_t size = 16;  // keys of a page
  uint64_t order =
      0;              // 0: the pages of one batch entry after those of another, spare ones last; else a shuffle
  int64_t spare = 0;  // pages that no batch entry has
  int64_t beyond = 0;  // entries of each row of the table beyond those that seq_k keys need
  PageJunk junk = PageJunk::kFirst;
  bool numbers = false;  // slots and pages without a key hold numbers of the tensor's fill, not NaN
  // All batch entries begin with this many pages in common, as far as their keys reach: the keys of a common
  // prefix, which have the values of batch entry 0.
  int64_t shared = 0;
  bool operator==(const Paging&) const = default;
};

// The formats of K and V in 8 bits.
enum class KvFormat : uint8_t { kE4m3, kE5m2 };

// The scales of K, or of V, in 8 bits.
enum class ScaleKind : uint8_t {
  kOne,      // 1
  kPowers,   // 2, 1/2, 4, 1/4, 8, 1/8 by turns: products with codes are exact
  kUneven,   // 1/8 to 8 with all bits in use
  kHeadOff,  // uneven, and those of one head of four are 2^6 times as large
  kApart,    // 2^-6 to 2^6 with all bits in use: neighbours are far apart
};
inline constexpr int kScaleKinds = 5;

struct KvScales {
  ScaleKind kind = ScaleKind::kOne;
  bool entries = false, heads = false, keys = false;  // each entry, head or key has its own; else all share one
  // If not 0, each group of `page` keys of an entry has a scale of its own. If keys lie in pages, `page` is the
  // pages' size, and entries that share a page share its scale. The scales are stored for each key.
  int page = 0;
  uint64_t seed = 0;
  bool operator==(const KvScales&) const = default;
};

// K and V hold codes of 8 bits, and have scales (attn_problem.kv_dtype).
struct Kv8 {
  KvFormat format = KvFormat::kE4m3;
  KvScales k, v;
  bool operator==(const Kv8&) const = default;
};
constexpr int32_t dtype_of(KvFormat format) { return format == KvFormat::kE4m3 ? ATTN_E4M3 : ATTN_E5M2; }

// The blocks that a query's list names (the operation selected). A query's own block has the last key that the
// query sees by key length and causal order (own_block() in selection.h).
enum class SelectionKind : uint8_t {
  kFirst,     // 0, 1, 2, ...
  kRecent,    // the own block, and those before it, the nearest first
  kSpread,    // all blocks from 0 to the own one, each once, in a pseudo-random order
  kFirstOwn,  // block 0, the own block, the one before it, then blocks of kSpread, some of which come twice
  kRepeated,  // few blocks of kSpread, each several times
  kAnywhere,  // any blocks, also behind the own one and behind the last; each may come again
};
inline constexpr int kSelectionKinds = 6;

struct Selection {
  int64_t block = 1;    // keys of a block
  bool tokens = false;  // a block is listed as the indices of its keys; the problem's blocks then have one key
  int64_t select = 0;   // blocks of a list; 0: as many as there are
  SelectionKind kind = SelectionKind::kFirst;
  uint64_t seed = 0;
  uint64_t order = 0;  // 0: as the kind lists them; 1: ascending, then those that name nothing; else a shuffle
  int64_t holes = 0;   // sixteenths of the blocks that are -1
  bool leading = false;         // -1 stands at the front
  int64_t empty = 0;            // about one query in so many has nothing but -1; 0: none
  int64_t first = 0, last = 0;  // of nsa_select and nsa_score: so many first and last blocks are always chosen
  bool operator==(const Selection&) const = default;
};

// The sizes and flags of attn_problem, with the same names and meanings.
struct Problem {
  int32_t dtype = ATTN_F16;
  int64_t batch = 1, heads_q = 1, heads_kv = 1, seq_q = 1, seq_k = 1, dim_qk = 1, dim_v = 1;
  float scale = 1.0f;
  float softcap = 0.0f;
  bool causal = false;
  int32_t align = ATTN_TOP_LEFT;
  int64_t window_left = -1, window_right = -1;
  std::optional<std::vector<int64_t>> key_lengths;  // one for each batch entry; not clamped
  std::optional<Bias> bias;
  std::optional<Mask> mask;
  int64_t num_splits = 0;
  std::optional<Sink> sink;
  std::optional<Slopes> slopes;
  bool latent = false;  // V is the first dim_v columns of K, in K's memory: the case has no V of its own
  std::optional<Packing> packed_q, packed_k;
  int32_t index_dtype = ATTN_INDEX_64;  // of key lengths, borders of packed entries, block table, listed blocks
  std::optional<Paging> paging;
  std::optional<Kv8> kv8;
  Selection selection;  // of operations with lists; nsa_select and nsa_score have block, select, first and last
  int64_t key_step = 0, key_offset = 0;  // of the operation nsa_compress, or where keys stand for blocks
  // Bits of attn_problem.features that no field above implies: the bit of an operation other than the forward
  // pass (tensor_spec.h, kOperations), or bits of a later attnfuzz. A reader that does not know a bit refuses
  // the problem by name (reference/call/known_features.h).
  uint64_t features = 0;
  bool operator==(const Problem&) const = default;

  // The first and the third dimension of a cache in memory: pages and their slots, or batch entries and seq_k
  // rows.
  int64_t stores() const;
  int64_t slots() const { return paging ? paging->size : seq_k; }
  // Returns attn_problem.pages_per_seq.
  int64_t pages_per_seq() const { return paging ? pages_of(seq_k) + paging->beyond : 0; }
  // The number of blocks of keys, or of positions if keys stand for blocks; 0 for operations without blocks.
  int64_t blocks() const {
    const int64_t size = std::max<int64_t>(selection.block, 1);
    const int64_t positions = scores_blocks() ? seq_k * key_step + key_offset : seq_k;
    return selects() || chooses() ? positions / size + (positions % size != 0) : 0;
  }
  // The number of blocks in a list.
  int64_t listed() const { return selection.select > 0 ? selection.select : std::max<int64_t>(blocks(), 1); }
  // Returns attn_problem.select and attn_problem.block.
  int64_t block() const { return !selects() && !chooses() ? 0 : selection.tokens ? 1 : selection.block; }
  int64_t select() const {
    if (!selects() && !chooses()) return 0;
    return listed() * (selection.tokens ? std::max<int64_t>(selection.block, 1) : 1);
  }
  bool selects() const { return (features & (ATTN_FEATURE_SELECTED | ATTN_FEATURE_SELECTED_BACKWARD)) != 0; }
  // True if the operation writes lists of blocks: by scores that are given, or by scores that it computes.
  bool chooses() const { return (features & (ATTN_FEATURE_NSA_SELECT | ATTN_FEATURE_NSA_SCORE)) != 0; }
  bool scores_blocks() const { return (features & ATTN_FEATURE_NSA_SCORE) != 0; }
  bool compresses() const { return (features & ATTN_FEATURE_NSA_COMPRESS) != 0; }
  bool combines() const { return (features & ATTN_FEATURE_NSA_COMBINE) != 0; }
  // Returns how many pages this many keys need.
  int64_t pages_of(int64_t keys) const {
    const int64_t size = std::max<int64_t>(paging->size, 1);
    return keys / size + (keys % size != 0);
  }
};
namespace codec {
inline constexpr const char* kDtypes[] = {"f16", "bf16", "f32"};
inline constexpr const char* kAlignNames[] = {"top_left", "bottom_right"};
inline constexpr const char* kIndexNames[] = {"index_64", "index_32"};
inline constexpr size_t kMaxKeyLengths = size_t{1} << 20;

template <>
inline constexpr auto kFields<Packing> =
    fields("packed entries", field("lengths", &Packing::lengths, AtMost{kMaxKeyLengths}),
           field("numbers", &Packing::numbers), field("slack", &Packing::slack));

inline constexpr const char* kPageJunkNames[] = {"first", "minus_one", "largest", "spare", "another", "mixed"};
template <>
inline constexpr auto kFields<Paging> =
    fields("pages", field("beyond", &Paging::beyond), field("junk", &Paging::junk, Names{kPageJunkNames}),
           field("numbers", &Paging::numbers), field("order", &Paging::order), field("shared", &Paging::shared),
           field("size", &Paging::size), field("spare", &Paging::spare));

inline constexpr const char* kKvFormatNames[] = {"e4m3", "e5m2"};
inline constexpr const char* kScaleNames[] = {"one", "powers", "uneven", "head_off", "apart"};
static_assert(std::size(kScaleNames) == kScaleKinds);
template <>
inline constexpr auto kFields<KvScales> = fields(
    "scales of 8-bit keys or values", field("entries", &KvScales::entries), field("heads", &KvScales::heads),
    field("keys", &KvScales::keys), field("kind", &KvScales::kind, Names{kScaleNames}),
    field("page", &KvScales::page), field("seed", &KvScales::seed));
template <>
inline constexpr auto kFields<Kv8> =
    fields("K and V in 8 bits", field("format", &Kv8::format, Names{kKvFormatNames}), field("k", &Kv8::k),
           field("v", &Kv8::v));

inline constexpr const char* kSelectionNames[] = {"first",     "recent",   "spread",
                                                  "first_own", "repeated", "anywhere"};
static_assert(std::size(kSelectionNames) == kSelectionKinds);
template <>
inline constexpr auto kFields<Selection> = fields(
    "a selection", field("block", &Selection::block), field("empty", &Selection::empty),
    field("first", &Selection::first), field("holes", &Selection::holes),
    field("kind", &Selection::kind, Names{kSelectionNames}), field("last", &Selection::last),
    field("leading", &Selection::leading), field("order", &Selection::order), field("seed", &Selection::seed),
    field("select", &Selection::select), field("tokens", &Selection::tokens));

// The fields of a Problem. codec_fields.h writes them to files, and as_contract.h copies each
// number to the field of attn_problem with the same name.
// clang-format off
template <> inline constexpr auto kFields<Problem> = fields("a problem",
    field("align", &Problem::align, Names{kAlignNames}),
    field("batch", &Problem::batch),
    field("bias", &Problem::bias),
    field("causal", &Problem::causal),
    field("dim_qk", &Problem::dim_qk),
    field("dim_v", &Problem::dim_v),
    field("dtype", &Problem::dtype, Names{kDtypes}),
    field("features", &Problem::features),
    field("heads_kv", &Problem::heads_kv),
    field("heads_q", &Problem::heads_q),
    field("index_dtype", &Problem::index_dtype, Names{kIndexNames}),
    field("key_lengths", &Problem::key_lengths, AtMost{kMaxKeyLengths}),
    field("key_offset", &Problem::key_offset),
    field("key_step", &Problem::key_step),
    field("kv8", &Problem::kv8),
    field("latent", &Problem::latent),
    field("mask", &Problem::mask),
    field("num_splits", &Problem::num_splits),
    field("packed_k", &Problem::packed_k),
    field("packed_q", &Problem::packed_q),
    field("paging", &Problem::paging),
    field("scale", &Problem::scale),
    field("selection", &Problem::selection),
    field("seq_k", &Problem::seq_k),
    field("seq_q", &Problem::seq_q),
    field("sink", &Problem::sink),
    field("slopes", &Problem::slopes),
    field("softcap", &Problem::softcap),
    field("window_left", &Problem::window_left),
    field("window_right", &Problem::window_right));
// clang-format on
}  // namespace codec

// True if there are more heads, over all batch entries, than the CPU runs quickly.
inline bool has_many_heads(const Problem& p) {
  constexpr int64_t kMany = 4096;
  return p.batch > kMany || p.heads_q > kMany || p.batch * p.heads_q > kMany;
}

}  // namespace attnfuzz
