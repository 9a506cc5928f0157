// Tools for tests of laid-out memory.
#pragma once

#include <cstring>
#include <functional>

#include "properties/case/places/geometry.h"
#include "properties/memory/layout.h"

namespace attnfuzz {

// A small case without any size of 1: two batch entries, GQA, a broadcast bias, a broadcast mask, key lengths.
Case small_case();

// The address of element (b,h,s,d), computed only from the tensor's view, as in a kernel.
std::byte* element(const LaidOut& laid, const Problem& p, TensorId t, int64_t b, int64_t h, int64_t s,
                   int64_t d);
std::byte* data(const LaidOut& laid, TensorId t);

using VisitElement = std::function<void(int64_t b, int64_t h, int64_t s, int64_t d)>;
void for_each_element(const Problem& p, TensorId t, const VisitElement& visit);

// Writes zeros to all elements of O and LSE, like a kernel that writes everything.
void write_outputs(const LaidOut& laid, const Case& c);

// Lays the case out, writes its outputs, calls `kernel`, and returns the result of check_memory().
std::optional<MemoryFault> after(const Case& c, const std::function<void(const LaidOut&)>& kernel);

}  // namespace attnfuzz
