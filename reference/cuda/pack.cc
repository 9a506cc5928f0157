#include "reference/cuda/pack.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
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

// `all_groups`: lists groups without a row, too.
Tasks list_tasks(const attn_problem& p, const attn_tensors& host, const std::vector<int64_t>& rows, bool all_groups,
                 SharedRows* bias, SharedRows* mask) {
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
    RowTask task = {0, 0, static_cast<int32_t>(group), static_cast<int32_t>(range.first),
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

// These parts of a forward pass are packed.
struct Forward {
  SharedRows bias, mask;
  Tasks tasks;
  Sections at;
};

// Nothing, with a short reason, if the device does not handle the problem.
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
  if ((has_bias || p.has_mask) && RowSpace(p).count() > kMostShared)
    return no("a bias or mask of 4 million rows");
  SharedRows bias(p, has_bias ? host.bias : attn_tensor{}), mask(p, p.has_mask ? host.mask : attn_tensor{});
  Tasks tasks = list_tasks(p, host, rows, all_groups, &bias, &mask);
  if (tasks.keys * static_cast<double>(p.dim_qk + p.dim_v) < least_work)
    return no("small: the CPU's is done sooner");
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
  copy_shared(forward.mask, 1, p.seq_k, at.row_mask(), block + at.mask);
}

// The offsets of what a backward pass reads beside the inputs of its forward pass.
struct GradientSections {
  uint64_t bytes, tasks, first_row, dout, o = 0, lse = 0, dlse = 0, own_o = 0, own_lse = 0, own_o_error = 0,
                                           own_lse_error = 0;

  GradientSections(const attn_problem& p, const Sections& forward, uint64_t rows, uint64_t groups, bool own)
      : bytes(forward.bytes) {
    const uint64_t columns = static_cast<uint64_t>(p.dim_v);
    tasks = take(rows * sizeof(GradientTask));
    first_row = take((groups + 1) * sizeof(int32_t));
    dout = take(rows * forward.row_v());
    dlse = take(rows * sizeof(float));
    if (own) {
      own_o = take(rows * columns * sizeof(double)), own_o_error = take(rows * columns * sizeof(double));
      own_lse = take(rows * sizeof(double)), own_lse_error = take(rows * sizeof(double));
    } else {
      o = take(rows * forward.row_v()), lse = take(rows * sizeof(float));
    }
  }
  void point_all(bool own, bool has_dlse, GradientsInput* in) const {
    point(in->tasks, tasks);
    point(in->first_row, first_row);
    point(in->dout, dout);
    if (has_dlse) point(in->dlse, dlse);
    if (own) {
      point(in->own_o, own_o), point(in->own_o_error, own_o_error);
      point(in->own_lse, own_lse), point(in->own_lse_error, own_lse_error);
    } else {
      point(in->o, o), point(in->lse, lse);
    }
  }

 private:
  uint64_t take(uint64_t more) { return std::exchange(bytes, bytes + (more + 255) / 256 * 256); }
};

// Copies dO, and O, LSE and dLSE, of each row.
void copy_saved(const attn_problem& p, const attn_tensors& host, const std::vector<int64_t>& rows,
                const ExactRows* own, const Sections& forward, const GradientSections& at, std::byte* block) {
  const RowSpace space(p);
  const Sequences sequences(p, host);
  const auto columns = static_cast<size_t>(p.dim_v);
  const auto put = [block](uint64_t section, size_t index, const double* from, size_t count) {
    std::memcpy(block + section + index * count * sizeof(double), from, count * sizeof(double));
  };
  for (size_t r = 0; r < rows.size(); ++r) {
    const Row row = space.at(rows[r]);
    const StoredRow stored = sequences.query_row(row.b, row.i);
    const auto copy = [&](const attn_tensor& tensor, int64_t bytes, int64_t count, std::byte* to) {
      copy_elements(bytes, tensor, offset_of(tensor, stored.entry, row.h, stored.row, 0), count, to);
    };
    copy(host.dout, forward.number_bytes, p.dim_v, block + at.dout + r * forward.row_v());
    if ((p.features & ATTN_FEATURE_DLSE) != 0) copy(host.dlse, 4, 1, block + at.dlse + r * sizeof(float));
    if (own == nullptr) {
      copy(host.o, forward.number_bytes, p.dim_v, block + at.o + r * forward.row_v());
      copy(host.lse, 4, 1, block + at.lse + r * sizeof(float));
    } else {
      const auto number = static_cast<size_t>(rows[r]);
      put(at.own_o, r, own->o + number * columns, columns);
      put(at.own_o_error, r, own->o_error + number * columns, columns);
      put(at.own_lse, r, own->lse + number, 1);
      put(at.own_lse_error, r, own->lse_error + number, 1);
    }
  }
}

// Writes the head and the query of each row, and the first row of each group. Returns the rows of the largest group.
int32_t copy_places(const attn_problem& p, const std::vector<int64_t>& rows, const Tasks& tasks,
                    const GradientSections& at, std::byte* block) {
  const RowSpace space(p);
  auto* const places = reinterpret_cast<GradientTask*>(block + at.tasks);
  auto* const first = reinterpret_cast<int32_t*>(block + at.first_row);
  const auto groups = static_cast<int32_t>(tasks.groups.size());
  int32_t group = -1, most = 0;
  for (size_t r = 0; r < rows.size(); ++r) {
    const Row row = space.at(rows[r]);
    places[r] = {static_cast<int32_t>(row.h), static_cast<int32_t>(row.i)};
    while (group < tasks.rows[r].group) first[++group] = static_cast<int32_t>(r);
  }
  while (group < groups) first[++group] = static_cast<int32_t>(rows.size());
  for (int32_t g = 0; g < groups; ++g) most = std::max(most, first[g + 1] - first[g]);
  return most;
}

}  // namespace

