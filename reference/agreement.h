// Whether two oracles say the same of one call.
//
// States of rows and rules of elements must be equal. Values may lie apart by kApart of their
// bound, bounds by kApart of themselves: both add up the same numbers in double, in another order
// and with other functions of e^x, whose last bits a bound is far above; what the host's adds up in fp32,
// because it only bounds, is larger by kSizesApart at most (products.h). That is 2^-17 of what a
// kernel may be off by, so that no verdict hangs on it but one whose error is its bound.
//
//   if (const Agreement a = compare(fast, slow); !a.difference.empty()) fail(a.difference);
#pragma once

#include <string>

#include "reference/oracle.h"

namespace attnfuzz {

inline constexpr double kApart = 0x1p-17;

struct Agreement {
  double value = 0;  // the largest |value - value| / bound
  double bound = 0;  // and |bound - bound| / bound
  // The first that is not as above: "o(b=0,h=1,q=5,d=3): 0.25 +- 0.001 and 0.5 +- 0.001"; empty: none.
  std::string difference;
};

// Of the same problem; `b` is the one that ratios are relative to.
Agreement compare(const attn_problem& problem, const Reference& a, const Reference& b);

}  // namespace attnfuzz
