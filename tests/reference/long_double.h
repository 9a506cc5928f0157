// The bound once more, straight from its definition and in long double.
//
// The oracle streams panels, folds sums together and replaces e^x - 1 by a
// series; this evaluates the formulas of scores.h, tile_walk.h, rounded_p.h and
// weighted_mean.h term by term for one row, knows nothing of the oracle's code, and
// takes a device's figures from its calibration. In are: splits, each split by itself and
// every merge, bias, softcap, every scale mode, chains and tensor cores, every class of
// instruction, converted Q and K, 16-bit partials, all that a plan declares of its order,
// 8-bit formats, P known or not, long rows, and the hull of uninformative rows. It also
// serves as the plain reference for O and LSE.
#pragma once

#include <vector>

#include "tests/reference/support.h"

namespace attnfuzz {

struct LongDoubleRow {
  bool dead = true;
  bool informative = true;  // else o and o_bound are the hull, and lse_bound says nothing
  bool known = false;       // P is: o holds what its rounding makes of `exact`
  std::vector<long double> o, o_bound, exact, o_size;  // o_size: sum_j w_j |v_jc|
  long double lse = 0, lse_bound = 0;
};
// `split`: of the keys of one split alone, as its partial; -1: of all of them, merged.
LongDoubleRow long_double_row(Case& c, int64_t b, int64_t h, int64_t i,
                              const Calibration& device = documented(), int64_t split = -1);

}  // namespace attnfuzz
