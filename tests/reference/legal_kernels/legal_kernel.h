// Any kernel that a plan allows: the algorithm in fp32 and 16-bit arithmetic. It follows
// the plan's declarations, and chooses at random where the plan leaves something open.
//
// The bound must hold for all of these kernels. Unlike emulation.h, which has one order of
// work, this follows every field of the plan: orders of keys and columns, row maxima, sums,
// merges, conversions, formats of P, V and partials, scale modes. Planted bugs show what
// the bound can catch.
//
//   const Output got = run_as_planned(c, {.seed = 7, .mma = Arithmetic::kHopper});
#pragma once

#include "tests/reference/legal_kernels/emulation.h"

namespace attnfuzz {

enum class Arithmetic {
  kChain,     // one product after another, each addition rounded to nearest
  kTruncate,  // each addition cut off
  kBlocks4,   // four at once, cut off at the last fp32 place of the largest
  kHopper     // sixteen at once, 25 bits below the largest exponent, fp16 subnormals at -14
};

enum class Wrong {
  kNone,
  kDropLastKey,
  kHiddenKeyLeaks,  // the key past the row's last
  kPInBf16,
  kPIn8Bits,
  kAccumulator16,   // the accumulator of P.V has 16 bits
  kPartials16,      // partials have 16 bits, which the plan does not declare
  kNoSmallRescale,  // no rescale if the maximum grows by less than 2^0.25
  kScale9,          // the scale is off by 2^-9
  kScale12,
  kCutP,       // P is truncated instead of rounded
  kCoarseExp,  // the exponential off by up to 2^-20, as a function of its argument
  kFlushP      // P is 0 below 8 times the number up to which it rounds to 0
};
const char* name_of(Wrong wrong);

// Scales of K and V that are folded into scores and P or O: by batch entry, KV head and key.
struct FoldedScales {
  const float *k, *v;
  bool in_p;  // V's scales are folded into P before it is rounded; else into O, and all keys of a head share one scale
};

struct Choices {
  uint64_t seed = 1;
  Arithmetic mma = Arithmetic::kHopper;
  double exp_units = 3;  // the exponential's error before it is rounded, in 2^-24
  Wrong wrong = Wrong::kNone;
  const FoldedScales* folded = nullptr;
};
Output run_as_planned(Case& c, const Choices& how);

}  // namespace attnfuzz
