#include "properties/data/recipe.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>

#include "properties/case/places/geometry.h"
#include "properties/case/places/packed.h"
#include "properties/case/places/selection.h"
#include "properties/data/fills.h"
#include "properties/data/kv_scale_values.h"
#include "properties/data/sink_values.h"
#include "properties/data/slope_values.h"
#include "reference/numbers/formats.h"
#include "reference/semantics.h"

namespace attnfuzz {
namespace {

int64_t columns_of(const Problem& p, TensorId tensor) { return size_of(spec_of(tensor).shape[3], p); }

// The columns that are stored.
int64_t columns_held(const Case& c, TensorId tensor) {
  return repeated(c, tensor)[3] ? 1 : columns_of(c.problem, tensor);
}

struct Indices {
  int64_t b, h, s;
};

// The batch entry whose values a tensor holds at place s of entry b: 0 for keys of shared pages.
int64_t stored_entry(const Case& c, bool keys, int64_t b, int64_t s) {
  return keys && s < shared_keys(c.problem) ? 0 : b;
}
// The batch entry of the recipe that entry b gets its values from. `at`: the row in the recipe.
int64_t entry_source(const Case& c, bool keys, int64_t b, int64_t at, int64_t length) {
  return keys && at < c.remap.shared_keys ? 0 : source(c.remap.batch, b, length);
}

// The indices in the recipe of row (b,h,s) of an input with a fill.
Indices row_source(const Case& c, TensorId tensor, int64_t b, int64_t h, int64_t s) {
  static const Remap kIdentity;
  const auto [once_batch, once_head, once_row, once_column] = repeated(c, tensor);
  const bool keys = of_keys(spec_of(tensor));
  b = stored_entry(c, keys, b, s);
  if (c.remap == kIdentity) return {once_batch ? 0 : b, once_head ? 0 : h, once_row ? 0 : s};
  const Remap& r = c.remap;
  const int64_t length = key_length(c.problem, b);
  const bool queries = of_queries(spec_of(tensor));
  const int64_t at = once_row ? 0 : source(queries ? r.query : r.key, s, length);
  return {once_batch ? 0 : entry_source(c, keys, b, at, length),
          once_head ? 0 : source(queries ? r.head_q : r.head_kv, h, length), at};
}

// The indices of the recipe for an entry of bias or mask. Broadcast dimensions stay at 0.
struct PairIndices {
  int64_t b, h, i, j, seq_q, seq_k;
};
PairIndices pair_source(const Case& c, const Broadcast& broadcast, int64_t b, int64_t h, int64_t i, int64_t j) {
  const Remap& r = c.remap;
  const int64_t length = key_length(c.problem, b);
  return {broadcast.batch ? 0 : source(r.batch, b, length),
          broadcast.head ? 0 : source(r.head_q, h, length),
          broadcast.query ? 0 : source(r.query, i, length),
          source(r.key, j, length),
          r.seq_q ? r.seq_q : c.problem.seq_q,
          r.seq_k ? r.seq_k : c.problem.seq_k};
}

void add_row(const Fill& fill, int32_t dtype, const Indices& at, int64_t n, void* out) {
  std::vector<uint32_t> added(n);
  fill_row(fill, dtype, at.b, at.h, at.s, n, added.data());
  const int64_t bytes = dtype_bytes(dtype);
  for (int64_t d = 0; d < n; ++d) {
    const auto sum = static_cast<float>(decode(dtype, out, d) + decode(dtype, added.data(), d));
    const uint32_t bits = bits_of(dtype, sum);
    std::memcpy(static_cast<std::byte*>(out) + d * bytes, &bits, static_cast<size_t>(bytes));  // little-endian
  }
}

// True if the tensor is V, and V is the first columns of K.
bool is_latent(const Case& c, TensorId tensor) { return tensor == TensorId::kV && c.problem.latent; }

// The side of a merge that a tensor belongs to: 0 or 1; -1: to none.
int side_of(TensorId tensor) {
  return tensor == TensorId::kO1 || tensor == TensorId::kLse1   ? 0
         : tensor == TensorId::kO2 || tensor == TensorId::kLse2 ? 1
                                                                : -1;
}

}  // namespace

bool saw_keys(const Case& c, TensorId tensor, int64_t b, int64_t h, int64_t i) {
  const int side = side_of(tensor);
  return side < 0 || visible(c.sides, b, h, i, side, c.problem.seq_q, 2);
}

int64_t key_length(const Problem& p, int64_t b) { return lengths_of(p, b).keys; }

int64_t rows_present(const Problem& p) {
  const int64_t heads = p.scores_blocks() ? p.heads_kv : p.heads_q;
  if (!p.packed_q) return p.batch * heads * p.seq_q;
  int64_t queries = 0;
  for (int64_t b = 0; b < p.batch; ++b) queries += lengths_of(p, b).queries;
  return queries * heads;
}

int64_t rows_held(const Case& c, TensorId tensor, int64_t b) {
  const Problem& p = c.problem;
  if (in_pages(p, tensor)) return key_length(p, b);
  if (!c.nan_beyond_lengths || !of_keys(spec_of(tensor))) {
    const int64_t rows = size_of(spec_of(tensor).shape[2], p);
    const auto& packing = packing_of(p, tensor);
    return packing ? packed_length(*packing, rows, b) : rows;
  }
  if (!repeated(c, tensor)[0]) return key_length(p, b);
  int64_t longest = 0;
  for (int64_t entry = 0; entry < p.batch; ++entry) longest = std::max(longest, key_length(p, entry));
  return longest;
}

void recipe_row(const Case& c, TensorId tensor, int64_t b, int64_t h, int64_t s, void* out, float dead_lse) {
  const int64_t n = columns_held(c, tensor);
  if (is_latent(c, tensor)) {
    std::vector<uint32_t> keys(static_cast<size_t>(c.problem.dim_qk));
    recipe_row(c, TensorId::kK, b, h, s, keys.data(), dead_lse);
    std::memcpy(out, keys.data(), static_cast<size_t>(n * element_bytes(c.problem, tensor)));
    return;
  }
  const Indices at = row_source(c, tensor, b, h, s);
  fill_row(c.*fill_of(tensor), dtype_of(c.problem, tensor), at.b, at.h, at.s, n, out);
  if (!saw_keys(c, tensor, at.b, at.h, at.s)) {
    const float none = spec_of(tensor).varied.by_plan ? dead_lse : 0;
    const uint32_t bits = bits_of(dtype_of(c.problem, tensor), none);
    const int64_t bytes = element_bytes(c.problem, tensor);
    for (int64_t d = 0; d < n; ++d)
      std::memcpy(static_cast<std::byte*>(out) + d * bytes, &bits, static_cast<size_t>(bytes));
  }
  if (tensor == TensorId::kK && c.remap.k_shift) {
    add_row(*c.remap.k_shift, dtype_of(c.problem, tensor), {at.b, at.h, 0}, n, out);
  }
  if (tensor == TensorId::kV && c.remap.v_added)
    add_row(*c.remap.v_added, dtype_of(c.problem, tensor), at, n, out);
}

bool mask_at(const Case& c, int64_t b, int64_t h, int64_t i, int64_t j) {
  const Mask& mask = *c.problem.mask;
  const PairIndices at = pair_source(c, mask.broadcast, b, h, i, j);
  return visible(mask.visible, at.b, at.h, at.i, at.j, at.seq_q, at.seq_k);
}

float bias_at(const Case& c, int64_t b, int64_t h, int64_t i, int64_t j) {
  const Bias& bias = *c.problem.bias;
  const PairIndices at = pair_source(c, bias.broadcast, b, h, i, j);
  return bias_value(bias, at.b, at.h, at.i, at.j, at.seq_q, at.seq_k);
}

namespace {

// The indices in the recipe whose pseudo-random numbers a list has.
Row list_source(const Case& c, int64_t b, int64_t g, int64_t i) {
  const Remap& r = c.remap;
  const int64_t length = key_length(c.problem, b);
  return {source(r.batch, b, length), source(r.head_kv, g, length), source(r.query, i, length)};
}

}  // namespace

std::vector<int64_t> list_at(const Case& c, int64_t b, int64_t g, int64_t i) {
  return listed_blocks(c.problem, b, i, list_source(c, b, g, i));
}

uint32_t sink_at(const Case& c, int64_t h) {
  return sink_bits(*c.problem.sink, source(c.remap.head_q, h, c.problem.seq_k));
}

float slope_at(const Case& c, int64_t b, int64_t h) {
  const Slopes& slopes = *c.problem.slopes;
  const int64_t seq_k = c.problem.seq_k;
  return slope_value(slopes, slopes.entries ? source(c.remap.batch, b, seq_k) : 0, source(c.remap.head_q, h, seq_k));
}

float kv_scale_at(const Case& c, TensorId tensor, int64_t b, int64_t g, int64_t j) {
  const KvScales& scales = *scales_of(c.problem, tensor);
  const Indices at = row_source(c, tensor, b, g, j);
  return kv_scale_value(scales, tensor == TensorId::kVScale, at.b, at.h, at.s);
}

namespace {

// The scale of an element of 8-bit K or V. All other elements have 1.
double factor_at(const Case& c, TensorId tensor, int64_t b, int64_t h, int64_t s) {
  if (!c.problem.kv8 || (tensor != TensorId::kK && tensor != TensorId::kV)) return 1;
  return kv_scale_at(c, tensor == TensorId::kK ? TensorId::kKScale : TensorId::kVScale, b, h, s);
}

}  // namespace

std::vector<Planted> planted_at(const Case& c) {
  static const Remap kIdentity;
  if ((c.remap == kIdentity && shared_keys(c.problem) == 0) || c.planted.empty()) return c.planted;
  const Problem& p = c.problem;
  const Remap& r = c.remap;
  std::vector<Planted> found;
  for (const Planted& plant : c.planted) {
    const bool pair = plant.tensor == TensorId::kBias, query = of_queries(spec_of(plant.tensor)),
               keys = of_keys(spec_of(plant.tensor));
    Broadcast broadcast = pair && p.bias ? p.bias->broadcast : Broadcast{};
    const std::array<bool, 4> once = repeated(c, plant.tensor);
    broadcast.batch |= once[0], broadcast.head |= once[1], broadcast.query |= once[2];
    const int64_t heads = broadcast.head ? 1 : query ? p.heads_q : p.heads_kv;
    const int64_t rows = broadcast.query ? 1 : query ? p.seq_q : p.seq_k;
    for (int64_t b = 0; b < (broadcast.batch ? 1 : p.batch); ++b) {
      const int64_t length = key_length(p, b);
      const auto from = [length](bool repeated, const Axis& axis, int64_t i) {
        return repeated ? 0 : source(axis, i, length);
      };
      // If keys may be shared, the batch entry depends on the row and is compared below.
      const bool shares = keys && (shared_keys(p) > 0 || r.shared_keys > 0);
      if (!shares && from(broadcast.batch, r.batch, b) != plant.b) continue;
      for (int64_t h = 0; h < heads; ++h) {
        if (from(broadcast.head, query ? r.head_q : r.head_kv, h) != plant.h) continue;
        for (int64_t s = 0; s < rows; ++s) {
          const int64_t at = from(broadcast.query, query ? r.query : r.key, s);
          if (at != plant.s) continue;
          if (shares && entry_source(c, keys, stored_entry(c, keys, b, s), at, length) != plant.b) continue;
          for (int64_t d = 0; d < (pair ? p.seq_k : 1); ++d) {
            if (pair && source(r.key, d, length) != plant.d) continue;
            found.push_back({plant.tensor, b, h, s, pair ? d : plant.d, plant.bits});
          }
        }
      }
    }
  }
  return found;
}

double value_at(const Case& c, TensorId tensor, int64_t b, int64_t h, int64_t s, int64_t d) {
  const Problem& p = c.problem;
  if (is_latent(c, tensor)) return value_at(c, TensorId::kK, b, h, s, d);
  if (tensor == TensorId::kSink) {
    const uint32_t bits = sink_at(c, h);
    return decode(p.sink->dtype, &bits, 0);
  }
  if (tensor == TensorId::kSlopes) return slope_at(c, b, h);
  if (scales_of(p, tensor)) return kv_scale_at(c, tensor, b, h, s);
  const bool pair = tensor == TensorId::kBias;
  const std::array<bool, 4> once = repeated(c, tensor);
  const Indices at = {once[0] ? 0 : b, once[1] ? 0 : h, once[2] ? 0 : s};
  if (once[3]) d = 0;
  const std::vector<Planted> planted = planted_at(c);
  const auto plant = std::find_if(planted.rbegin(), planted.rend(), [&](const Planted& x) {
    return x.tensor == tensor && x.b == at.b && x.h == at.h && x.s == at.s && x.d == d;
  });
  const double factor = factor_at(c, tensor, b, h, s);
  if (plant != planted.rend()) return factor * decode(dtype_of(p, tensor), &plant->bits, 0);
  if (pair) return bias_at(c, b, h, s, d);
  if (s >= rows_held(c, tensor, b)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  std::vector<uint32_t> row(columns_of(p, tensor));
  recipe_row(c, tensor, b, h, s, row.data());
  return factor * decode(dtype_of(p, tensor), row.data(), d);
}

std::vector<double> matrix_at(const Case& c, TensorId tensor, int64_t b, int64_t h) {
  const Problem& p = c.problem;
  if (is_latent(c, tensor)) {
    const std::vector<double> keys = matrix_at(c, TensorId::kK, b, h);
    std::vector<double> out;
    for (int64_t s = 0; s < p.seq_k; ++s) out.insert(out.end(), &keys[s * p.dim_qk], &keys[s * p.dim_qk] + p.dim_v);
    return out;
  }
  const int64_t columns = columns_of(p, tensor), rows = size_of(spec_of(tensor).shape[2], p);
  const int64_t length = rows_held(c, tensor, b);
  const std::array<bool, 4> once = repeated(c, tensor);
  std::vector<double> out(rows * columns, std::numeric_limits<double>::quiet_NaN());
  std::vector<uint32_t> row(columns);
  for (int64_t s = 0; s < length; ++s) {
    recipe_row(c, tensor, b, h, s, row.data());
    decode_strided(dtype_of(p, tensor), row.data(), 0, once[3] ? 0 : 1, columns, &out[s * columns]);
  }
  for (const Planted& x : planted_at(c)) {
    if (x.tensor != tensor || x.b != (once[0] ? 0 : b) || x.h != (once[1] ? 0 : h)) continue;
    const double value = decode(dtype_of(p, tensor), &x.bits, 0);
    for (int64_t s = x.s; s < (once[2] ? rows : x.s + 1); ++s) {
      for (int64_t d = x.d; d < (once[3] ? columns : x.d + 1); ++d) out[s * columns + d] = value;
    }
  }
  for (int64_t s = 0; s < rows && p.kv8; ++s) {
    const double factor = factor_at(c, tensor, b, h, s);
    for (int64_t d = 0; d < columns; ++d) out[s * columns + d] *= factor;
  }
  return out;
}

bool sees(const Case& c, int64_t b, int64_t h, int64_t i, int64_t j) {
  const Problem& p = c.problem;
  if (!visible(p, lengths_of(p, b), i, j)) return false;
  if (p.selects() && !lists(p, b, i, list_source(c, b, h / (p.heads_q / p.heads_kv), i), j)) return false;
  if (p.mask && !mask_at(c, b, h, i, j)) return false;
  if (!p.bias) return true;
  const bool planted = std::any_of(c.planted.begin(), c.planted.end(),
                                   [](const Planted& x) { return x.tensor == TensorId::kBias; });
  return !hides(planted ? value_at(c, TensorId::kBias, b, h, i, j) : bias_at(c, b, h, i, j));
}

uint32_t bits_of(int32_t dtype, float value) {
  if (dtype == ATTN_E4M3 || dtype == ATTN_E5M2) return encode8(dtype, value);
  return dtype == ATTN_F32 ? std::bit_cast<uint32_t>(value) : encode16(dtype, value);
}

}  // namespace attnfuzz
