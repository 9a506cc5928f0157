// The elements of a request's tensors, as rows that are contiguous in memory.
#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include "fuzz/host/wire.h"
#include "properties/case/case.h"

namespace attnfuzz::worker {

// The bytes of one element, and the four sizes. All sizes are 0 if the tensor is empty.
struct TensorShape {
  int64_t element = 0;
  std::array<int64_t, 4> size = {0, 0, 0, 0};
};
TensorShape shape_of(const wire::Request& request, TensorId tensor);

// Calls row(offset in the arena, bytes, index of its first element) for every distinct row, in the
// order of the indices. If there are more than a million rows, it calls nothing and returns false.
using Row = std::function<void(uint64_t offset, uint64_t bytes, const std::array<int64_t, 4>& index)>;
bool for_each_row(const wire::Request& request, TensorId tensor, const Row& row);

}  // namespace attnfuzz::worker
