#include <algorithm>
#include <limits>
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

Expected unset_output(TensorId tensor, int64_t columns, int64_t elements, double overflow) {
  const auto count = static_cast<size_t>(elements);
  Expected out;
  out.tensor = tensor;
  out.columns = columns;
  out.value.assign(count, 0);
  out.bound.assign(count, std::numeric_limits<double>::infinity());
  out.rule.assign(count, static_cast<uint8_t>(Due::kAnything));
  out.overflow = overflow;
  return out;
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
