// The fields of attn_problem, one row each: what a number means, which value asks for nothing, and which
// feature bit a kernel must have to get a problem that sets the field.
//
// The table is used by as_contract.cc (which turns a case into an attn_problem) and by the exporters. Python's
// contract.py is generated from it.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/contract/field.h"

namespace attnfuzz::contract {

enum class Meaning : uint8_t {
  kStructSize,  // the struct's own size in bytes
  kReserved,
  kNumber,
  kBoolean,
  kDtype,    // attn_dtype
  kAlign,    // attn_align
  kFeatures  // bits of ATTN_FEATURE_*
};

struct ProblemField {
  Field at;
  Meaning meaning;
  const char* words;
  // The value that asks for nothing. A field without one is always exported.
  std::optional<double> none = {};
  // The bit that a problem needs if the field differs from `none`, or, without a `none`, if it exceeds `up_to`.
  uint64_t feature = 0;
  double up_to = 0;
  // Bits of operations that read the field. A problem of such an operation does not set `feature` for it.
  uint64_t operations = 0;
};

// The largest head dimension without a feature bit, and the largest of all.
inline constexpr int64_t kUsualDims = 256, kMostDims = 1024;

namespace problem_table {
using enum Meaning;
using P = attn_problem;
// The operations that read or write lists of blocks, and those that have compressed keys without ATTN_FEATURE_KEY_STEP.
inline constexpr uint64_t kOfLists = ATTN_FEATURE_SELECTED | ATTN_FEATURE_SELECTED_BACKWARD |
                                     ATTN_FEATURE_NSA_SELECT | ATTN_FEATURE_NSA_SCORE,
                          kOfSteps = ATTN_FEATURE_NSA_COMPRESS | ATTN_FEATURE_NSA_SCORE;
// clang-format off
inline constexpr ProblemField kRows[] = {
    {ATTN_FIELD(P, size), kStructSize, "bytes of this struct"},
    {.at = ATTN_FIELD(P, dtype), .meaning = kDtype, .words = "format of Q, K, V and O",
     .feature = ATTN_FEATURE_F32, .up_to = ATTN_BF16},
    {ATTN_FIELD(P, batch), kNumber, "batch entries"},
    {ATTN_FIELD(P, heads_q), kNumber, "query heads"},
    {ATTN_FIELD(P, heads_kv), kNumber, "KV heads; divides heads_q"},
    {ATTN_FIELD(P, seq_q), kNumber, "queries"},
    {ATTN_FIELD(P, seq_k), kNumber, "keys that K and V have room for"},
    {.at = ATTN_FIELD(P, dim_qk), .meaning = kNumber, .words = "columns of Q and K",
     .feature = ATTN_FEATURE_WIDE, .up_to = kUsualDims},
    {.at = ATTN_FIELD(P, dim_v), .meaning = kNumber, .words = "columns of V and O",
     .feature = ATTN_FEATURE_WIDE, .up_to = kUsualDims},
    {ATTN_FIELD(P, scale), kNumber, "factor of each product of Q and K"},
    {ATTN_FIELD(P, softcap), kNumber, "scores become softcap * tanh(score / softcap)", 0},
    {ATTN_FIELD(P, causal), kBoolean, "a query sees no key past its diagonal", 0},
    {ATTN_FIELD(P, align), kAlign, "where the diagonal lies", ATTN_TOP_LEFT},
    {ATTN_FIELD(P, window_left), kNumber, "keys that a query sees left of its diagonal", -1},
    {ATTN_FIELD(P, window_right), kNumber, "keys that a query sees right of its diagonal", -1},
    {ATTN_FIELD(P, has_key_lengths), kBoolean, "tensors.key_lengths holds one length a batch entry", 0},
    {ATTN_FIELD(P, bias_dtype), kDtype, "format of the bias", ATTN_NONE},
    {ATTN_FIELD(P, has_mask), kBoolean, "tensors.mask is given", 0},
    {ATTN_FIELD(P, latent), kBoolean, "V is the first dim_v columns of K", 0, ATTN_FEATURE_LATENT},
    {ATTN_FIELD(P, num_splits), kNumber, "splits of the keys; 0: the kernel chooses", 0},
    {ATTN_FIELD(P, features), kFeatures, "what the call needs beyond a dense 16-bit forward call", 0},
    {ATTN_FIELD(P, has_sink), kBoolean, "tensors.sink holds one more score for each head", 0, ATTN_FEATURE_SINK},
    {ATTN_FIELD(P, sink_dtype), kDtype, "format of the sinks; 0 without them", 0, ATTN_FEATURE_SINK},
    {ATTN_FIELD(P, has_alibi), kBoolean, "tensors.slopes holds a slope for each head", 0, ATTN_FEATURE_ALIBI},
    {ATTN_FIELD(P, ragged), kNumber, "1: queries are packed, 2: keys are, 3: both", 0, ATTN_FEATURE_RAGGED},
    {ATTN_FIELD(P, total_q), kNumber, "rows of packed queries", 0, ATTN_FEATURE_RAGGED},
    {ATTN_FIELD(P, total_k), kNumber, "rows of packed keys", 0, ATTN_FEATURE_RAGGED},
    {ATTN_FIELD(P, index_dtype), kNumber, "format of lengths and offsets; 0: int64, 1: int32", 0,
     ATTN_FEATURE_INDEX32},
    {ATTN_FIELD(P, reserved2), kReserved, "", 0},
    {ATTN_FIELD(P, page_size), kNumber, "keys of a page; 0: K and V have no pages", 0, ATTN_FEATURE_PAGED},
    {ATTN_FIELD(P, pages), kNumber, "pages of K and V", 0, ATTN_FEATURE_PAGED},
    {ATTN_FIELD(P, pages_per_seq), kNumber, "entries of the block table for each batch entry", 0,
     ATTN_FEATURE_PAGED},
    {ATTN_FIELD(P, kv_dtype), kNumber, "format of K and V; 0: dtype, 3: E4M3, 4: E5M2", 0, ATTN_FEATURE_KV8},
    {ATTN_FIELD(P, reserved3), kReserved, "", 0},
    {.at = ATTN_FIELD(P, block), .meaning = kNumber, .words = "keys per block; 0 without lists", .none = 0,
     .operations = kOfLists},
    {.at = ATTN_FIELD(P, select), .meaning = kNumber, .words = "indices of each query and KV head", .none = 0,
     .operations = kOfLists},
    {.at = ATTN_FIELD(P, select_first), .meaning = kNumber, .words = "how many first blocks are always chosen", .none = 0,
     .feature = ATTN_FEATURE_NSA_SELECT, .operations = ATTN_FEATURE_NSA_SCORE},
    {.at = ATTN_FIELD(P, select_last), .meaning = kNumber, .words = "how many last blocks are always chosen", .none = 0,
     .feature = ATTN_FEATURE_NSA_SELECT, .operations = ATTN_FEATURE_NSA_SCORE},
    {.at = ATTN_FIELD(P, key_step), .meaning = kNumber, .words = "keys from one block's start to the next", .none = 0,
     .feature = ATTN_FEATURE_KEY_STEP, .operations = kOfSteps},
    {.at = ATTN_FIELD(P, key_offset), .meaning = kNumber, .words = "keys of a block less 1", .none = 0,
     .feature = ATTN_FEATURE_KEY_STEP, .operations = kOfSteps},
};
// clang-format on
}  // namespace problem_table

inline constexpr auto& kProblemFields = problem_table::kRows;
static_assert(covers(kProblemFields, sizeof(attn_problem)), "each field of attn_problem has a row, in order");

// The feature bits that the fields of a problem need.
inline uint64_t features_of(const attn_problem& p) {
  uint64_t bits = 0;
  for (const ProblemField& row : kProblemFields) {
    if (row.feature == 0 || (p.features & row.operations) != 0) continue;
    visit(row.at, &p, [&](auto value) {
      const auto number = static_cast<double>(value);
      if (row.none ? number != *row.none : number > row.up_to) bits |= row.feature;
    });
  }
  return bits;
}

}  // namespace attnfuzz::contract
