#include <algorithm>
#include <stdexcept>

#include "reference/call/reference.h"

namespace attnfuzz {
double Expected::ratio(int64_t row, int64_t column, float got) const {
  const auto at = static_cast<size_t>(row * columns + column);
  return ratio_of(static_cast<Due>(rule[at]), value[at], bound[at], overflow, logarithm, got);
}

void Expected::fill_row(int64_t row, Due due, double of, double allowed) {
  std::fill_n(rule.begin() + row * columns, columns, static_cast<uint8_t>(due));
  std::fill_n(value.begin() + row * columns, columns, of);
  std::fill_n(bound.begin() + row * columns, columns, allowed);
  if (!exact.empty()) std::fill_n(exact.begin() + row * columns, columns, of);
}

const Expected& Reference::operator[](TensorId tensor) const {
  const auto found = std::ranges::find(outputs, tensor, &Expected::tensor);
  if (found == outputs.end()) throw std::out_of_range(std::string("the oracle has no ") + name_of(tensor));
  return *found;
}

Expected& Reference::operator[](TensorId tensor) {
  return const_cast<Expected&>(static_cast<const Reference&>(*this)[tensor]);
}

}  // namespace attnfuzz
