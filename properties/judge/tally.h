// Counts the wrong elements of one output, and keeps one of them to report.
//
// The reported element is the first that is not a number, else the first wrong one. So the kind of a failure
// does not depend on the order of the rows.
#pragma once

#include <cstdint>

namespace attnfuzz {

struct Tally {
  int64_t bad = 0, of = 0;
  bool stray = false;  // the reported element is not a number
  double worst = 0;
  int64_t first_row = -1, first_column = 0;
  double first_ratio = 0;

  // A ratio of at most 1 is right.
  void add(int64_t row, int64_t column, double ratio, bool not_a_number);
};

}  // namespace attnfuzz
