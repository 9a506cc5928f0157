// A hash of values of all kinds of recipes: fills, masks, biases, sinks, slopes, scales of 8-bit keys.
//
// A host and a device must make the same values. A device's compiler fuses a product and a sum, which rounds
// once instead of twice. contracted_values.cc compiles this file in the same way.
#pragma once

#include <cstdint>

#include "properties/data/fill_values.h"
#include "properties/data/fill_values32.h"
#include "properties/data/kv_scale_values.h"
#include "properties/data/mask_values.h"
#include "properties/data/sink_values.h"
#include "properties/data/slope_values.h"

namespace attnfuzz {

// The hash of a seed's values at indices that follow from the seed.
inline uint64_t hash_of_values(uint64_t seed) {
  uint64_t hash = seed;
  const auto take = [&](uint64_t bits) { hash = mix(hash, bits, 0, 0, 0); };
  const auto index = [&](int n) {
    return static_cast<int64_t>(mix(seed, static_cast<uint64_t>(n), 1, 2, 3) % 200);
  };
  const int64_t b = index(0) % 4, h = index(1) % 40, i = index(2), j = index(3);
  for (int kind = 0; kind < kFillKinds; ++kind) {
    const Fill fill = {static_cast<FillKind>(kind), static_cast<int>(index(4) % 9) - 4, seed};
    take(fill_bits(fill, ATTN_F16, b, h, i, j % 64, 64));
    take(fill_bits(fill, ATTN_BF16, b, h, i, j % 64, 64));
    take(fill_bits32(fill, b, h, i, j % 64, 64));
  }
  for (const int32_t dtype : {ATTN_F32, ATTN_F16, ATTN_BF16}) {
    for (int kind = 0; kind < kBiasKinds; ++kind)
      take(
          bias_bits({.dtype = dtype, .kind = static_cast<BiasKind>(kind), .seed = seed}, b, h, i, j, 200, 200));
    for (int kind = 0; kind < kSinkKinds; ++kind)
      take(sink_bits({.dtype = dtype, .kind = static_cast<SinkKind>(kind), .seed = seed}, h));
  }
  for (int kind = 0; kind < kSlopeKinds; ++kind)
    take(std::bit_cast<uint32_t>(slope_value({static_cast<SlopeKind>(kind), true, seed}, b, h)));
  for (int kind = 0; kind < kScaleKinds; ++kind)
    take(std::bit_cast<uint32_t>(kv_scale_value(
        {.kind = static_cast<ScaleKind>(kind), .entries = true, .heads = true, .keys = true, .seed = seed},
        kind % 2 == 0, b, h, j)));
  return hash;
}

}  // namespace attnfuzz
