// The findings in one output as a whole.
//
// The first wrong element represents all, or the first that is not a number at all. The kind of a failure
// must not depend on where the rows lie.
#pragma once

#include <cstdint>

namespace attnfuzz {

struct Tally {
  int64_t bad = 0, of = 0;
  bool stray = false;  // the first one is not a number
  double worst = 0;
  int64_t first_row = -1, first_column = 0;
  double first_ratio = 0;

  // A ratio of at most 1 is right.
  void add(int64_t row, int64_t column, double ratio, bool not_a_number);
};

}  // namespace attnfuzz
