#include "reference/caches.h"

#include <algorithm>
#include <cstring>

#include "reference/call/row_space.h"
#include "reference/call/sequences.h"

namespace attnfuzz {
namespace {

using enum TensorId;

// The bits of `columns` elements of a row.
void read_bits(const attn_problem& p, TensorId t, const attn_tensor& from, const std::array<int64_t, 3>& row,
               int64_t columns, int64_t* bits) {
  const int64_t bytes = element_bytes(spec_of(t), formats_of(p));
  const std::array<int64_t, 4> size = stored_shape_of(spec_of(t), p);
  int64_t at = 0;
  for (size_t n = 0; n < 3; ++n) at += size[n] > 1 ? row[n] * from.stride[n] : 0;
  for (int64_t d = 0; d < columns; ++d) {
    bits[d] = 0;
    const int64_t element = at + (columns > 1 ? d * from.stride[3] : 0);
    std::memcpy(&bits[d], static_cast<const char*>(from.data) + element * bytes, static_cast<size_t>(bytes));
  }
}

// A cache while the operation is carried out.
class Cache {
 public:
  Cache(const attn_problem& p, TensorId t, const attn_tensors& host)
      : problem_(p), size_(shape_of(spec_of(t), p)) {
    expected_.tensor = t;
    expected_.columns = size_[3];
    const int64_t elements = size_[0] * size_[1] * size_[2] * size_[3];
    expected_.integer.resize(static_cast<size_t>(elements));
    expected_.rule.assign(static_cast<size_t>(elements), static_cast<uint8_t>(Due::kNumber));
    const attn_tensor before = view_of(host, spec_of(t));
    for (int64_t n = 0; elements > 0 && n < size_[0]; ++n) {
      for (int64_t h = 0; h < size_[1]; ++h) {
        for (int64_t s = 0; s < size_[2]; ++s) read_bits(p, t, before, {n, h, s}, size_[3], row(n, h, s));
      }
    }
  }

  int64_t heads() const { return size_[1]; }
  int64_t slots() const { return size_[2]; }
  // The row that (store, head, slot) must hold.
  int64_t* row(int64_t store, int64_t h, int64_t slot) {
    return expected_.integer.data() + ((store * size_[1] + h) * size_[2] + slot) * size_[3];
  }
  // Writes row `from` of a tensor into a slot.
  void take(TensorId t, const attn_tensor& tensor, const StoredRow& from, int64_t h, const StoredRow& to) {
    read_bits(problem_, t, tensor, {from.entry, h, from.row}, size_[3], row(to.entry, h, to.row));
  }
  Expected finish() { return std::move(expected_); }

 private:
  const attn_problem& problem_;
  const std::array<int64_t, 4> size_;
  Expected expected_;
};

Reference reference_of(const attn_problem& p, Cache k, Cache v) {
  Reference out;
  out.rows = out.sampled = RowSpace(p).count();
  out.state.assign(static_cast<size_t>(out.rows), RowState::kBounded);
  out.outputs.push_back(k.finish());
  out.outputs.push_back(v.finish());
  return out;
}

}  // namespace

Reference evaluate_append(const attn_problem& p, const attn_tensors& host) {
  require_known(kAppendKnows, p.features);
  Cache k(p, kCacheK, host), v(p, kCacheV, host);
  const Sequences sequences(p, host);
  for (int64_t b = 0; b < p.batch; ++b) {
    const int64_t held = std::clamp<int64_t>(index_at(p.index_dtype, host.key_lengths, b), 0, p.seq_k);
    const int64_t rows = std::min(sequences.queries.length(b), p.seq_k - held);
    for (int64_t i = 0; i < rows; ++i) {
      const StoredRow from = sequences.query_row(b, i), to = sequences.key_row(b, held + i);
      for (int64_t h = 0; h < p.heads_kv; ++h) {
        k.take(kKNew, host.k_new, from, h, to);
        v.take(kVNew, host.v_new, from, h, to);
      }
    }
  }
  Reference out = reference_of(p, std::move(k), std::move(v));
  for (int64_t row = 0; row < out.rows; ++row) {
    const Row at = RowSpace(p).at(row);
    if (at.i >= sequences.queries.length(at.b)) out.state[static_cast<size_t>(row)] = RowState::kAbsent;
  }
  return out;
}

Reference evaluate_copies(const attn_problem& p, const attn_tensors& host) {
  require_known(kCopiesKnow, p.features);
  Cache k(p, kCacheK, host), v(p, kCacheV, host);
  for (int64_t n = 0; n < p.batch; ++n) {
    const int64_t pair = p.batch > 1 ? n * host.copies.stride[0] : 0;
    const int64_t from = index_at(p.index_dtype, host.copies.data, pair),
                  to = index_at(p.index_dtype, host.copies.data, pair + 1);
    for (Cache* cache : {&k, &v}) {
      const int64_t elements = cache->row(1, 0, 0) - cache->row(0, 0, 0);
      if (from != to) std::copy_n(cache->row(from, 0, 0), elements, cache->row(to, 0, 0));
    }
  }
  return reference_of(p, std::move(k), std::move(v));
}

}  // namespace attnfuzz
