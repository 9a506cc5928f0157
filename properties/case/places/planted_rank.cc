#include "properties/case/places/planted_rank.h"

#include <array>
#include <bit>
#include <cmath>

#include "properties/case/places/geometry.h"
#include "reference/numbers/formats.h"

namespace attnfuzz {
namespace {

// Ascending as integers, as the ranks below require.
std::array<uint32_t, 4> well_known(int32_t dtype) {
  const KnownBits known = known_bits(dtype);
  return {0, known.one, known.infinity, known.nan};
}

uint32_t converted(uint32_t bits, int32_t from, int32_t to) {
  const KnownBits old = known_bits(from), known = known_bits(to);
  const uint32_t size = bits & (old.sign - 1), sign = bits & old.sign ? known.sign : 0;
  if (size > old.infinity) return known.nan;
  if (size == old.infinity) return sign | known.infinity;
  if (from == to || (from != ATTN_F32 && to != ATTN_F32)) return bits;
  const double value = decode(from, &bits, 0);
  // A finite value stays finite.
  if (std::abs(value) > decode(to, &known.largest, 0)) return sign | known.largest;
  return to == ATTN_F32 ? std::bit_cast<uint32_t>(static_cast<float>(value))
                        : encode16(to, static_cast<float>(value));
}

}  // namespace

KnownBits known_bits(int32_t dtype) {
  switch (dtype) {
    case ATTN_F16:
      return {0x3c00, 0x7c00, 0x7e00, 0x8000, 0x7bff};
    case ATTN_BF16:
      return {0x3f80, 0x7f80, 0x7fc0, 0x8000, 0x7f7f};
    case ATTN_E4M3:
      return {0x38, 0x7e, 0x7f, 0x80, 0x7e};
    case ATTN_E5M2:
      return {0x3c, 0x7c, 0x7e, 0x80, 0x7b};
    default:
      return {0x3f800000, 0x7f800000, 0x7fc00000, 0x80000000, 0x7f7fffff};
  }
}

void set_dtype(Case& c, int32_t dtype) {
  if (c.problem.dtype == dtype) return;
  for (Planted& x : c.planted) {
    const Element element = spec_of(x.tensor).element;
    const bool of_input = element == Element::kInput || (element == Element::kKv && !c.problem.kv8);
    if (of_input) x.bits = converted(x.bits, c.problem.dtype, dtype);
  }
  c.problem.dtype = dtype;
}

void set_kv8(Case& c, const std::optional<Kv8>& to) {
  const auto dtype = [&] { return c.problem.kv8 ? dtype_of(c.problem.kv8->format) : c.problem.dtype; };
  const int32_t before = dtype();
  const bool ends = c.problem.kv8.has_value() && !to;
  c.problem.kv8 = to;
  if (ends)
    c.layout[static_cast<size_t>(TensorId::kKScale)] = c.layout[static_cast<size_t>(TensorId::kVScale)] = {};
  const int32_t now = dtype();
  if (now == before) return;
  for (Planted& x : c.planted) {
    if (x.tensor != TensorId::kK && x.tensor != TensorId::kV) continue;
    const double value = decode(before, &x.bits, 0);
    x.bits = now == ATTN_F32 ? std::bit_cast<uint32_t>(static_cast<float>(value))
             : to            ? encode8(now, value)
                             : encode16(now, static_cast<float>(value));
  }
}

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
  if (x.tensor == TensorId::kBias && !c.problem.bias) return c.problem.dtype;
  return dtype_of(c.problem, x.tensor);
}

}  // namespace attnfuzz
