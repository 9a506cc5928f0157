#include "reference/model/assumption.h"

#include <cstddef>
#include <iterator>

namespace attnfuzz {
namespace {

std::string name_of(Assumption::Part part) {
  static constexpr const char* kNames[] = {"accumulator",
                                           "mma block",
                                           "exp",
                                           "log",
                                           "reciprocal",
                                           "tanh",
                                           "scaling",
                                           "format of P",
                                           "format of the partials",
                                           "KV tile",
                                           "rule of the scales of K and V",
                                           "rounding of P"};
  static_assert(std::size(kNames) == static_cast<size_t>(Assumption::Part::kOrderOfP) + 1);
  return kNames[static_cast<size_t>(part)];
}

}  // namespace

std::string Assumption::text() const { return name_of(part) + " not known: " + assumed + " assumed"; }
std::string Assumption::brief() const { return name_of(part) + ": " + assumed; }

}  // namespace attnfuzz
