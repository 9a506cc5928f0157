// The bound once more, in long double, directly from its definition.
//
// The oracle streams panels, folds sums together and replaces e^x - 1 by a series. This
// evaluates the formulas of scores.h, tile_walk.h, rounded_p.h and weighted_mean.h term by
// term for one row. It uses none of the oracle's code, and takes a device's figures from
// its calibration. It covers splits, single splits and every merge, bias, softcap, every
// scale mode, chains and tensor cores, every class of instruction, converted Q and K,
// 16-bit partials, every declared order, 8-bit formats, P known or not, long rows, and the
// hull of uninformative rows. It is also the plain reference for O and LSE.
#pragma once

#include <vector>

#include "tests/reference/support.h"

namespace attnfuzz {

struct LongDoubleRow {
  bool dead = true;
  bool informative = true;  // false: o and o_bound are the hull, and lse_bound means nothing
  bool known = false;       // true: P is known, and o is `exact` with P rounded
  std::vector<long double> o, o_bound, exact, o_size;  // o_size: sum_j w_j |v_jc|
  long double lse = 0, lse_bound = 0;
};
// `split`: the partial result of only this split; -1: the merged result of all keys.
LongDoubleRow long_double_row(Case& c, int64_t b, int64_t h, int64_t i,
                              const Calibration& device = documented(), int64_t split = -1);

}  // namespace attnfuzz
