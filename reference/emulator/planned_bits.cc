#include "reference/emulator/planned_bits.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "reference/call/row_space.h"
#include "reference/call/sequences.h"
#include "reference/emulator/row.h"
#include "reference/numbers/formats.h"
#include "reference/rows/visibility.h"

namespace attnfuzz::emulator {
namespace {

uint32_t bits_at(int32_t dtype, const attn_tensor& tensor, int64_t at) {
  return std::bit_cast<uint32_t>(static_cast<float>(decode(dtype, tensor.data, at)));
}

int64_t whole(int64_t count, int64_t of) { return (count + of - 1) / of * of; }

KeysAndValues load(const attn_problem& p, const attn_tensors& tensors, const attn_plan& plan, int block,
                   int64_t b, int64_t g) {
  const Sequences sequences(p, tensors);
  KeysAndValues kv;
  const int64_t length = key_length(p, tensors, b), rows = whole(length, plan.tile_k);
  kv.width_qk = whole(p.dim_qk, block);
  kv.width_v = p.dim_v;
  kv.k.assign(static_cast<size_t>(rows * kv.width_qk), 0);
  kv.v.assign(static_cast<size_t>(rows * kv.width_v), 0);
  for (int64_t j = 0; j < length; ++j) {
    const StoredRow at = sequences.key_row(b, j);
    for (int64_t t = 0; t < p.dim_qk; ++t)
      kv.k[static_cast<size_t>(j * kv.width_qk + t)] =
          bits_at(p.dtype, tensors.k, offset_of(tensors.k, at.entry, g, at.row, t));
    for (int64_t c = 0; c < p.dim_v; ++c) {
      const uint32_t v = bits_at(p.dtype, tensors.v, offset_of(tensors.v, at.entry, g, at.row, c));
      kv.v[static_cast<size_t>(j * kv.width_v + c)] = v;
      if (!std::isfinite(std::bit_cast<float>(v))) kv.non_finite.push_back({j, c});
    }
  }
  return kv;
}

RowPart row_of(const RowInput& row) {
  const attn_plan& plan = row.plan;
  if (plan.num_splits <= 1) return row_part(row, 0, whole(row.problem.seq_k, plan.tile_k) / plan.tile_k);
  std::vector<RowPart> parts;
  for (int64_t s = 0; s < plan.num_splits; ++s) {
    RowPart& part = parts.emplace_back(row_part(row, s * plan.split_tiles, (s + 1) * plan.split_tiles));
    if (plan.partial_format == ATTN_FORMAT_OF_INPUT)
      for (float& o : part.o) o = round16(row.problem.dtype, o);
  }
  return merge(plan, row.device, parts);
}

}  // namespace

PlannedBits planned_bits(const attn_problem& p, const attn_tensors& tensors, const attn_plan& plan,
                         int32_t arithmetic, const std::vector<int64_t>& rows) {
  const Device device = device_of(arithmetic);
  PlannedBits due;
  due.columns = p.dim_v;
  due.rows = rows;
  const RowSpace space(p);
  const Sequences sequences(p, tensors);
  const int64_t group = p.heads_kv > 0 ? p.heads_q / p.heads_kv : 1;
  KeysAndValues kv;
  Row of = {-1, -1, -1};
  for (const int64_t number : rows) {
    const Row at = space.at(number);
    const int64_t g = at.h / group;
    if (at.b != of.b || g != of.h)
      kv = load(p, tensors, plan, device.products.block, at.b, g), of = {at.b, g, 0};
    RowInput row{p, plan, device, kv, std::vector<uint32_t>(static_cast<size_t>(kv.width_qk)), {}, {}};
    row_keys(p, tensors, at.b, at.h, at.i, 0, p.seq_k, &row.keys);
    const StoredRow query = sequences.query_row(at.b, at.i);
    for (int64_t t = 0; t < p.dim_qk && !row.keys.empty(); ++t)
      row.q[static_cast<size_t>(t)] =
          bits_at(p.dtype, tensors.q, offset_of(tensors.q, query.entry, at.h, query.row, t));
    if (p.bias_dtype != ATTN_NONE) {
      for (const int64_t j : row.keys)
        row.bias.push_back(static_cast<float>(
            decode(p.bias_dtype, tensors.bias.data, offset_of(tensors.bias, at.b, at.h, at.i, j))));
    }
    const RowPart result = row_of(row);
    for (const float o : result.o) due.o.push_back(round16(p.dtype, o));
    due.lse.push_back(result.lse);
    for (const auto& [key, column] : kv.non_finite) {
      if (std::ranges::binary_search(row.keys, key)) continue;
      due.open.resize(rows.size() * static_cast<size_t>(p.dim_v));
      due.open[due.o.size() - static_cast<size_t>(p.dim_v - column)] = 1;
    }
  }
  return due;
}

}  // namespace attnfuzz::emulator
