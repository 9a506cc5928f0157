// A small fast attention kernel that rounds where a GPU's kernel would.
//
// The bound must hold for the algorithm, not for one implementation of it. So this
// is the algorithm once more, plainly, in fp32 and 16-bit arithmetic: KV tiles with
// an online maximum and rescales, P rounded to 16 bits, and splits merged by their
// LSEs. Its tensor core rounds to nearest, or aligns and truncates; its exponential
// has any error that its class allows. The same code with one planted bug shows
// what the bound catches.
//
//   Output got = emulate(c, {.mma = Mma::kTruncate});
//   Output bad = emulate(c, {.bug = Bug::kNoRescale});
#pragma once

#include <cstdint>
#include <vector>

#include "tests/reference/support.h"

namespace attnfuzz {

enum class Mma {
  kNearest,   // one product after another, each addition rounded to nearest
  kTruncate,  // one after another, each addition truncated
  kAlign      // blocks of 16: every addend cut to 24 bits below the block's largest exponent, the sum truncated
};

enum class ExpError {
  kNone,    // correctly rounded
  kRandom,  // any error up to that of the class
  kUp       // the whole error of the class, always upwards: the worst bias
};

enum class Bug {
  kNone,
  kDropLastKey,      // the tail tile's last key is taken for padding
  kNoRescale,        // the accumulator is not rescaled when the maximum grows
  kDiagonalMissing,  // causal rows of even number do not see their own key
  kScaleOfD2,        // 1/sqrt(d - 2)
  kFlushP,           // probabilities below 2^-7 vanish
  kFiniteInfinity    // -5e4 stands in for minus infinity
};
inline constexpr Bug kBugs[] = {Bug::kDropLastKey, Bug::kNoRescale, Bug::kDiagonalMissing,
                                Bug::kScaleOfD2,   Bug::kFlushP,    Bug::kFiniteInfinity};
const char* name_of(Bug bug);

struct Emulated {
  Mma mma = Mma::kNearest;
  ExpError exp = ExpError::kRandom;
  Bug bug = Bug::kNone;
  uint64_t seed = 1;
};

// Dense, rows as in Reference. O is already rounded to the problem's format.
struct Output {
  std::vector<float> o;
  std::vector<float> lse;
};
Output emulate(Case& c, const Emulated& how);

// Split-K's first stage: (split, row, dim_v) and (split, row), fp32.
Output emulate_partials(Case& c, const Emulated& how);

// Its second stage, fed with any partials.
Output emulate_reduce(const Case& c, const Output& partials, const Emulated& how);

// The largest ratio over all rows and columns.
struct Worst {
  double o = 0;
  double lse = 0;
  // The number of elements of O and LSE that a finite bound judged. Rows that see no key do not count. A test
  // that expects a ratio of at most 1 must also expect that something was judged.
  int64_t judged = 0;
};
Worst worst_of(const Reference& reference, const Output& output);

}  // namespace attnfuzz
