// The oracle of the operation nsa_select (ATTN_FEATURE_NSA_SELECT): the blocks of keys that each
// query attends over. The scores are given, so there is one right answer, ties included.
//
//   Reference due = evaluate_choice(problem, tensors, plan, calibration);      // due[TensorId::kChosen].integer
#pragma once

#include <span>

#include "reference/oracle.h"

namespace attnfuzz {

inline constexpr KnownFeatures kChoiceKnows = {"the oracle of chosen blocks",
                                               ATTN_FEATURE_NSA_SELECT | ATTN_FEATURE_RAGGED | ATTN_FEATURE_INDEX32};

// The keys that position allows query i of batch entry b; they begin with key 0.
int64_t keys_of_query(const attn_problem& problem, const attn_tensors& host, int64_t b, int64_t i);

// The blocks that are chosen among candidates with these scores, ascending.
std::vector<int64_t> chosen_blocks(const attn_problem& problem, std::span<const double> scores);

// Reads scores of `host`, in host memory, and key_lengths, cu_q and cu_k if the problem has them. A row with a NaN
// among the scores of its candidates may be anything. Throws UnknownFeatures for a kind of problem that it does not
// know.
Reference evaluate_choice(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
                          const Calibration& calibration, RowSample sample = {}, bool exact = true);

}  // namespace attnfuzz
