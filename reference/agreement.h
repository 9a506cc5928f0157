// Tests if two oracles agree about one call.
//
// States of rows and rules of elements must be equal. Values may differ by kApart of their bound, and
// bounds by kApart of themselves. The oracles add the same numbers in double, but in different orders and with
// different implementations of e^x. These differences are far below a bound. Sums that serve only as bounds
// are added in fp32 on the host, and are larger by kSizesApart at most (products.h). kApart is 2^-17, so a
// verdict depends on it only if the error is that close to its bound.
//
//   if (const Agreement a = compare(fast, slow); !a.difference.empty()) fail(a.difference);
#pragma once

#include <string>

#include "reference/oracle.h"

namespace attnfuzz {

inline constexpr double kApart = 0x1p-17;

struct Agreement {
  double value = 0;  // the largest |value - value| / bound
  double bound = 0;  // the largest |bound - bound| / bound
  // The first disagreement: "o(b=0,h=1,q=5,d=3): 0.25 +- 0.001 and 0.5 +- 0.001"; empty: none.
  std::string difference;
};

// Compares references of the same problem. Ratios are relative to `b`.
Agreement compare(const attn_problem& problem, const Reference& a, const Reference& b);

}  // namespace attnfuzz
