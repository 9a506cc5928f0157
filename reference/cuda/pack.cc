#include "reference/cuda/pack.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "reference/call/row_space.h"
#include "reference/call/tensor_spec.h"
#include "reference/rows/visibility.h"

namespace attnfuzz::cuda {
namespace {

// A row of more keys costs a block's scratch of 10 MB, and the CPU is not much slower.
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

// The rows of a bias or a mask that the tasks read, each once: those that a stride of 0 shares are one.
struct SharedRows {
  attn_tensor tensor;
  std::vector<int64_t> slot;     // of (b, h, i), with 1 for each size that is shared; -1: none yet
  std::vector<int64_t> offsets;  // of each slot, in the tensor
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

struct Sections {
  uint64_t bytes = 0;
  uint64_t take(uint64_t more) {
    const uint64_t at = bytes;
    bytes += (more + 255) / 256 * 256;
    return at;
  }
};

template <class Pointer>
void point(Pointer& pointer, uint64_t offset) {
  pointer = reinterpret_cast<Pointer>(offset);
}

}  // namespace

bool pack(const attn_problem& p, const attn_tensors& host, const std::vector<int64_t>& rows, double least_work,
          const std::function<std::byte*(size_t)>& room, Packed* packed, std::string* why) {
  const auto no = [&](const char* reason) {
    *why = reason;
    return false;
  };
  if (p.seq_k > kMostKeys) return no("more than 131,072 keys");
  if (p.dim_qk > 256 || p.dim_v > 256) return no("a head dimension above 256");
  const RowSpace space(p);
  const int64_t heads_a_group = p.heads_q / std::max<int64_t>(p.heads_kv, 1);
  const bool has_bias = p.bias_dtype != ATTN_NONE;
  constexpr int64_t kMostShared = int64_t{1} << 22;
  if ((has_bias || p.has_mask) && space.count() > kMostShared) return no("a bias or mask of 4 million rows");

  std::vector<RowTask> tasks;
  std::vector<Row> groups;  // i: not used
  std::vector<int32_t> lengths;
  SharedRows bias(p, has_bias ? host.bias : attn_tensor{}), mask(p, p.has_mask ? host.mask : attn_tensor{});
  const int64_t stride_k = (p.seq_k + 7) / 8 * 8;  // of a row of bias or mask
  int64_t most_keys = 0;
  double keys = 0;
  tasks.reserve(rows.size());
  for (const int64_t number : rows) {
    const Row at = space.at(number);
    const int64_t g = at.h / heads_a_group;
    if (groups.empty() || groups.back().b != at.b || groups.back().h != g) {
      groups.push_back({at.b, g, 0});
      lengths.push_back(static_cast<int32_t>(key_length(p, host, at.b)));
    }
    const KeyRange range = key_range(p, host, at.b, at.i);
    RowTask task = {0, 0, static_cast<int32_t>(groups.size() - 1), static_cast<int32_t>(range.first),
                    static_cast<int32_t>(range.last)};
    // A window may end before the first key.
    if (range.last <= range.first) task.first = task.last = 0;
    if (has_bias) task.bias = bias.of(at) * stride_k;
    if (p.has_mask) task.mask = mask.of(at) * stride_k;
    most_keys = std::max<int64_t>(most_keys, task.last - task.first);
    keys += task.last - task.first;
    tasks.push_back(task);
  }
  if (keys * static_cast<double>(p.dim_qk + p.dim_v) < least_work) return no("small: the CPU's is done sooner");

  const int64_t stride_qk = padded(p.dim_qk), stride_v = padded(p.dim_v);
  const auto slots = static_cast<uint64_t>(static_cast<int64_t>(groups.size()) * p.seq_k);
  const int64_t bias_bytes = has_bias ? (p.bias_dtype == ATTN_F32 ? 4 : 2) : 0;
  const int64_t bytes = p.dtype == ATTN_F32 ? 4 : 2;  // of a number
  const auto row_qk = static_cast<uint64_t>(stride_qk * bytes), row_v = static_cast<uint64_t>(stride_v * bytes);
  Sections sections;
  const uint64_t facts_at = sections.take(groups.size() * sizeof(GroupFacts));
  const uint64_t tasks_at = sections.take(tasks.size() * sizeof(RowTask));
  const uint64_t lengths_at = sections.take(lengths.size() * sizeof(int32_t));
  const uint64_t q_at = sections.take(tasks.size() * row_qk);
  const uint64_t k_at = sections.take(slots * row_qk);
  const uint64_t v_at = sections.take(slots * row_v);
  const uint64_t bias_at = sections.take(bias.offsets.size() * static_cast<uint64_t>(stride_k * bias_bytes));
  const uint64_t mask_at = sections.take(mask.offsets.size() * static_cast<uint64_t>(stride_k));
  if (sections.bytes > kMostBytes) return no("more than 256 MiB of inputs");

  std::byte* block = room(sections.bytes);
  for (size_t g = 0; g < groups.size(); ++g)
    reinterpret_cast<GroupFacts*>(block + facts_at)[g] = {std::bit_cast<unsigned long long>(0x1p1023), 0, 0};
  std::memcpy(block + tasks_at, tasks.data(), tasks.size() * sizeof(RowTask));
  std::memcpy(block + lengths_at, lengths.data(), lengths.size() * sizeof(int32_t));
  const auto put = [bytes](const attn_tensor& tensor, int64_t at, int64_t count, int64_t stride,
                           std::byte* to) {
    copy_elements(bytes, tensor, at, count, to);
    std::memset(to + bytes * count, 0, static_cast<size_t>(bytes * (stride - count)));
  };
  for (size_t r = 0; r < rows.size(); ++r) {
    const Row at = space.at(rows[r]);
    put(host.q, offset_of(host.q, at.b, at.h, at.i, 0), p.dim_qk, stride_qk, block + q_at + r * row_qk);
  }
  for (size_t g = 0; g < groups.size(); ++g) {
    for (int64_t j = 0; j < lengths[g]; ++j) {
      const auto slot = static_cast<uint64_t>(static_cast<int64_t>(g) * p.seq_k + j);
      put(host.k, offset_of(host.k, groups[g].b, groups[g].h, j, 0), p.dim_qk, stride_qk,
          block + k_at + slot * row_qk);
      put(host.v, offset_of(host.v, groups[g].b, groups[g].h, j, 0), p.dim_v, stride_v,
          block + v_at + slot * row_v);
    }
  }
  for (size_t s = 0; s < bias.offsets.size(); ++s)
    copy_elements(bias_bytes, bias.tensor, bias.offsets[s], p.seq_k,
                  block + bias_at + s * static_cast<uint64_t>(stride_k * bias_bytes));
  for (size_t s = 0; s < mask.offsets.size(); ++s)
    copy_elements(1, mask.tensor, mask.offsets[s], p.seq_k,
                  block + mask_at + s * static_cast<uint64_t>(stride_k));

  RowsInput& in = packed->input;
  in.dtype = p.dtype;
  in.bias_dtype = p.bias_dtype;
  in.rows = static_cast<int32_t>(tasks.size());
  in.groups = static_cast<int32_t>(groups.size());
  in.keys = static_cast<int32_t>(p.seq_k);
  in.most_keys = static_cast<int32_t>(most_keys);
  in.dim_qk = static_cast<int32_t>(p.dim_qk);
  in.dim_v = static_cast<int32_t>(p.dim_v);
  in.stride_qk = static_cast<int32_t>(stride_qk);
  in.stride_v = static_cast<int32_t>(stride_v);
  point(in.facts, facts_at);
  point(in.tasks, tasks_at);
  point(in.lengths, lengths_at);
  point(in.q, q_at);
  point(in.k, k_at);
  point(in.v, v_at);
  point(in.bias, bias_at);
  point(in.mask, mask_at);
  packed->has_mask = p.has_mask != 0;
  packed->block = block;
  packed->bytes = sections.bytes;
  return true;
}

}  // namespace attnfuzz::cuda
