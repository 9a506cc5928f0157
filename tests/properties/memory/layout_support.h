// Tools of the tests of laid-out memory.
#pragma once

#include <cstring>
#include <functional>

#include "properties/case/geometry.h"
#include "properties/memory/layout.h"

namespace attnfuzz {

// Two batches, GQA, a broadcast bias, a broadcast mask, key lengths: small, but nothing is 1.
Case small_case();

// Element (b,h,s,d) of a tensor as a kernel reaches it: by the view alone.
std::byte* element(const LaidOut& laid, const Problem& p, TensorId t, int64_t b, int64_t h, int64_t s,
                   int64_t d);
std::byte* data(const LaidOut& laid, TensorId t);

using VisitElement = std::function<void(int64_t b, int64_t h, int64_t s, int64_t d)>;
void for_each_element(const Problem& p, TensorId t, const VisitElement& visit);

// Zeros all over O and LSE: what a kernel that writes everything leaves.
void write_outputs(const LaidOut& laid, const Case& c);

// Lays out, writes outputs, lets `kernel` act, and says what check_memory() finds.
std::optional<MemoryFault> after(const Case& c, const std::function<void(const LaidOut&)>& kernel);

}  // namespace attnfuzz
