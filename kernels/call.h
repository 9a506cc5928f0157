// A call of a kernel: its arguments, where its elements lie, and a refusal of it.
//
//   const attn_tensors t = attn::strided(call.problem, call.tensors);   // strides of single elements are 0
//   const attn::KeyPlace at = attn::key_place(call.problem, t, b, j);   // also in pages, or packed
#pragma once

#include <stdint.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "kernels/attention.h"

namespace attn {

// A status other than ATTN_OK, and the sentence that plan() gives for it.
struct Refusal {
  attn_status status = ATTN_OK;
  std::string reason;
  explicit operator bool() const { return status != ATTN_OK; }
};

// The arguments of a call.
struct Call {
  attn_problem problem;
  attn_tensors tensors;
  attn_env env;
};

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// a * b * c, or -1 if it exceeds `limit`.
inline int64_t product_within(int64_t a, int64_t b, int64_t c, int64_t limit) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product) || __builtin_mul_overflow(product, c, &product)) return -1;
  return product > limit ? -1 : product;
}

// The most blocks of a one-dimensional CUDA grid.
inline constexpr int64_t kMaxBlocks = 2147483647;

// The tensor with strides that are safe for addresses. The stride of a dimension of one element may be
// anything, so it is replaced by 0, or by 1 in the last dimension.
inline attn_tensor strided(const attn_tensor& tensor, int64_t n0, int64_t n1, int64_t n2, int64_t n3) {
  const int64_t shape[4] = {n0, n1, n2, n3};
  attn_tensor result = {tensor.data, {}};
  for (int i = 0; i < 4; ++i) result.stride[i] = shape[i] > 1 ? tensor.stride[i] : i == 3 ? 1 : 0;
  return result;
}

// The numbers of batch entries and rows that a tensor of queries, or of keys, has in memory.
struct Rows {
  int64_t entries, count;
};
inline Rows rows_of_queries(const attn_problem& p) {
  return (p.ragged & ATTN_RAGGED_QUERIES) != 0 ? Rows{1, p.total_q} : Rows{p.batch, p.seq_q};
}
inline Rows rows_of_keys(const attn_problem& p) {
  if (p.page_size != 0) return {p.pages, p.page_size};
  return (p.ragged & ATTN_RAGGED_KEYS) != 0 ? Rows{1, p.total_k} : Rows{p.batch, p.seq_k};
}

// Element n of an array of lengths or offsets (attn_problem.index_dtype) in host memory.
//
//   const int64_t first = attn::index_at(p, t.cu_q, b), queries = attn::index_at(p, t.cu_q, b + 1) - first;
inline int64_t index_at(const attn_problem& p, const void* array, int64_t n) {
  return p.index_dtype == ATTN_INDEX_32 ? static_cast<const int32_t*>(array)[n] : static_cast<const int64_t*>(array)[n];
}

// The place of key j of batch entry b in K and in V: the indices of their first and third dimensions. The block
// table must be in host memory.
//
//   const attn::KeyPlace at = attn::key_place(p, t, b, j);
//   const auto* key = static_cast<const uint16_t*>(t.k.data) + at.first * t.k.stride[0] + g * t.k.stride[1] +
//                     at.row * t.k.stride[2];
struct KeyPlace {
  int64_t first, row;
};
inline KeyPlace key_place(const attn_problem& p, const attn_tensors& t, int64_t b, int64_t j) {
  if (p.page_size != 0)
    return {index_at(p, t.block_table.data, b * t.block_table.stride[0] + j / p.page_size), j % p.page_size};
  if ((p.ragged & ATTN_RAGGED_KEYS) != 0) return {0, index_at(p, t.cu_k, b) + j};
  return {b, j};
}

// The number of blocks of keys, or of positions if keys stand for blocks; 0 if the problem has no blocks.
inline int64_t blocks_of_keys(const attn_problem& p) {
  const int64_t positions = p.key_step > 0 ? p.seq_k * p.key_step + p.key_offset : p.seq_k;
  return p.block == 0 ? 0 : ceil_div(positions, p.block);
}

