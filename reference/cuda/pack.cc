#include "reference/cuda/pack.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "reference/call/sequences.h"
#include "reference/call/tensor_spec.h"
#include "reference/cuda/pack_forward.h"
#include "reference/rows/sinks.h"
#include "reference/rows/slopes.h"

namespace attnfuzz::cuda {
namespace {

// A longer row needs 10 MB of a block's scratch, and the CPU is not much slower.
constexpr int64_t kMostKeys = int64_t{1} << 17;

// Copies a row of `count` elements, `stride` apart.
template <class Element>
void copy_row(const void* base, int64_t at, int64_t stride, int64_t count, std::byte* to) {
  const auto* from = static_cast<const Element*>(base) + at;
  if (stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(Element));
    return;
  }
  auto* out = reinterpret_cast<Element*>(to);
  for (int64_t i = 0; i < count; ++i) out[i] = from[i * stride];
}

Tasks list_tasks(const attn_problem& p, const attn_tensors& host, const std::vector<int64_t>& rows,
                 bool all_groups, SharedRows* bias, SharedRows* mask) {
  const RowSpace space(p);
  const int64_t heads_a_group = p.heads_q / std::max<int64_t>(p.heads_kv, 1), stride_k = padded_keys(p);
  Tasks tasks;
  tasks.rows.reserve(rows.size());
  const auto add_group = [&](int64_t b, int64_t g) {
    tasks.groups.push_back({b, g, 0});
    tasks.lengths.push_back(static_cast<int32_t>(key_length(p, host, b)));
  };
  for (int64_t n = 0; all_groups && n < p.batch * p.heads_kv; ++n) add_group(n / p.heads_kv, n % p.heads_kv);
  for (const int64_t number : rows) {
    const Row at = space.at(number);
    const int64_t g = at.h / heads_a_group;
    if (!all_groups && (tasks.groups.empty() || tasks.groups.back().b != at.b || tasks.groups.back().h != g))
      add_group(at.b, g);
    const KeyRange range = key_range(p, host, at.b, at.i);
    const auto group = all_groups ? at.b * p.heads_kv + g : static_cast<int64_t>(tasks.groups.size()) - 1;
    RowTask task = {0,
                    0,
                    static_cast<int32_t>(group),
                    static_cast<int32_t>(range.first),
                    static_cast<int32_t>(range.last),
                    sink_of(p, host, at.h),
                    slope_of(p, host, at.b, at.h),
                    diagonal(p, lengths_of(p, host, at.b), at.i)};
    // A window may end before the first key.
    if (range.last <= range.first) task.first = task.last = 0;
    if (p.bias_dtype != ATTN_NONE) task.bias = bias->of(at) * stride_k;
    if (has_mask(p)) task.mask = mask->of(at) * stride_k;
    tasks.most_keys = std::max<int64_t>(tasks.most_keys, task.last - task.first);
    tasks.keys += task.last - task.first;
    tasks.rows.push_back(task);
  }
  return tasks;
}

void copy_tasks(const Tasks& tasks, const Sections& at, std::byte* block) {
  for (size_t g = 0; g < tasks.groups.size(); ++g)
    reinterpret_cast<GroupFacts*>(block + at.facts)[g] = {std::bit_cast<unsigned long long>(0x1p1023), 0, 0};
  std::memcpy(block + at.tasks, tasks.rows.data(), tasks.rows.size() * sizeof(RowTask));
  std::memcpy(block + at.lengths, tasks.lengths.data(), tasks.lengths.size() * sizeof(int32_t));
}

void copy_qkv(const attn_problem& p, const attn_tensors& host, const std::vector<int64_t>& rows,
              const Tasks& tasks, const Sections& at, std::byte* block) {
  const RowSpace space(p);
  const Sequences sequences(p, host);
  const auto put = [bytes = at.number_bytes](const attn_tensor& tensor, int64_t offset, int64_t count,
                                             int64_t stride, std::byte* to) {
    copy_elements(bytes, tensor, offset, count, to);
    std::memset(to + bytes * count, 0, static_cast<size_t>(bytes * (stride - count)));
  };
  for (size_t r = 0; r < rows.size(); ++r) {
    const Row row = space.at(rows[r]);
    const StoredRow stored = sequences.query_row(row.b, row.i);
    put(host.q, offset_of(host.q, stored.entry, row.h, stored.row, 0), p.dim_qk, at.stride_qk,
        block + at.q + r * at.row_qk());
  }
  for (size_t g = 0; g < tasks.groups.size(); ++g) {
    const Row& group = tasks.groups[g];
    for (int64_t j = 0; j < tasks.lengths[g]; ++j) {
      const auto slot = static_cast<uint64_t>(static_cast<int64_t>(g) * p.seq_k + j);
      const StoredRow stored = sequences.key_row(group.b, j);
      put(host.k, offset_of(host.k, stored.entry, group.h, stored.row, 0), p.dim_qk, at.stride_qk,
          block + at.k + slot * at.row_qk());
      put(host.v, offset_of(host.v, stored.entry, group.h, stored.row, 0), p.dim_v, at.stride_v,
          block + at.v + slot * at.row_v());
    }
  }
}

void copy_shared(const SharedRows& rows, int64_t element_bytes, int64_t keys, uint64_t row_bytes,
                 std::byte* to) {
  for (size_t s = 0; s < rows.readers.size(); ++s) {
    const Row& at = rows.readers[s];
    copy_elements(element_bytes, rows.tensor, offset_of(rows.tensor, at.b, at.h, at.i, 0), keys,
                  to + s * row_bytes);
  }
}

// Writes the masks that show what lists show.
void copy_lists(const attn_problem& p, const attn_tensors& host, const SharedRows& rows, uint64_t row_bytes,
                std::byte* to) {
  std::vector<int64_t> keys;
  std::memset(to, 0, rows.readers.size() * row_bytes);
  for (const Row& at : rows.readers) {
    row_keys(p, host, at.b, at.h, at.i, 0, p.seq_k, &keys);
    for (const int64_t j : keys) to[j] = std::byte{1};
    to += row_bytes;
  }
}

}  // namespace

