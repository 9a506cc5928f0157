#include "reference/cuda/pack.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "reference/call/row_space.h"
#include "reference/call/sequences.h"
#include "reference/call/tensor_spec.h"
#include "reference/rows/sinks.h"
#include "reference/rows/slopes.h"

namespace attnfuzz::cuda {
namespace {

// A longer row needs 10 MB of a block's scratch, and the CPU is not much slower.
constexpr int64_t kMostKeys = int64_t{1} << 17;
constexpr uint64_t kMostBytes = uint64_t{256} << 20;

int64_t padded(int64_t elements) { return (elements + kPad - 1) / kPad * kPad; }

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

void copy_elements(int64_t bytes, const attn_tensor& tensor, int64_t at, int64_t count, std::byte* to) {
  if (bytes == 1) return copy_row<uint8_t>(tensor.data, at, tensor.stride[3], count, to);
  if (bytes == 2) return copy_row<uint16_t>(tensor.data, at, tensor.stride[3], count, to);
  copy_row<uint32_t>(tensor.data, at, tensor.stride[3], count, to);
}

// The rows of a bias or a mask that the tasks read, each once. Rows that share memory through a stride of 0
// are one.
struct SharedRows {
  attn_tensor tensor;
  std::vector<int64_t> slot;     // by (b, h, i), with size 1 in shared dimensions; -1: none yet
  std::vector<int64_t> offsets;  // in the tensor, by slot
  int64_t heads, queries;

