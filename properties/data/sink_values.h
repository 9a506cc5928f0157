// The values of sinks, one at a time, on a host and on a device.
//
//   sink_bits(sink, h)    // in the sinks' dtype
#pragma once

#include "properties/case/case.h"
#include "properties/data/mask_values.h"

namespace attnfuzz {
namespace sink_values {

// Separates the hashes of sinks from those of other values with the same seed.
inline constexpr uint64_t kSalt = 0x73696e6b;

// From 8 to 40, in steps of 1/8. fp32 and fp16 hold all of these numbers; bf16 rounds some of those above 32.
ATTN_BOTH inline float far_from_zero(uint64_t hash) { return 8 + static_cast<float>(hash >> 32 & 255) / 8; }

// Far below the scores, where errors relative to the sink are large.
ATTN_BOTH inline float far_below(const Sink& sink) {
  return sink.dtype == ATTN_F16 || sink.seed % 2 == 0 ? -60000.0f : -1e30f;
}

ATTN_BOTH inline SinkKind kind_of_head(const Sink& sink, int64_t h) {
  if (sink.kind != SinkKind::kMixed) return sink.kind;
  return static_cast<SinkKind>(mix(sink.seed ^ kSalt, 1, h, 0, 0) % static_cast<uint64_t>(SinkKind::kMixed));
}

}  // namespace sink_values

// The value of head h before it is rounded to the sinks' dtype.
ATTN_BOTH inline float sink_value(const Sink& sink, int64_t h) {
  const uint64_t hash = mix(sink.seed ^ sink_values::kSalt, 0, h, 0, 0);
  switch (sink_values::kind_of_head(sink, h)) {
    case SinkKind::kGaussian:
      return 2 * mask_values::gaussian(hash);
    case SinkKind::kAbove:
      return sink_values::far_from_zero(hash);
    case SinkKind::kBelow:
      return -sink_values::far_from_zero(hash);
    case SinkKind::kFarBelow:
      return sink_values::far_below(sink);
    case SinkKind::kMinusInf:
      return std::bit_cast<float>(uint32_t{0xff800000});
    default:
      return 0;
  }
}

// The value of head h in the bits of the sinks' dtype.
ATTN_BOTH inline uint32_t sink_bits(const Sink& sink, int64_t h) {
  const float value = sink_value(sink, h);
  if (sink.dtype == ATTN_F32) return std::bit_cast<uint32_t>(value);
  return sink_values::kind_of_head(sink, h) == SinkKind::kMinusInf ? format16(sink.dtype).infinity | 0x8000u
                                                                     : uint32_t{to_bits(sink.dtype, value)};
}

}  // namespace attnfuzz
