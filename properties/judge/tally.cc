#include "properties/judge/tally.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attnfuzz {

void Tally::add(int64_t row, int64_t column, double ratio, bool not_a_number) {
  ++of;
  if (ratio <= 1) {
    worst = std::max(worst, ratio);
    return;
  }
  if (bad++ == 0 || (not_a_number && !stray)) {
    stray = not_a_number;
    first_row = row;
    first_column = column;
    first_ratio = ratio;
  }
  // A NaN ratio is as bad as can be.
  worst = ratio > worst ? ratio : std::isnan(ratio) ? std::numeric_limits<double>::infinity() : worst;
}

}  // namespace attnfuzz
