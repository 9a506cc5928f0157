// The bound once more, straight from its definition and in long double.
//
// The oracle streams panels, folds sums together and replaces e^x - 1 by a
// series; this evaluates the formulas term by term for one row, knows nothing
// of the oracle's code, and has the figures of one plan written out: tensor
// cores that add 16 products with error 2^-23, ex2.approx and lg2.approx at
// 2^-22, rcp.approx. Splits, bias, softcap (tanhf, 4u) and an unfused scale are
// in. It also serves as the plain reference for O and LSE.
#ifndef ATTNFUZZ_TESTS_REFERENCE_LITERAL_H_
#define ATTNFUZZ_TESTS_REFERENCE_LITERAL_H_

#include <vector>

#include "tests/reference/support.h"

namespace attnfuzz {

struct LiteralRow {
  bool dead = true;
  std::vector<long double> o, o_bound, o_size;  // o_size: sum_j w_j |v_jc|
  long double lse = 0, lse_bound = 0;
};
LiteralRow literal_row(Case& c, int64_t b, int64_t h, int64_t i);

}  // namespace attnfuzz

#endif  // ATTNFUZZ_TESTS_REFERENCE_LITERAL_H_
