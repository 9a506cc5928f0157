#include "properties/case/planted_rank.h"

#include <array>

namespace attnfuzz {
namespace {

// Ascending as integers, which ranks below rely on.
std::array<uint32_t, 4> well_known(int32_t dtype) {
  switch (dtype) {
    case ATTN_F16:
      return {0, 0x3c00, 0x7c00, 0x7e00};
    case ATTN_BF16:
      return {0, 0x3f80, 0x7f80, 0x7fc0};
    default:
      return {0, 0x3f800000, 0x7f800000, 0x7fc00000};
  }
}

}  // namespace

uint32_t planted_rank(uint32_t bits, int32_t dtype) {
  const auto known = well_known(dtype);
  uint32_t below = 0;
  for (uint32_t i = 0; i < known.size(); ++i) {
    if (bits == known[i]) return i;
    below += known[i] < bits;
  }
  return bits - below + static_cast<uint32_t>(known.size());
}

uint32_t bits_of_rank(uint32_t rank, int32_t dtype) {
  const auto known = well_known(dtype);
  if (rank < known.size()) return known[rank];
  uint32_t bits = rank - static_cast<uint32_t>(known.size());
  for (const uint32_t special : known) bits += special <= bits;
  return bits;
}

int32_t planted_dtype(const Case& c, const Planted& x) {
  if (x.tensor == TensorId::kBias && c.problem.bias) return c.problem.bias->dtype;
  return c.problem.dtype;
}

}  // namespace attnfuzz
