// The bytes of an array that a case computes instead of drawing it: the saved O of a backward pass, the inputs
// of a step of training.
//
//   laid.derive(TensorId::kSavedLse, stored_bytes(ATTN_F32, lse));
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "kernels/attention.h"
#include "reference/numbers/formats.h"

namespace attnfuzz {

// Rounds each value to nearest even in dtype (any of attn_dtype but ATTN_NONE), and stores them one after
// another.
inline std::vector<std::byte> stored_bytes(int32_t dtype, std::span<const float> values) {
  const bool narrow = dtype == ATTN_E4M3 || dtype == ATTN_E5M2;
  const size_t bytes = dtype == ATTN_F32 ? 4 : narrow ? 1 : 2;
  std::vector<std::byte> out(values.size() * bytes);
  for (size_t n = 0; n < values.size(); ++n) {
    std::byte* const to = &out[n * bytes];
    if (dtype == ATTN_F32) {
      std::memcpy(to, &values[n], bytes);
    } else if (narrow) {
      const uint8_t code = encode8(dtype, values[n]);
      std::memcpy(to, &code, bytes);
    } else {
      const uint16_t half = encode16(dtype, values[n]);
      std::memcpy(to, &half, bytes);
    }
  }
  return out;
}

}  // namespace attnfuzz
