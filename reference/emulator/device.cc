#include "reference/emulator/device.h"

#include <cmath>
#include <initializer_list>

#include "reference/numbers/formats.h"

namespace attnfuzz::emulator {

float Device::tanh(float x) const {
  const float size = std::fabs(x), q = x * x;
  float p = -0x1.6970d8p-8f;
  for (const float next : {0x1.4f5ee6p-6f, -0x1.b7cfeep-5f, 0x1.1103f2p-3f, -0x1.555524p-2f})
    p = std::fma(p, q, next);
  constexpr float kTwoLog2e = 2.88539008177792681f;
  const float result =
      size < 0.65f ? std::fma(size * q, p, size) : std::fma(-2.0f, rcp(ex2(size * kTwoLog2e) + 1.0f), 1.0f);
  return std::copysign(result, x);
}

float round16(int32_t dtype, float x) {
  const uint16_t bits = encode16(dtype, x);
  return static_cast<float>(decode(dtype, &bits, 0));
}

}  // namespace attnfuzz::emulator