bool pack(const attn_problem& p, const attn_tensors& host, const std::vector<int64_t>& rows, double least_work,
          const std::function<std::byte*(size_t)>& room, Packed* packed, std::string* why) {
  const std::optional<Forward> forward = forward_of_rows(p, host, rows, false, least_work, why);
  if (!forward) return false;
  packed->bytes = forward->at.bytes;
  packed->block = room(packed->bytes);
  copy_forward(p, host, rows, *forward, packed->block);
  fill_input(p, forward->tasks, forward->at, &packed->input);
  packed->has_mask = p.has_mask != 0;
  return true;
}

bool pack_gradients(const attn_problem& p, const attn_tensors& host, const std::vector<int64_t>& rows,
                    const ExactRows* own, double least_work, const std::function<std::byte*(size_t)>& room,
                    PackedGradients* packed, std::string* why) {
  const std::optional<Forward> forward = forward_of_rows(p, host, rows, true, least_work, why);
  if (!forward) return false;
  const Tasks& tasks = forward->tasks;
  GradientSections at(p, forward->at, rows.size(), tasks.groups.size(), own != nullptr);
  if (at.bytes > kMostBytes) {
    *why = "more than 256 MiB of inputs";
    return false;
  }
  packed->bytes = at.bytes;
  std::byte* const block = packed->block = room(at.bytes);
  copy_forward(p, host, rows, *forward, block);
  copy_saved(p, host, rows, own, forward->at, at, block);
  GradientsInput& in = packed->input;
  fill_input(p, tasks, forward->at, &in.rows);
  in.most_rows = copy_places(p, rows, tasks, at, block);
  in.heads_q = static_cast<int32_t>(p.heads_q), in.heads_kv = static_cast<int32_t>(p.heads_kv);
  in.seq_q = static_cast<int32_t>(p.seq_q);
  in.sinks = (p.features & ATTN_FEATURE_DSINK) != 0;
  at.point_all(own != nullptr, (p.features & ATTN_FEATURE_DLSE) != 0, &in);
  packed->has_mask = p.has_mask != 0;
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
