// A case: everything that decides what one check of a kernel does.
//
// A case is a small value with everything resolved: it holds no generator seed, no pointer, and no default
// that another version might choose differently. Equal cases run the same call on the same bytes on every
// machine. A case is drawn (generator.h), mutated (mutate.h) or read (codec.h), laid out in memory
// (layout.h), run and judged (trial.h), and made smaller if it fails (reduce.h).
//
//   Case c;                       // the simplest legal case: one query, one key, all ones
//   c.problem.seq_q = c.problem.seq_k = 65;
//   c.problem.causal = true;
//   std::string text = encode(c); // canonical JSON
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "properties/case/problem.h"
#include "reference/call/tensor_spec.h"

namespace attnfuzz {

// The recipe of a tensor's values: an exact function of (version, seed, b, h, s, d), hence the same on
// every machine. The kinds are ordered from simple to complex, and the reducer tries them in this order.
enum class FillKind : uint8_t {
  kZero,      // +0
  kConstant,  // 1
  kOneHot,    // 1 at d = s mod D, else 0
  kSmallInt,  // integers -2..2, three in four of them 0
  // distinct for every (b,h,s,d) as far as 16 bits allow, so that a value shows where it came from
  kPosition,
  kSameRows,    // one random row, repeated over s: all scores of a query equal
  kSignedZero,  // +0 and -0 at random
  kSubnormal,   // subnormals of the format
  kUniform,     // [0, 1)
  kNegative,    // (-1, 0]
  kGaussian,    // mean 0, deviation 1, no tail beyond 8
  kBlocks,      // Gaussian whose deviation jumps between 2^-4 and 2^3 from one block of 16 rows to the next
  kHuge,        // +-(1/8..1) of the format's largest number, at most 2^60: Q K^T overflows 16 bits
  kIntervals,   // 1 at d = (s / length) mod D, else 0: each column of O is the weight of some intervals of keys
  kLevels,      // one random row for each interval of `length` rows: scores of a query jump between intervals
};
inline constexpr int kFillKinds = 15;

struct Fill {
  FillKind kind = FillKind::kConstant;
  int exponent = 0;   // values are scaled by 2^exponent, exactly
  uint64_t seed = 0;  // seed of the random kinds; 0 in a canonical case
  int version = 1;    // version of the function; a file with an unknown version is refused
  bool operator==(const Fill&) const = default;
};
// For these kinds the seed is the length of an interval, in rows.
constexpr bool has_intervals(FillKind kind) {
  return kind == FillKind::kIntervals || kind == FillKind::kLevels;
}

// The part of attn_env that the case decides.
struct Environment {
  int32_t sm_count = 132;
  int32_t compute_capability = 90;
  int64_t shared_memory_limit = 232448;  // bytes; an H200's
  uint64_t schedule_seed = 0;
  int32_t variant = 1;
  int32_t arithmetic = ATTN_ARITHMETIC_ANY;
  bool operator==(const Environment&) const = default;
};

// The layout of one tensor in memory. By default it is dense, aligned, and ordered (batch, head, sequence,
// dim).
enum class Placement : uint8_t {
  kGuarded,  // redzones on both sides
  kPageEnd,  // the last byte is the last of its page, and the next page is unmapped (CPU) or a redzone
};

struct TensorLayout {
  std::array<uint8_t, 3> order = {0, 1, 2};  // of (batch, head, sequence), outermost first
  int64_t offset = 0;                        // elements between a 256-byte boundary and the first element
  int64_t row_gap = 0;                       // unused elements after each innermost row
  int64_t spread = 0;                        // the outermost stride is at least this: offsets beyond 2^31
  bool junk_unit_strides = false;            // strides of size-1 dimensions hold a huge number
  Placement placement = Placement::kGuarded;
  int64_t step =
      1;  // elements between neighbouring columns; with `across`, between neighbours in dimension order[2]
  bool across = false;    // columns lie outside dimension order[2]: K as (batch, head, dim, sequence)
  int64_t backwards = 0;  // bit n: dimension n, of (batch, head, sequence, dim), has a negative stride
  bool operator==(const TensorLayout&) const = default;
  // True if a row's columns may lie anywhere but side by side.
  bool scattered() const { return step != 1 || across || (backwards & 8) != 0; }
};

// Dimensions of Q, K or V that are stored once, with the values of index 0, and repeated by a stride of 0.
// Callers share one KV head or one cache in this way.
struct Once {
  bool batch = false, head = false;
  bool operator==(const Once&) const = default;
};
struct StoredOnce {
  Once q, k, v;
  bool operator==(const StoredOnce&) const = default;
};

// Dimensions of dO that are stored once, with the values of index 0, and repeated by a stride of 0. The gradient
// of a sum or of a mean is one number, repeated in all of them.
struct Repeated {
  bool batch = false, head = false, query = false, column = false;
  bool operator==(const Repeated&) const = default;
};

// The content of outputs, redzones and the workspace before a call.
enum class Poison : uint8_t {
  kNan,   // a NaN in every format
  kHuge,  // 2^100 in fp32 and bf16, the largest number in fp16: fmax does not hide it
};

// A single value that replaces an element after the fills.
struct Planted {
  TensorId tensor = TensorId::kV;      // an input with a fill, or kBias
  int64_t b = 0, h = 0, s = 0, d = 0;  // of kBias: (b, head, query, key)
  uint32_t bits = 0;                   // in the tensor's own format
  bool operator==(const Planted&) const = default;
};

// A pair of pages: the second gets the bytes of the first.
struct PageCopy {
  int64_t from = 0, to = 0;
  bool operator==(const PageCopy&) const = default;
};

// One call of a sequence. All calls of a case share tensors and workspace. O and LSE are poisoned before
// each call, and each call is judged.
struct Call {
  bool dirty_workspace = false;  // keep what the previous call left in the workspace; the first call finds junk
  int stream = 0;                // CUDA: 0 or 1
  bool operator==(const Call&) const = default;
};

// Maps an index of a dimension to the index of its recipe:
//   source(i) = (multiply * (i / repeat) + add) mod modulus    if i / repeat < modulus
//             = i / repeat                                     beyond it
//             =  multiply * (i / repeat) + add                 if modulus is 0
// Always inside 0 .. 2^40. The default is the identity.
struct Axis {
  // As a modulus: this batch entry's key length, clamped to seq_k. A tensor that is broadcast over the batch is
  // stored once, with entry 0's length.
  static constexpr int64_t kKeyLength = -1;
  int64_t multiply = 1, add = 0, modulus = 0, repeat = 1;
  bool operator==(const Axis&) const = default;
};

// Reorders, repeats or selects the values of a case. Relations describe their variants of a drawn case with
// it; it is never drawn and never mutated. It maps the indices at which fills, patterns, biases and planted
// values are read. A planted value moves with its element, and vanishes if the element is not there.
// Broadcast dimensions are still read at index 0. key_lengths and nan_beyond_lengths are not remapped, because
// they describe the variant itself.
struct Remap {
  Axis batch;                    // of all tensors
  Axis head_q;                   // of Q, bias and mask
  Axis head_kv;                  // of K and V
  Axis query;                    // of Q, bias and mask
  Axis key;                      // of K, V, bias and mask
  int64_t seq_q = 0, seq_k = 0;  // lengths that patterns and biases see; 0: the problem's own
  std::optional<Fill> k_shift;   // row 0 of this fill is added to every row of K
  std::optional<Fill> v_added;   // added to V, element by element
  int64_t shared_keys = 0;       // K and V of keys before this one are those of batch entry 0
  bool operator==(const Remap&) const = default;
};

struct Case {
  static constexpr int kFormat = 1;
  Problem problem;
  Environment env;
  std::string build_kind = "plain";
  Fill q, k, v;
  Fill o1, o2, lse1, lse2;  // of the operation merge; o1 and o2 of nsa_combine, too
  Pattern sides;  // of the operation merge: the query i of side j (0 or 1) saw a key if the pattern has (i,j)
  Fill dout;               // of the operations backward and selected_backward
  Repeated dout_repeated;  // of the operations backward and selected_backward
  Fill dlse;               // of the operations backward and selected_backward, if the loss depends on the LSE
  std::vector<PageCopy> copies;  // of the operation copy_pages, one for each batch entry
  Fill scores;             // of the operation nsa_select
  Fill o3, gates;          // of the operation nsa_combine
  std::vector<Planted> planted;
  bool nan_beyond_lengths = false;  // K and V hold NaN at j >= key_lengths[b]
  std::array<TensorLayout, kTensorCount> layout;
  StoredOnce once;
  Poison poison = Poison::kNan;
  bool want_lse = true;  // of the operation nsa_score: the scores of blocks
  std::vector<Call> calls = {Call{}};
  Remap remap;  // in variants of relations only; left out of the JSON while default
  bool operator==(const Case&) const = default;
};

// The fill of a tensor's values; nullptr: it has none.
constexpr Fill Case::* fill_of(TensorId t) {
  switch (t) {
    case TensorId::kQ:
      return &Case::q;
    case TensorId::kK:
    case TensorId::kCacheK:
    case TensorId::kKNew:
      return &Case::k;
    case TensorId::kV:
    case TensorId::kCacheV:
    case TensorId::kVNew:
      return &Case::v;
    case TensorId::kO1:
      return &Case::o1;
    case TensorId::kO2:
      return &Case::o2;
    case TensorId::kLse1:
      return &Case::lse1;
    case TensorId::kLse2:
      return &Case::lse2;
    case TensorId::kDout:
      return &Case::dout;
    case TensorId::kDlse:
      return &Case::dlse;
    case TensorId::kScores:
      return &Case::scores;
    case TensorId::kO3:
      return &Case::o3;
    case TensorId::kGates:
      return &Case::gates;
    default:
      return nullptr;
  }
}

// The dimensions of a tensor that may be stored once; nullptr: none may.
constexpr Once StoredOnce::* once_of(TensorId t) {
  return t == TensorId::kQ   ? &StoredOnce::q
         : t == TensorId::kK ? &StoredOnce::k
         : t == TensorId::kV ? &StoredOnce::v
                             : nullptr;
}
static_assert(std::ranges::all_of(kTensors,
                                  [](const TensorSpec& spec) {
                                    return spec.varied.stored_once == (once_of(spec.id) != nullptr);
                                  }),
              "a tensor that can be stored once has a member of StoredOnce, and a case of once_of()");
inline Once stored_once(const Case& c, TensorId t) {
  const auto of = once_of(t);
  return of ? c.once.*of : Once{};
}

// Gives a case whose V is latent a V of its own. It is drawn, stored and planted as K is, so its values are those of
// K's first columns, unless K's fill depends on the number of columns (depends_on_columns).
void store_v_apart(Case& c);
constexpr bool depends_on_columns(FillKind kind) {
  return kind == FillKind::kOneHot || kind == FillKind::kPosition || kind == FillKind::kIntervals;
}

// Why a case cannot be run at all, by field: contradictory sizes, more bytes than kMaxCaseBytes, a planted
// value outside its tensor. Nothing if it can.
std::optional<std::string> illegal(const Case& c);

// Removes layouts that no memory holds, for instance after sizes have grown: first spreads, then all layouts.
void fit_memory(Case& c);
inline constexpr int64_t kMaxCaseBytes = int64_t{1} << 31;  // of memory that is touched

}  // namespace attnfuzz
