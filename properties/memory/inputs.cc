#include "properties/memory/inputs.h"

#include <algorithm>
#include <cstring>

#include "properties/data/bits16.h"
#include "properties/data/fills.h"
#include "properties/data/recipe.h"

namespace attnfuzz {

InputRows::InputRows(const Case& c, TensorId t, float dead_lse, std::span<const std::byte> derived)
    : case_(c),
      tensor_(t),
      dead_lse_(dead_lse),
      plain_(c.remap == Remap{} && c.sides == Pattern{}),
      derived_(derived) {
  if (c.planted.empty()) return;
  planted_ = planted_at(c);
  std::erase_if(planted_, [t](const Planted& planted) { return planted.tensor != t; });
}

void InputRows::write_values(const Index& at, std::byte* row) const {
  const Problem& p = case_.problem;
  const auto [b, h, s] = at.n;
  const int64_t dim = repeated(case_, tensor_)[3] ? 1 : logical_size(p, tensor_)[3];
  if (s >= rows_held(case_, tensor_, b)) {
    if (p.dtype == ATTN_F32)
      std::fill_n(reinterpret_cast<uint32_t*>(row), dim, uint32_t{0x7fc00000});
    else
      std::fill_n(reinterpret_cast<uint16_t*>(row), dim, format16(p.dtype).nan);
  } else if (plain_) {
    fill_row(case_.*fill_of(tensor_), dtype_of(p, tensor_), b, h, s, dim, row);
  } else {
    recipe_row(case_, tensor_, b, h, s, row, dead_lse_);
  }
}

void InputRows::write_derived(const Index& at, std::byte* row) const {
  const auto [batch, heads, rows, columns] = logical_size(case_.problem, tensor_);
  const auto [b, h, s] = at.n;
  const auto bytes = static_cast<size_t>(columns * element_bytes(case_.problem, tensor_));
  if (derived_.empty()) {
    std::memset(row, 0, bytes);
  } else {
    std::memcpy(row, derived_.subspan(static_cast<size_t>((b * heads + h) * rows + s) * bytes, bytes).data(), bytes);
  }
}

void InputRows::write_bias(const Index& at, std::byte* row) {
  const Problem& p = case_.problem;
  const auto [b, h, i] = at.n;
  scratch_.resize(static_cast<size_t>(p.seq_k));
  if (plain_) {
    bias_row(*p.bias, b, h, i, p.seq_q, p.seq_k, scratch_.data());
  } else {
    for (int64_t j = 0; j < p.seq_k; ++j) scratch_[static_cast<size_t>(j)] = bias_at(case_, b, h, i, j);
  }
  if (p.bias->dtype == ATTN_F32) {
    std::memcpy(row, scratch_.data(), scratch_.size() * 4);
    return;
  }
  const Format16 format = format16(p.bias->dtype);
  auto* bits = reinterpret_cast<uint16_t*>(row);
  for (size_t j = 0; j < scratch_.size(); ++j) {
    const bool hidden = scratch_[j] < -3.4e38f && std::bit_cast<uint32_t>(scratch_[j]) == 0xff800000;
    bits[j] = hidden ? format.infinity | 0x8000 : from_float(p.bias->dtype, scratch_[j]);
  }
}

void InputRows::write_mask(const Index& at, uint8_t* row) const {
  const Problem& p = case_.problem;
  const auto [b, h, i] = at.n;
  if (plain_) {
    visible_row(p.mask->visible, b, h, i, p.seq_q, p.seq_k, row);
  } else {
    for (int64_t j = 0; j < p.seq_k; ++j) row[j] = mask_at(case_, b, h, i, j);
  }
}

void InputRows::write(const Index& at, std::byte* row) {
  switch (tensor_) {
    case TensorId::kBias:
      write_bias(at, row);
      break;
    case TensorId::kMask:
      write_mask(at, reinterpret_cast<uint8_t*>(row));
      break;
    case TensorId::kSink: {
      const uint32_t bits = sink_at(case_, at.n[1]);
      std::memcpy(row, &bits, static_cast<size_t>(element_bytes(case_.problem, tensor_)));  // little-endian
      break;
    }
    case TensorId::kSavedO:
    case TensorId::kSavedLse:
      write_derived(at, row);
      break;
    case TensorId::kSlopes: {
      const float slope = slope_at(case_, at.n[0], at.n[1]);
      std::memcpy(row, &slope, sizeof slope);
      break;
    }
    case TensorId::kKeyLengths:
      std::memcpy(row, case_.problem.key_lengths->data(), case_.problem.key_lengths->size() * 8);
      break;
    default:
      write_values(at, row);
  }
  if (planted_.empty()) return;
  const int64_t bytes = element_bytes(case_.problem, tensor_);
  for (const Planted& planted : planted_) {
    if (planted.b != at.n[0] || planted.h != at.n[1] || planted.s != at.n[2]) continue;
    std::memcpy(row + planted.d * bytes, &planted.bits, static_cast<size_t>(bytes));  // little-endian
  }
}

}  // namespace attnfuzz
