// The oracle of the operation nsa_compress (ATTN_FEATURE_NSA_COMPRESS): the mean of the keys, and of the values, of each
// block.
//
//   mean = 1/l sum_j k_j,   B = (gamma(l, u_a) + eps_r + 2u) 1/l sum_j |k_j| + (l + 2) eta,   then B + u_O (|mean| + B) + eta_O
//
// u_a is the accumulator's unit. Tensor cores align fp16 subnormals as if they were larger, so the sum of moduli
// has the larger numbers. eps_r is the error of 1/l, by which the sum or each key is multiplied; a quotient errs
// less. Each key, each product and each sum that underflows may lose eta. A block of zeros is 0 exactly.
//
//   Reference due = evaluate_compression(problem, tensors, plan, h200());
#pragma once

#include "reference/oracle.h"

namespace attnfuzz {

inline constexpr KnownFeatures kCompressionKnows = {
    "the oracle of compressed keys",
    ATTN_FEATURE_NSA_COMPRESS | ATTN_FEATURE_F32 | ATTN_FEATURE_WIDE | ATTN_FEATURE_RAGGED | ATTN_FEATURE_INDEX32};

// Reads k and v of `host`, in host memory, and key_lengths, cu_q and cu_k if the problem has them. Throws
// UnknownFeatures for a kind of problem that it does not know. It reads these fields of the plan: accumulator,
// rcp_class, conversion, flush_to_zero and tile_q. A NaN of a block makes its column NaN. If a block has an infinity,
// or its sum may overflow, its column may be anything.
Reference evaluate_compression(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
                               const Calibration& calibration, RowSample sample = {}, bool exact = true);

}  // namespace attnfuzz