  SharedRows(const attn_problem& p, const attn_tensor& of) : tensor(of) {
    heads = of.stride[1] == 0 ? 1 : p.heads_q;
    queries = of.stride[2] == 0 ? 1 : p.seq_q;
    slot.assign(static_cast<size_t>((of.stride[0] == 0 ? 1 : p.batch) * heads * queries), -1);
  }
  int64_t of(const Row& at) {
    const int64_t b = tensor.stride[0] == 0 ? 0 : at.b, h = heads == 1 ? 0 : at.h,
                  i = tensor.stride[2] == 0 ? 0 : at.i;
    int64_t& one = slot[static_cast<size_t>((b * heads + h) * queries + i)];
    if (one < 0) {
      one = static_cast<int64_t>(offsets.size());
      offsets.push_back(offset_of(tensor, at.b, at.h, at.i, 0));
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
int64_t padded_keys(const attn_problem& p) { return (p.seq_k + 7) / 8 * 8; }

Tasks list_tasks(const attn_problem& p, const attn_tensors& host, const std::vector<int64_t>& rows,
                 SharedRows* bias, SharedRows* mask) {
  const RowSpace space(p);
  const int64_t heads_a_group = p.heads_q / std::max<int64_t>(p.heads_kv, 1), stride_k = padded_keys(p);
  Tasks tasks;
  tasks.rows.reserve(rows.size());
  for (const int64_t number : rows) {
    const Row at = space.at(number);
    const int64_t g = at.h / heads_a_group;
    if (tasks.groups.empty() || tasks.groups.back().b != at.b || tasks.groups.back().h != g) {
      tasks.groups.push_back({at.b, g, 0});
      tasks.lengths.push_back(static_cast<int32_t>(key_length(p, host, at.b)));
    }
    const KeyRange range = key_range(p, host, at.b, at.i);
    RowTask task = {0, 0, static_cast<int32_t>(tasks.groups.size() - 1), static_cast<int32_t>(range.first),
                    static_cast<int32_t>(range.last), sink_of(p, host, at.h), slope_of(p, host, at.b, at.h),
                    diagonal(p, lengths_of(p, host, at.b), at.i)};
    // A window may end before the first key.
    if (range.last <= range.first) task.first = task.last = 0;
    if (p.bias_dtype != ATTN_NONE) task.bias = bias->of(at) * stride_k;
    if (p.has_mask) task.mask = mask->of(at) * stride_k;
    tasks.most_keys = std::max<int64_t>(tasks.most_keys, task.last - task.first);
    tasks.keys += task.last - task.first;
    tasks.rows.push_back(task);
  }
  return tasks;
}

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
    bias = take(bias_rows.offsets.size() * row_bias());
    mask = take(mask_rows.offsets.size() * row_mask());
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
  for (size_t s = 0; s < rows.offsets.size(); ++s)
    copy_elements(element_bytes, rows.tensor, rows.offsets[s], keys, to + s * row_bytes);
}

template <class Pointer>
void point(Pointer& pointer, uint64_t offset) {
  pointer = reinterpret_cast<Pointer>(offset);
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

}  // namespace

bool pack(const attn_problem& p, const attn_tensors& host, const std::vector<int64_t>& rows, double least_work,
          const std::function<std::byte*(size_t)>& room, Packed* packed, std::string* why) {
  const auto no = [&](const char* reason) {
    *why = reason;
    return false;
  };
  if (p.seq_k > kMostKeys) return no("more than 131,072 keys");
  if (std::max(p.dim_qk, p.dim_v) > contract::kMostDims) return no("a head dimension above 1024");
  const bool has_bias = p.bias_dtype != ATTN_NONE;
  constexpr int64_t kMostShared = int64_t{1} << 22;
  if ((has_bias || p.has_mask) && RowSpace(p).count() > kMostShared)
    return no("a bias or mask of 4 million rows");

  SharedRows bias(p, has_bias ? host.bias : attn_tensor{}), mask(p, p.has_mask ? host.mask : attn_tensor{});
  const Tasks tasks = list_tasks(p, host, rows, &bias, &mask);
  if (tasks.keys * static_cast<double>(p.dim_qk + p.dim_v) < least_work)
    return no("small: the CPU's is done sooner");
  const Sections at(p, tasks, bias, mask);
  if (at.bytes > kMostBytes) return no("more than 256 MiB of inputs");

  std::byte* block = room(at.bytes);
  copy_tasks(tasks, at, block);
  copy_qkv(p, host, rows, tasks, at, block);
  copy_shared(bias, at.bias_bytes, p.seq_k, at.row_bias(), block + at.bias);
  copy_shared(mask, 1, p.seq_k, at.row_mask(), block + at.mask);
  fill_input(p, tasks, at, &packed->input);
  packed->has_mask = p.has_mask != 0;
  packed->block = block;
  packed->bytes = at.bytes;
  return true;
}

bool pack_merge(const attn_problem& p, const attn_tensors& host, const std::vector<int64_t>& rows,
                double least_work, const std::function<std::byte*(size_t)>& room, PackedMerge* packed,
                std::string* why) {
  const auto no = [&](const char* reason) {
    *why = reason;
    return false;
  };
  if (static_cast<double>(rows.size()) * static_cast<double>(p.dim_v) * 2 < least_work)
    return no("small: the CPU's is done sooner");
  const int64_t number = p.dtype == ATTN_F32 ? 4 : 2;
  const uint64_t row_bytes = static_cast<uint64_t>(p.dim_v * number);
  uint64_t bytes = 0;
  const auto take = [&](uint64_t more) { return std::exchange(bytes, bytes + (more + 255) / 256 * 256); };
  const uint64_t o[] = {take(rows.size() * row_bytes), take(rows.size() * row_bytes)},
                 lse[] = {take(rows.size() * sizeof(float)), take(rows.size() * sizeof(float))};
  if (bytes > kMostBytes) return no("more than 256 MiB of inputs");
  packed->block = room(bytes);
  packed->bytes = bytes;
  const attn_tensor* const from[] = {&host.o1, &host.o2};
  const attn_tensor* const lse_from[] = {&host.lse1, &host.lse2};
  const RowSpace space(p);
  for (int side = 0; side < 2; ++side) {
    for (size_t r = 0; r < rows.size(); ++r) {
      const Row at = space.at(rows[r]);
      copy_elements(number, *from[side], offset_of(*from[side], at.b, at.h, at.i, 0), p.dim_v,
                    packed->block + o[side] + r * row_bytes);
      copy_elements(4, *lse_from[side], offset_of(*lse_from[side], at.b, at.h, at.i, 0), 1,
                    packed->block + lse[side] + r * sizeof(float));
    }
    point(packed->input.o[side], o[side]);
    point(packed->input.lse[side], lse[side]);
  }
  packed->input.dtype = p.dtype;
  packed->input.rows = static_cast<int32_t>(rows.size());
  packed->input.columns = static_cast<int32_t>(p.dim_v);
  return true;
}

}  // namespace attnfuzz::cuda