void copy_elements(int64_t bytes, const attn_tensor& tensor, int64_t at, int64_t count, std::byte* to) {
  if (bytes == 1) return copy_row<uint8_t>(tensor.data, at, tensor.stride[3], count, to);
  if (bytes == 2) return copy_row<uint16_t>(tensor.data, at, tensor.stride[3], count, to);
  copy_row<uint32_t>(tensor.data, at, tensor.stride[3], count, to);
}

void fill_input(const attn_problem& p, const Tasks& tasks, const Sections& at, RowsInput* in) {
  in->dtype = p.dtype;
  in->bias_dtype = p.bias_dtype;
  in->slopes = p.has_alibi != 0;
  in->rows = static_cast<int32_t>(tasks.rows.size());
  in->groups = static_cast<int32_t>(tasks.groups.size());
  in->keys = static_cast<int32_t>(p.seq_k);
  in->most_keys = static_cast<int32_t>(tasks.most_keys);
  in->dim_qk = static_cast<int32_t>(p.dim_qk);
  in->dim_v = static_cast<int32_t>(p.dim_v);
  in->stride_qk = static_cast<int32_t>(at.stride_qk);
  in->stride_v = static_cast<int32_t>(at.stride_v);
  point(in->facts, at.facts);
  point(in->tasks, at.tasks);
  point(in->lengths, at.lengths);
  point(in->q, at.q);
  point(in->k, at.k);
  point(in->v, at.v);
  point(in->bias, at.bias);
  point(in->mask, at.mask);
}

std::optional<Forward> forward_of_rows(const attn_problem& p, const attn_tensors& host,
                                       const std::vector<int64_t>& rows, bool all_groups, double least_work,
                                       std::string* why) {
  const auto no = [&](const char* reason) {
    *why = reason;
    return std::nullopt;
  };
  if (p.seq_k > kMostKeys) return no("more than 131,072 keys");
  if (std::max(p.dim_qk, p.dim_v) > contract::kMostDims) return no("a head dimension above 1024");
  const bool has_bias = p.bias_dtype != ATTN_NONE;
  constexpr int64_t kMostShared = int64_t{1} << 22;
  if (has_lists(p) && (has_bias || p.has_mask)) return no("listed blocks with a bias or a mask");
  if ((has_bias || has_mask(p)) && RowSpace(p).count() > kMostShared)
    return no("a bias, a mask or lists of 4 million rows");
  SharedRows bias(p, has_bias ? host.bias : attn_tensor{}),
      mask = has_lists(p) ? SharedRows::of_lists(p) : SharedRows(p, p.has_mask ? host.mask : attn_tensor{});
  Tasks tasks = list_tasks(p, host, rows, all_groups, &bias, &mask);
  if (tasks.keys * static_cast<double>(p.dim_qk + p.dim_v) < least_work)
    return no("small: the CPU's oracle is faster");
  const Sections at(p, tasks, bias, mask);
  if (at.bytes > kMostBytes) return no("more than 256 MiB of inputs");
  return Forward{std::move(bias), std::move(mask), std::move(tasks), at};
}

void copy_forward(const attn_problem& p, const attn_tensors& host, const std::vector<int64_t>& rows,
                  const Forward& forward, std::byte* block) {
  const Sections& at = forward.at;
  copy_tasks(forward.tasks, at, block);
  copy_qkv(p, host, rows, forward.tasks, at, block);
  copy_shared(forward.bias, at.bias_bytes, p.seq_k, at.row_bias(), block + at.bias);
  if (has_lists(p))
    copy_lists(p, host, forward.mask, at.row_mask(), block + at.mask);
  else
    copy_shared(forward.mask, 1, p.seq_k, at.row_mask(), block + at.mask);
}

bool pack(const attn_problem& p, const attn_tensors& host, const std::vector<int64_t>& rows, double least_work,
          const std::function<std::byte*(size_t)>& room, Packed* packed, std::string* why) {
  const std::optional<Forward> forward = forward_of_rows(p, host, rows, false, least_work, why);
  if (!forward) return false;
  packed->bytes = forward->at.bytes;
  packed->block = room(packed->bytes);
  copy_forward(p, host, rows, *forward, packed->block);
  fill_input(p, forward->tasks, forward->at, &packed->input);
  packed->has_mask = has_mask(p);
  return true;
}

}  // namespace attnfuzz::cuda
