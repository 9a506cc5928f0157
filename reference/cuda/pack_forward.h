// Parts of pack.h that packing a forward pass and packing a backward pass share.
//
//   const auto forward = forward_of_rows(problem, host, rows, all_groups, least_work, &why);
//   copy_forward(problem, host, rows, *forward, block);
//   fill_input(problem, forward->tasks, forward->at, &input);
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reference/call/row_space.h"
#include "reference/cuda/rows.h"
#include "reference/rows/visibility.h"

namespace attnfuzz::cuda {

inline constexpr uint64_t kMostBytes = uint64_t{256} << 20;

// Copies `count` elements of a row from element `at` of the tensor on.
void copy_elements(int64_t bytes, const attn_tensor& tensor, int64_t at, int64_t count, std::byte* to);

// Sets a pointer of an input to an offset in the block.
template <class Pointer>
void point(Pointer& pointer, uint64_t offset) {
  pointer = reinterpret_cast<Pointer>(offset);
}

// True if queries see only the keys of listed blocks. The device gets a mask that hides all others.
inline bool has_lists(const attn_problem& p) {
  return (p.features & (ATTN_FEATURE_SELECTED | ATTN_FEATURE_SELECTED_BACKWARD)) != 0;
}
inline bool has_mask(const attn_problem& p) { return p.has_mask != 0 || has_lists(p); }

// The rows of a bias or a mask that the tasks read, each once. Rows that share memory through a stride of 0
// are one, and so are the masks of query heads that share a list.
struct SharedRows {
  attn_tensor tensor;
  std::vector<int64_t> slot;  // by (b, h, i), with size 1 in shared dimensions; -1: none yet
  std::vector<Row> readers;   // by slot: the first query that reads the row
  int64_t heads, queries, heads_a_row = 1;

  SharedRows(const attn_problem& p, const attn_tensor& of) : tensor(of) {
    heads = of.stride[1] == 0 ? 1 : p.heads_q;
    queries = of.stride[2] == 0 ? 1 : p.seq_q;
    slot.assign(static_cast<size_t>((of.stride[0] == 0 ? 1 : p.batch) * heads * queries), -1);
  }
  static SharedRows of_lists(const attn_problem& p) {
    SharedRows rows(p, {nullptr, {1, 0, 1, 1}});
    rows.heads = p.heads_kv, rows.heads_a_row = p.heads_q / p.heads_kv;
    rows.slot.assign(static_cast<size_t>(p.batch * p.heads_kv * p.seq_q), -1);
    return rows;
  }
  int64_t of(const Row& at) {
    const int64_t b = tensor.stride[0] == 0 ? 0 : at.b, h = heads == 1 ? 0 : at.h / heads_a_row,
                  i = tensor.stride[2] == 0 ? 0 : at.i;
    int64_t& one = slot[static_cast<size_t>((b * heads + h) * queries + i)];
    if (one < 0) {
      one = static_cast<int64_t>(readers.size());
      readers.push_back(at);
    }
    return one;
  }
};

// The rows that are evaluated, and the groups (batch entry and KV head) that they belong to.
struct Tasks {
  std::vector<RowTask> rows;
  std::vector<Row> groups;       // b and h; i is not used
  std::vector<int32_t> lengths;  // keys of each group
  int64_t most_keys = 0;
  double keys = 0;  // the keys that position allows, over all rows
};

// A row of a bias or a mask is padded to this many elements.
inline int64_t padded_keys(const attn_problem& p) { return (p.seq_k + 7) / 8 * 8; }

// The offset of each input in the block, and the stride of its rows there, in elements.
struct Sections {
  uint64_t facts, tasks, lengths, q, k, v, bias, mask, bytes = 0;
  int64_t stride_qk, stride_v, stride_k;
  int64_t number_bytes, bias_bytes;  // of an element of Q, K and V, and of the bias

  Sections(const attn_problem& p, const Tasks& of, const SharedRows& bias_rows, const SharedRows& mask_rows)
      : stride_qk(padded(p.dim_qk)),
        stride_v(padded(p.dim_v)),
        stride_k(padded_keys(p)),
        number_bytes(p.dtype == ATTN_F32 ? 4 : 2),
        bias_bytes(p.bias_dtype == ATTN_NONE  ? 0
                   : p.bias_dtype == ATTN_F32 ? 4
                                              : 2) {
    const auto slots = static_cast<uint64_t>(static_cast<int64_t>(of.groups.size()) * p.seq_k);
    facts = take(of.groups.size() * sizeof(GroupFacts));
    tasks = take(of.rows.size() * sizeof(RowTask));
    lengths = take(of.lengths.size() * sizeof(int32_t));
    q = take(of.rows.size() * row_qk());
    k = take(slots * row_qk());
    v = take(slots * row_v());
    bias = take(bias_rows.readers.size() * row_bias());
    mask = take(mask_rows.readers.size() * row_mask());
  }
  // Bytes of a row.
  uint64_t row_qk() const { return static_cast<uint64_t>(stride_qk * number_bytes); }
  uint64_t row_v() const { return static_cast<uint64_t>(stride_v * number_bytes); }
  uint64_t row_bias() const { return static_cast<uint64_t>(stride_k * bias_bytes); }
  uint64_t row_mask() const { return static_cast<uint64_t>(stride_k); }

 private:
  uint64_t take(uint64_t more) {
    const uint64_t at = bytes;
    bytes += (more + 255) / 256 * 256;
    return at;
  }
};

// These parts of a forward pass are packed.
struct Forward {
  SharedRows bias, mask;
  Tasks tasks;
  Sections at;
};

// `all_groups`: lists groups without a row, too. Returns nullopt, with a short reason in *why, if the device
// does not handle the problem.
std::optional<Forward> forward_of_rows(const attn_problem& p, const attn_tensors& host,
                                       const std::vector<int64_t>& rows, bool all_groups, double least_work,
                                       std::string* why);
void copy_forward(const attn_problem& p, const attn_tensors& host, const std::vector<int64_t>& rows,
                  const Forward& forward, std::byte* block);
void fill_input(const attn_problem& p, const Tasks& tasks, const Sections& at, RowsInput* in);

}  // namespace attnfuzz::cuda