// Calls visit(tensor, shape) for each tensor with strides.
template <class Tensors, class Visit>
void each_tensor(const attn_problem& p, Tensors& t, Visit visit) {
  using Shape = std::array<int64_t, 4>;
  const Rows q = rows_of_queries(p), k = rows_of_keys(p);
  const auto queries = [&](int64_t heads, int64_t columns) { return Shape{q.entries, heads, q.count, columns}; };
  const auto keys = [&](int64_t columns) { return Shape{k.entries, p.heads_kv, k.count, columns}; };
  const auto rows = [&](int64_t columns) { return Shape{p.batch, p.heads_q, p.seq_q, columns}; };
  for (auto* tensor : {&t.q, &t.dq}) visit(*tensor, queries(p.heads_q, p.dim_qk));
  for (auto* tensor : {&t.o, &t.dout}) visit(*tensor, queries(p.heads_q, p.dim_v));
  for (auto* tensor : {&t.lse, &t.dlse}) visit(*tensor, queries(p.heads_q, 1));
  for (auto* tensor : {&t.k_new, &t.k_cmp}) visit(*tensor, queries(p.heads_kv, p.dim_qk));
  for (auto* tensor : {&t.v_new, &t.v_cmp}) visit(*tensor, queries(p.heads_kv, p.dim_v));
  visit(t.indices, queries(p.heads_kv, p.select));
  visit(t.scores, queries(p.heads_kv, blocks_of_keys(p)));
  for (auto* tensor : {&t.k, &t.dk}) visit(*tensor, keys(p.dim_qk));
  for (auto* tensor : {&t.v, &t.dv}) visit(*tensor, keys(p.dim_v));
  for (auto* tensor : {&t.k_scale, &t.v_scale}) visit(*tensor, Shape{p.batch, p.heads_kv, p.seq_k, 1});
  for (auto* tensor : {&t.bias, &t.mask, &t.dbias}) visit(*tensor, rows(p.seq_k));
  for (auto* tensor : {&t.o1, &t.o2, &t.o3}) visit(*tensor, rows(p.dim_v));
  for (auto* tensor : {&t.lse1, &t.lse2}) visit(*tensor, rows(1));
  visit(t.gates, rows(3));
  visit(t.slopes, Shape{p.batch, p.heads_q, 1, 1});
  visit(t.dsink, Shape{1, p.heads_q, 1, 1});
  visit(t.block_table, Shape{p.batch, 1, 1, p.pages_per_seq});
  visit(t.copies, Shape{p.batch, 1, 1, 2});
}

// All tensors with strides that are safe for addresses, each by its shape.
inline attn_tensors strided(const attn_problem& p, attn_tensors t) {
  each_tensor(p, t, [](attn_tensor& tensor, const std::array<int64_t, 4>& n) {
    tensor = strided(tensor, n[0], n[1], n[2], n[3]);
  });
  return t;
}

inline uint64_t magnitude(int64_t value) {
  return value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}

// True if two elements of an output share an address, so that the result depends on which is written last. The
// answer is exact if each stride is beyond the reach of all smaller strides; every sensible layout is of this
// kind.
inline bool overlaps(const attn_tensor& tensor, std::array<int64_t, 4> shape) {
  if (std::ranges::any_of(shape, [](int64_t n) { return n == 0; })) return false;
  std::array<int, 4> order = {0, 1, 2, 3};
  std::ranges::sort(order, {}, [&](int i) { return magnitude(tensor.stride[i]); });
  unsigned __int128 reach = 1;  // strides are arbitrary, and their products with sizes exceed 64 bits
  for (int i : order) {
    if (shape[i] == 1) continue;
    if (magnitude(tensor.stride[i]) < reach) return true;
    reach += static_cast<unsigned __int128>(shape[i] - 1) * magnitude(tensor.stride[i]);
  }
  return false;
}

namespace plug_in_detail {

// The bits of operations other than the forward pass.
inline constexpr uint64_t kOtherOperations = ATTN_FEATURE_MERGE | ATTN_FEATURE_BACKWARD | ATTN_FEATURE_APPEND |
                                             ATTN_FEATURE_COPY_PAGES | ATTN_FEATURE_SELECTED | ATTN_FEATURE_NSA_SELECT |
                                             ATTN_FEATURE_NSA_COMPRESS | ATTN_FEATURE_NSA_COMBINE |
                                             ATTN_FEATURE_SELECTED_BACKWARD | ATTN_FEATURE_NSA_SCORE;
// The operations that give gradients, and those that read lists of blocks.
inline constexpr uint64_t kGradients = ATTN_FEATURE_BACKWARD | ATTN_FEATURE_SELECTED_BACKWARD,
                          kOfLists = ATTN_FEATURE_SELECTED | ATTN_FEATURE_SELECTED_BACKWARD;
// The operations that write lists of blocks.
inline constexpr uint64_t kOfChoices = ATTN_FEATURE_NSA_SELECT | ATTN_FEATURE_NSA_SCORE;
// The operations that write K and V.
inline constexpr uint64_t kOfCaches = ATTN_FEATURE_APPEND | ATTN_FEATURE_COPY_PAGES;

inline Refusal invalid(std::string reason) { return {ATTN_INVALID, std::move(reason)}; }

inline std::string name_value(const char* name, int64_t value) {
  return std::string(name) + " = " + std::to_string(value);
}

}  // namespace plug_in_detail
}  // namespace attn
