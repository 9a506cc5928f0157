#include "properties/memory/inputs.h"

#include <algorithm>
#include <cstring>

#include "properties/data/bits16.h"
#include "properties/data/fills.h"
#include "properties/data/recipe.h"

namespace attnfuzz {

InputRows::InputRows(const Case& c, const PackedCase& packed, TensorId t, float dead_lse,
                     std::span<const std::byte> derived)
    : case_(c),
      packed_(packed),
      tensor_(t),
      dead_lse_(dead_lse),
      plain_(c.remap == Remap{} && c.sides == Pattern{} && shared_keys(c.problem) == 0),
      packs_(packed.packs(t)),
      paged_(in_pages(c.problem, t)),
      derived_(derived),
      columns_(repeated(c, t)[3] ? 1 : logical_size(c.problem, t)[3]),
      element_bytes_(element_bytes(c.problem, t)),
      dtype_(dtype_of(c.problem, t)),
      fill_(fill_of(t) ? &(c.*fill_of(t)) : nullptr) {
  for (int64_t b = 0; b < c.problem.batch; ++b) held_.push_back(rows_held(c, t, b));
  if (c.planted.empty()) return;
  planted_ = planted_at(c);
  std::erase_if(planted_, [t](const Planted& planted) { return planted.tensor != t; });
}

namespace {

void fill_nan(int32_t dtype, int64_t count, std::byte* row) {
  if (dtype == ATTN_F32)
    std::fill_n(reinterpret_cast<uint32_t*>(row), count, uint32_t{0x7fc00000});
  else if (dtype == ATTN_E4M3 || dtype == ATTN_E5M2)
    std::fill_n(row, count, std::byte{0x7f});
  else
    std::fill_n(reinterpret_cast<uint16_t*>(row), count, format16(dtype).nan);
}

void write_indices(int32_t index_dtype, const std::vector<int64_t>& numbers, std::byte* row) {
  if (index_dtype == ATTN_INDEX_64) {
    std::memcpy(row, numbers.data(), numbers.size() * 8);
    return;
  }
  for (size_t n = 0; n < numbers.size(); ++n) {
    const auto narrow = static_cast<int32_t>(numbers[n]);
    std::memcpy(row + 4 * n, &narrow, sizeof narrow);
  }
}

}  // namespace

// Writes a row that belongs to no batch entry, or a slot that holds no key.
void InputRows::write_slack(const Index& at, std::byte* row) const {
  const Problem& p = case_.problem;
  if (is_integer(spec_of(tensor_))) {  // a list: it names block 0, or a block beyond all keys
    const int64_t block = packing_of(p, tensor_)->numbers ? 0 : std::numeric_limits<int32_t>::max();
    return write_indices(p.index_dtype, std::vector<int64_t>(static_cast<size_t>(columns_), block), row);
  }
  if (!(paged_ ? p.paging->numbers : packing_of(p, tensor_)->numbers)) return fill_nan(dtype_, columns_, row);
  // A saved output has no fill of its own.
  static constexpr Fill kGaussian = {.kind = FillKind::kGaussian};
  fill_row(fill_ ? *fill_ : kGaussian, dtype_, paged_ ? at.n[0] : 0, at.n[1], at.n[2], columns_, row);
}

void InputRows::write_values(const Index& at, std::byte* row) const {
  const auto [b, h, s] = at.n;
  if (s >= held_[static_cast<size_t>(b)]) {
    fill_nan(dtype_, columns_, row);
  } else if (plain_) {
    fill_row(*fill_, dtype_, b, h, s, columns_, row);
  } else {
    recipe_row(case_, tensor_, b, h, s, row, dead_lse_);
  }
}

// Key j of a batch entry has one value, wherever it lies. A slot without a key holds NaN, or numbers that no key has.
void InputRows::write_cached(const Index& at, std::byte* row) const {
  const Problem& p = case_.problem;
  const auto [store, h, slot] = at.n;
  const auto fill = [&](int64_t b, int64_t s) { fill_row(*fill_, dtype_, b, h, s, columns_, row); };
  if ((p.features & ATTN_FEATURE_COPY_PAGES) != 0) return fill(store, slot);
  const auto key = p.paging ? packed_.pages().owner({store, slot}) : std::optional(StoredRow{store, slot});
  if (key && key->row < held_keys(p, key->entry)) return fill(key->entry, key->row);
  if (!(p.paging ? p.paging->numbers : !case_.nan_beyond_lengths)) return fill_nan(dtype_, columns_, row);
  fill(store, p.seq_k + slot);
}

// New row i is key i behind those that the cache holds.
void InputRows::write_new(const Index& at, std::byte* row) const {
  const auto [b, h, i] = at.n;
  fill_row(*fill_, dtype_, b, h, held_keys(case_.problem, b) + i, columns_, row);
}

void InputRows::write_derived(const Index& at, std::byte* row) const {
  const auto [batch, heads, rows, columns] = logical_size(case_.problem, tensor_);
  const auto [b, h, s] = at.n;
  const auto bytes = static_cast<size_t>(columns * element_bytes_);
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
  if (!packs_) return write_row(at, row);
  if (const std::optional<Index> place = logical_index(packed_, tensor_, at))
    write_row(*place, row);
  else
    write_slack(at, row);
}

// `at`: (b, h, i) or (b, h, j).
void InputRows::write_row(const Index& at, std::byte* row) {
  if (!derived_.empty()) return write_derived(at, row);
  switch (tensor_) {
    case TensorId::kBias:
      write_bias(at, row);
      break;
    case TensorId::kMask:
      write_mask(at, reinterpret_cast<uint8_t*>(row));
      break;
    case TensorId::kSink: {
      const uint32_t bits = sink_at(case_, at.n[1]);
      std::memcpy(row, &bits, static_cast<size_t>(element_bytes_));  // little-endian
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
    case TensorId::kKScale:
    case TensorId::kVScale: {
      const auto [b, g, j] = at.n;
      if (j >= held_[static_cast<size_t>(b)]) return fill_nan(ATTN_F32, 1, row);
      const float scale = kv_scale_at(case_, tensor_, b, g, j);
      std::memcpy(row, &scale, sizeof scale);
      break;
    }
    case TensorId::kKeyLengths:
      write_indices(case_.problem.index_dtype, *case_.problem.key_lengths, row);
      break;
    case TensorId::kCuQ:
      write_indices(case_.problem.index_dtype, packed_.borders_q(), row);
      break;
    case TensorId::kCuK:
      write_indices(case_.problem.index_dtype, packed_.borders_k(), row);
      break;
    case TensorId::kCacheK:
    case TensorId::kCacheV:
      write_cached(at, row);
      break;
    case TensorId::kKNew:
    case TensorId::kVNew:
      write_new(at, row);
      break;
    case TensorId::kCopies: {
      const PageCopy& copy = case_.copies[static_cast<size_t>(at.n[0])];
      write_indices(case_.problem.index_dtype, {copy.from, copy.to}, row);
      break;
    }
    case TensorId::kIndices:
      write_indices(case_.problem.index_dtype, list_at(case_, at.n[0], at.n[1], at.n[2]), row);
      break;
    case TensorId::kBlockTable:
      write_indices(case_.problem.index_dtype, packed_.pages().row(at.n[0]), row);
      break;
    default:
      write_values(at, row);
  }
  if (planted_.empty()) return;
  for (const Planted& planted : planted_) {
    if (planted.b != at.n[0] || planted.h != at.n[1] || planted.s != at.n[2]) continue;
    std::memcpy(row + planted.d * element_bytes_, &planted.bits, static_cast<size_t>(element_bytes_));  // little-endian
  }
}

}  // namespace attnfuzz
