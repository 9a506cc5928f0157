// The result of a pass as a whole: against the chain in exact arithmetic, at the blocks that the kernel chose.
//
// Each call is within the bound of its oracle at the inputs that it got. What those were off by goes on: with
// compressed keys off by B_k, a score of query q is off by at most E = |scale| sum |q| B_k, a weight by a
// factor from e^-2E to e^2E, and O_1 by
//
//   sum_j p_j ((e^2E - 1) |v_j - o| + e^2E B_v),   p, v and o exact, E the largest of the row
//
// besides the bound of its own call. Each branch is then weighed by its gate, and the combination has its own
// bound.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "properties/nsa/chain.h"

namespace attnfuzz::nsa {

struct Whole {
  std::vector<double> due, bound;  // of each element of O; an infinite bound: nothing is known
  double worst = 0;                // the largest |O - due| / bound
  int64_t judged = 0, open = 0;    // elements
  std::string wrong;               // the first element that is off by more, in a sentence; empty: none is
};
Whole whole_of(const Sizes& sizes, const Inputs& inputs, std::span<const int64_t> tokens, bool decode,
               const Pass& pass);

// Where a decode differs from the prefill for the same tokens: other compressed keys, other chosen blocks, an O
// that is further off than both bounds allow. Empty: nowhere.
std::string differs(const Sizes& sizes, std::span<const int64_t> tokens, const Pass& prefill,
                    const Whole& of_prefill, const Pass& decode, const Whole& of_decode);

// A prefill, its whole, a decode of all its tokens, that one's whole, and what the two differ in; up to the
// first thing that is wrong.
struct Judged {
  std::string refused;                  // as Pass::refused
  std::optional<ChainFailure> failure;  // of a call
  std::string wrong;                    // though each call is right, in a sentence; empty: nothing
  double worst = 0, worst_whole = 0;    // the largest error/bound of a call, and of the whole
  int64_t judged = 0, open = 0;         // elements of the whole

  bool failed() const { return failure || !wrong.empty(); }
};
Judged judge_chain(const Sizes& sizes, const Inputs& inputs, const Kernels& kernels);

}  // namespace attnfuzz::nsa
