#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "reference/oracle.h"

namespace attnfuzz {
namespace {

constexpr double kFails = std::numeric_limits<double>::infinity();

}  // namespace

double Expected::ratio(int64_t row, int64_t column, float got) const {
  const auto at = static_cast<size_t>(row * columns + column);
  const Due due = static_cast<Due>(rule[at]);
  if (due == Due::kAnything) return 0;
  if (due == Due::kMustBeNaN) return std::isnan(got) ? 0 : kFails;
  if (std::isnan(got)) return kFails;
  const double centre = value[at], allowed = bound[at];
  if (got == centre) return 0;
  if (std::isinf(got)) return !logarithm && (got > 0 ? centre : -centre) + allowed >= overflow ? 0 : kFails;
  if (std::isinf(allowed)) return 0;
  return allowed > 0 ? std::abs(got - centre) / allowed : kFails;
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
