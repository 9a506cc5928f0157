// Judges the result of a pass as a whole against the chain in exact arithmetic, with the blocks that the kernel
// chose.
//
// Each call is within its oracle's bound on the inputs that it got. Errors of these inputs propagate: if the
// compressed keys have errors of at most B_k, a score of query q has an error of at most E = |scale| sum |q|
// B_k, a weight is off by a factor from e^-2E to e^2E, and O_1 has an error of at most
//
//   sum_j p_j ((e^2E - 1) |v_j - o| + e^2E B_v),   p, v and o exact, E the largest of the row
//
// in addition to the bound of its own call. The error of each branch is then multiplied by its gate, and the
// bound of the combination is added.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "properties/nsa/chain.h"

namespace attnfuzz::nsa {

struct Whole {
  std::vector<double> due,
      bound;  // for each element of the combination; with an infinite bound it is not judged
  double worst = 0;                // the largest |O - due| / bound
  int64_t judged = 0, open = 0;    // elements with a finite bound, and with an infinite one
  std::string wrong;               // names the first element outside of its bound; empty if there is none
};
Whole whole_of(const Sizes& sizes, const Inputs& inputs, std::span<const int64_t> tokens, PassKind kind,
               const Pass& pass);

// How a decode differs from the prefill of the same tokens; empty if it does not. It differs if O is further off
// than both bounds allow, or if it chose other blocks although the host scored equal compressed keys.
std::string differs(const Sizes& sizes, std::span<const int64_t> tokens, const Pass& prefill,
                    const Whole& of_prefill, const Pass& decode, const Whole& of_decode);

// The result of judging, in this order, the calls of a prefill, its result as a whole, the calls of a decode of
// all its tokens, its result as a whole, and the differences of the two. A packed prefill follows, with its
// whole, if the sizes have packed sequences and all kernels take them. Judging stops at the first failure.
struct Judged {
  std::string refused;                  // as Pass::refused, of the prefill or the decode
  bool packed = false;                  // a packed prefill passed
  std::string packed_refused;           // as Pass::refused, of the packed prefill
  std::optional<ChainFailure> failure;  // of a call
  std::string wrong;                    // a failure of the whole although each call is right; or empty
  double worst = 0, worst_whole = 0;    // the largest error/bound of a call, and of the whole
  int64_t judged = 0, open = 0;         // elements, as in Whole

  bool failed() const { return failure || !wrong.empty(); }
};
Judged judge_chain(const Sizes& sizes, const Inputs& inputs, const Kernels& kernels);

}  // namespace attnfuzz::nsa
