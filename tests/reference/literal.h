// The bound once more, straight from its definition and in long double.
//
// The oracle streams panels, folds sums together and replaces e^x - 1 by a
// series; this evaluates the formulas of scores.h, tile_walk.h, rounded_p.h and
// weighted_mean.h term by term for one row, knows nothing of the oracle's code, and
// has the figures of one device written out: the documented ones, tensor cores that
// add 16 products with error 2^-23 each, ex2.approx and lg2.approx at 2^-22,
// rcp.approx, tanhf at 4u. In are: splits and every merge, bias, softcap, every scale
// mode, 16-bit partials, all that a plan declares of its order, 8-bit formats, P known
// or not, long rows, and the hull of uninformative rows. It also serves as the plain
// reference for O and LSE.
#pragma once

#include <vector>

#include "tests/reference/support.h"

namespace attnfuzz {

struct LiteralRow {
  bool dead = true;
  bool informative = true;  // else o and o_bound are the hull, and lse_bound says nothing
  bool known = false;       // P is: o holds what its rounding makes of `exact`
  std::vector<long double> o, o_bound, exact, o_size;  // o_size: sum_j w_j |v_jc|
  long double lse = 0, lse_bound = 0;
};
LiteralRow literal_row(Case& c, int64_t b, int64_t h, int64_t i);

}  // namespace attnfuzz
