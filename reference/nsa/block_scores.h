// The oracle of the operation nsa_score (ATTN_FEATURE_NSA_SCORE): the scores of blocks, how far a kernel's may
// lie from them, and which choices of blocks are right.
//
//   s_j = sum_h sum_c M_cj P_hc                            M_cj = overlap(c, j) / d
//   b_j = sum M_cj E^P_hc  +  g sum M_cj (P_hc + E^P_hc)  +  2 N 2^-126
//
// The sums run over the heads h of the group and over the compressed keys c that the query sees and that
// overlap block j. overlap(c, j) is the number of positions that they have in common.
//
//   E^P   what a kernel's P_hc may be off by, as in a backward pass (gradient_pairs.h): the product q.k, its scale, the
//         LSE as it is stored, the exponential, and the rounding of P to plan.p_format
//   N     the number of terms, sum of ceil(M_cj). A kernel adds M_cj P_hc once, or P_hc as often as M_cj says
//   g     compound(N a + 3u): the additions in any order, and the roundings of M_cj = overlap / d (2u at most, as a
//         product by 1 / d) and of M_cj P_hc (u)
//   a     error of an addition: u, or with tensor cores max(u, u_p + u_s) (error_model.h). An mma that adds c products
//         errs by c u_p + u_s. Each term may have an mma of its own, as the terms of different heads often do. So N
//         terms cost N (u_p + u_s) at most, even if fp32 additions (u each) join the results
//
// In each term, the product and P may each be flushed to 0, which costs 2^-126. Scores are fp32 and not rounded
// further.
//
// A computed choice cannot be compared with the exact one: where two scores are closer than their errors, both
// choices are right. A list is admissible if
//
//   1. it names candidates only, each once,
//   2. it names all candidates that are always chosen,
//   3. it names min(select, candidates) of them, and
//   4. the scores allow the choice, unless the row's scores may be anything:
//
//   min over the other chosen blocks of s_j + b_j  >=  max over the blocks left out of s_j - b_j
//
// This holds for each choice by computed scores t_j with |t_j - s_j| <= b_j: t_j >= t_k for chosen j and k left
// out gives s_j + b_j >= t_j >= t_k >= s_k - b_k. With fixed tolerances a right kernel would be called wrong,
// or a wrong one right.
//
// If a kernel computes the LSE by itself (attn_plan.saved), E^P includes the bound of a forward pass's LSE.
//
//   Reference due = evaluate_block_scores(problem, tensors, plan, h200());
//   std::string why = objection_to_choice(due, row, list);  // empty: admissible
#pragma once

#include <span>
#include <string>

#include "reference/oracle.h"

namespace attnfuzz {

inline constexpr KnownFeatures kBlockScoresKnow = {
    "the oracle of computed scores of blocks",
    ATTN_FEATURE_NSA_SCORE | ATTN_FEATURE_F32 | ATTN_FEATURE_WIDE | ATTN_FEATURE_RAGGED | ATTN_FEATURE_INDEX32};

// The forward pass over the same keys whose LSE is an input. Its V is the first column of K.
struct ForwardCall {
  attn_problem problem;
  attn_tensors tensors;
};
ForwardCall compressed_attention_of(const attn_problem& problem, const attn_tensors& tensors);

// Reads q and k of `host`, in host memory, lse unless the plan recomputes it, and key_lengths, cu_q and cu_k if the
// problem has them. The reference and its outputs kChosen and kBlockScores have a row for each list, (b, g, i). Scores
// have a bound for candidates, and may be anything for other blocks. The scores of a row may be anything if an
// intermediate may overflow, or if its queries, a key that they see or their LSE are not finite. Its list is still
// judged by 1 to 3. Expected::integer of kChosen is one right choice, that by exact scores. If the row's scores
// may be anything, it is the choice by scores of 0. Throws UnknownFeatures for a kind of problem that it does not know.
Reference evaluate_block_scores(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
                                const Calibration& calibration, RowSample sample = {}, bool exact = true);

// Why a list is not an admissible choice of row (b, g, i), in a sentence without a subject; empty if it is.
std::string objection_to_choice(const Reference& due, int64_t row, std::span<const int64_t> list);
// The same for a list that was chosen by other scores: those of block j may be slack[j] further from due's. If empty, 0.
std::string objection_to_choice(const Reference& due, int64_t row, std::span<const int64_t> list,
                                std::span<const double> slack);

}  // namespace attnfuzz
