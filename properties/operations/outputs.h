// The outputs of a call, each as dense rows x columns in the order of its TensorSpec.
//
// An output of numbers is read as floats, an output of integers as integers, and a state as the bits of its
// elements (read_as_integers()). An output that the call does not have is empty.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "reference/call/tensor_spec.h"

namespace attnfuzz {

class Outputs {
 public:
  std::vector<float>& operator[](TensorId t) { return values_[static_cast<size_t>(t)]; }
  const std::vector<float>& operator[](TensorId t) const { return values_[static_cast<size_t>(t)]; }
  std::vector<int64_t>& integers(TensorId t) { return integers_[static_cast<size_t>(t)]; }
  const std::vector<int64_t>& integers(TensorId t) const { return integers_[static_cast<size_t>(t)]; }
  // The number of elements of an output of either kind.
  size_t size(TensorId t) const {
    return read_as_integers(spec_of(t)) ? integers(t).size() : (*this)[t].size();
  }

 private:
  std::array<std::vector<float>, kTensorCount> values_;
  std::array<std::vector<int64_t>, kTensorCount> integers_;
};

}  // namespace attnfuzz
