// The fields of attn_plan, one row each: the values that a plan may hold, and their names.
//
// The table is used by the checks of a plan (judge/bad_plan.cc), the words of --errors (cli/terms.cc), and
// Python's Errors and contract.py.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/contract/field.h"

namespace attnfuzz::contract {

struct PlanField {
  Field at;
  const char* words;
  // The names of the values 0, 1, ...; a value other than 0 without a name is not legal. Empty for a number
  // from `low` to `high`.
  std::span<const char* const> names = {};
  double low = 0, high = 0;      // if `high` is 0, there is no upper limit
  const char* hint = nullptr;    // added to the message about an illegal value: "0 means: not known"
  const char* option = nullptr;  // the field's name in --errors and Python's Errors; nullptr if they lack it
};

namespace plan_table {
using P = attn_plan;
inline constexpr double kMostRows = 1 << 20, kMostTimes = 0x1p31;  // rows of a tile; splits, rescales and merges
inline constexpr const char *kUnknown = "0 means: not known", *kFlag = "a boolean", *kNone = "0 means: none";
inline constexpr const char* kTile = "1 will do for a kernel without tiles";

inline constexpr const char* kNothing[] = {nullptr};
inline constexpr const char* kBooleans[] = {"0", "1"};
inline constexpr const char* kAccumulators[] = {nullptr, "ffma", "tensor"};
inline constexpr const char* kExps[] = {nullptr, "ex2.approx", "exp2f", "expf", "fast_expf"};
inline constexpr const char* kLogs[] = {nullptr, "lg2.approx", "logf", "fast_logf"};
inline constexpr const char* kReciprocals[] = {nullptr, "approx", "exact"};
inline constexpr const char* kTanhs[] = {nullptr, "approx", "tanhf"};
inline constexpr const char* kScales[] = {nullptr, "fused", "separate", "folded_q", "separate_fma"};
inline constexpr const char* kFormats[] = {nullptr, "fp32", "input", "e4m3", "e5m2", "tf32", "fp16", "bf16"};
inline constexpr const char* kPartialFormats[] = {nullptr, "fp32", "input"};
inline constexpr const char* kProductFormats[] = {nullptr, nullptr, nullptr, nullptr, nullptr, "tf32"};
inline constexpr const char* kKeyOrders[] = {nullptr, "ascending", "descending", "consecutive"};
inline constexpr const char* kMaxRules[] = {nullptr, "running", "whole"};
inline constexpr const char* kSumRules[] = {"exp", "rounded_p"};
inline constexpr const char* kAscending[] = {nullptr, "ascending"};
inline constexpr const char* kMergeRules[] = {nullptr, "weight", "lse", "one_by_one"};
inline constexpr const char* kConversions[] = {"nearest", "faithful"};
inline constexpr const char* kScoreRules[] = {nullptr, "steps", "fma"};
inline constexpr const char* kTanhRules[] = {nullptr, "in_two"};
inline constexpr const char* kRescaleRules[] = {nullptr, "each_tile", "fma"};
inline constexpr const char* kMergeOrders[] = {nullptr, "ascending", "by_fours"};
inline constexpr const char* kNormRules[] = {nullptr, "reciprocal"};
inline constexpr const char* kLseRules[] = {nullptr, "log2", "fma"};
inline constexpr const char* kLseBases[] = {"e", nullptr, "2"};
inline constexpr const char* kLseDead[] = {"-inf", "+inf", "0", "any"};
inline constexpr const char* kSaved[] = {"given", "recomputed"};
inline constexpr const char* kPOrders[] = {nullptr, "unnormalised", "normalised"};
inline constexpr const char* kKvRules[] = {nullptr, "folded", "dequantised"};

// clang-format off
inline constexpr PlanField kRows[] = {
    {ATTN_FIELD(P, size), "bytes of this struct"},
    {ATTN_FIELD(P, accumulator), "the adder of Q.K and P.V", kAccumulators, 0, 0, kUnknown, "accumulator"},
    {ATTN_FIELD(P, path), "the path through the kernel: \"64x64 d64 cp.async\""},
    {ATTN_FIELD(P, tile_q), "query rows of a tile", {}, 1, kMostRows, kTile},
    {ATTN_FIELD(P, tile_k), "keys of a tile", {}, 1, kMostRows, kTile},
    {ATTN_FIELD(P, num_splits), "splits of the keys that will run", {}, 1, kMostTimes, "1 means: none"},
    {ATTN_FIELD(P, split_tiles), "tiles of keys of a split", {}, 0, kMostTimes, kUnknown},
    {ATTN_FIELD(P, rescales), "most rescales of a row's accumulator", {}, 0, kMostTimes, kUnknown, "rescales"},
    {ATTN_FIELD(P, merges), "most partial results merged into a row", {}, 0, kMostTimes, kNone, "merges"},
    {ATTN_FIELD(P, mma_block), "products that the tensor core adds at once", {}, 0, 1 << 16, kUnknown, "mma_block"},
    {ATTN_FIELD(P, exp_class), "the exponential", kExps, 0, 0, kUnknown, "exp"},
    {ATTN_FIELD(P, log_class), "the logarithm", kLogs, 0, 0, kUnknown, "log"},
    {ATTN_FIELD(P, rcp_class), "the reciprocal", kReciprocals, 0, 0, kUnknown, "rcp"},
    {ATTN_FIELD(P, tanh_class), "the hyperbolic tangent; read only with softcap", kTanhs, 0, 0, kUnknown, "tanh"},
    {ATTN_FIELD(P, scale_mode), "where the scale is multiplied in", kScales, 0, 0, kUnknown, "scale"},
    {ATTN_FIELD(P, p_format), "format of P in P.V", kFormats, 0, 0, kUnknown, "p"},
    {ATTN_FIELD(P, partial_format), "format of O in partial results", kPartialFormats, 0, 0, kUnknown, "partials"},
    {ATTN_FIELD(P, flush_to_zero), "fp32 subnormals may become 0", kBooleans, 0, 0, kFlag, "flush_to_zero"},
    {ATTN_FIELD(P, isolates_masked_nan), "a NaN never reaches a row that may not see its key", kBooleans, 0, 0, kFlag,
     "isolates_masked_nan"},
    {ATTN_FIELD(P, deterministic), "the same call gives the same bits", kBooleans, 0, 0, kFlag},
    {ATTN_FIELD(P, saved), "where a backward pass gets O and the LSE from", kSaved, 0, 0, "0 means: as given", "saved"},
    {ATTN_FIELD(P, workspace_bytes), "scratch memory", {}, 0, 0, kNone},
    {ATTN_FIELD(P, workspace_align), "divisor of the scratch memory's address", {}, 1, 1 << 20, "a power of two; 1 will do"},
    {ATTN_FIELD(P, key_order), "order in which P.V adds the keys of a split", kKeyOrders, 0, 0, kUnknown},
    {ATTN_FIELD(P, max_rule), "the maximum that is subtracted from scores", kMaxRules, 0, 0, kUnknown},
    {ATTN_FIELD(P, sum_rule), "numbers that the row sum adds", kSumRules, 0, 0, "0 means: before P is rounded", "sum"},
    {ATTN_FIELD(P, sum_lanes), "parts in which the row sum is kept", {}, 0, 1 << 16, kUnknown},
    {ATTN_FIELD(P, dot_order), "order in which Q.K adds its columns", kAscending, 0, 0, kUnknown},
    {ATTN_FIELD(P, merge_rule), "how the results of splits become one", kMergeRules, 0, 0, kUnknown, "merge"},
    {ATTN_FIELD(P, conversion), "how fp32 becomes a format of fewer bits", kConversions, 0, 0, "0 means: to nearest", "conversion"},
    {ATTN_FIELD(P, v_format), "format that V is converted to before P.V", kFormats, 0, 0, "0 means: V stays as it is", "v"},
    {ATTN_FIELD(P, exp_error), "largest relative error of the exponential; 0: as exp_class says"},
    {ATTN_FIELD(P, p_scale), "factor of P before it is converted; 0: 1", {}, 0, 0, nullptr, "p_scale"},
    {ATTN_FIELD(P, v_scale), "factor of V before it is converted; 0: 1", {}, 0, 0, nullptr, "v_scale"},
    {ATTN_FIELD(P, qk_format), "format that Q and K are converted to before Q.K", kProductFormats, 0, 0,
     "0 means: Q and K stay as they are", "qk"},
    {ATTN_FIELD(P, score_rule), "how a product becomes a score", kScoreRules, 0, 0, kUnknown},
    {ATTN_FIELD(P, tanh_rule), "how tanh is computed", kTanhRules, 0, 0, kUnknown},
    {ATTN_FIELD(P, rescale_rule), "how accumulator and sum are rescaled", kRescaleRules, 0, 0, kUnknown},
    {ATTN_FIELD(P, tile_order), "which keys of a tile P.V adds at once", kAscending, 0, 0, kUnknown},
    {ATTN_FIELD(P, sum_run), "neighbouring keys of one part of the row sum", {}, 0, kMostRows, kUnknown},
    {ATTN_FIELD(P, merge_order), "order in which splits are merged", kMergeOrders, 0, 0, kUnknown},
    {ATTN_FIELD(P, norm_rule), "how a row is divided by its sum", kNormRules, 0, 0, kUnknown},
    {ATTN_FIELD(P, lse_rule), "how the LSE is computed", kLseRules, 0, 0, kUnknown},
    {ATTN_FIELD(P, merge_format), "format in which partial results are merged", kPartialFormats, 0, 0, "0 means: fp32", "merging"},
    {ATTN_FIELD(P, lse_base), "base of the LSE", kLseBases, 0, 0, "0 means: e", "lse_base"},
    {ATTN_FIELD(P, lse_dead), "LSE of a query that sees no key", kLseDead, 0, 0, "0 means: -inf", "lse_dead"},
    {ATTN_FIELD(P, lse_sink), "the LSE leaves the sink out; read only with sinks", kBooleans, 0, 0, kFlag, "lse_sink"},
    {ATTN_FIELD(P, ds_format), "format of dA as a factor of dQ and dK", kFormats, 0, 0, kUnknown, "ds"},
    {ATTN_FIELD(P, head_format), "format of dK and dV of one query head", kPartialFormats, 0, 0, kUnknown, "heads"},
    {ATTN_FIELD(P, dq_adds), "most additions of partial sums of dQ", {}, 0, kMostTimes, kUnknown, "dq_adds"},
    {ATTN_FIELD(P, dkv_adds), "most additions of partial sums of dK and dV", {}, 0, kMostTimes, kUnknown, "dkv_adds"},
    {ATTN_FIELD(P, kv_rule), "how scales of 8-bit K and V are applied", kKvRules, 0, 0, kUnknown, "kv"},
    {ATTN_FIELD(P, p_order), "where P is rounded", kPOrders, 0, 0, kUnknown, "p_order"},
};
// clang-format on
}  // namespace plan_table

inline constexpr auto& kPlanFields = plan_table::kRows;
static_assert(covers(kPlanFields, sizeof(attn_plan)), "each field of attn_plan has a row, in order");

}  // namespace attnfuzz::contract
