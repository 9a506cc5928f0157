// Compares a back end's bits with the model of a device (kernels/executor/arithmetic/device/): ex2, lg2,
// rcp and rsqrt of each N-th of all 2^32 inputs; and products of mma.sync and wgmma, as 64 x 64 sums of 64
// products and a start, for each format and each kind of numbers.
//
//   for (const BitFindings& f : compare_bits(device, 1, 100'000'000, ATTN_ARITHMETIC_H200)) ... f.differ ...
//
// The executor computes in the arithmetic of that device and must match the model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reference/calibrate/device.h"

namespace attn {

struct BitFindings {
  std::string what;                   // "ex2"; "wgmma bf16, subnormals"
  uint64_t compared = 0, differ = 0;  // results; NaNs are compared by their bits, too
  // The first difference: a function's input, or the number of a sum.
  uint64_t first = 0;
  uint32_t got = 0, expected = 0;
};

// `products`: at least this many blocks of 16 for each format and kind. `arithmetic`: the device of the
// model; ATTN_ARITHMETIC_ANY means an H200.
std::vector<BitFindings> compare_bits(const Device& device, uint32_t stride, uint64_t products,
                                      int32_t arithmetic);

// The device's results for all fractions: over [1, 2), for rsqrt over [1, 4).
struct Answers {
  const char* function;
  std::vector<uint32_t> bits;
};
std::vector<Answers> all_answers(const Device& device);

}  // namespace attn
