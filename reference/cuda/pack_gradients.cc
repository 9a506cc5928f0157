#include <algorithm>
#include <cstring>
#include <utility>

#include "reference/call/sequences.h"
#include "reference/cuda/pack.h"
#include "reference/cuda/pack_forward.h"

namespace attnfuzz::cuda {
namespace {

// The offsets of what a backward pass reads beside the inputs of its forward pass.
struct GradientSections {
  uint64_t bytes, tasks, first_row, dout, o = 0, lse = 0, dlse = 0, own_o = 0, own_lse = 0, own_o_error = 0,
                                          own_lse_error = 0, own_lse_apart = 0, own_lse_apart_error = 0;

  GradientSections(const attn_problem& p, const Sections& forward, uint64_t rows, uint64_t groups,
                   const ExactRows* own)
      : bytes(forward.bytes) {
    const uint64_t columns = static_cast<uint64_t>(p.dim_v);
    tasks = take(rows * sizeof(GradientTask));
    first_row = take((groups + 1) * sizeof(int32_t));
    dout = take(rows * forward.row_v());
    dlse = take(rows * sizeof(float));
    if (own != nullptr) {
      own_o = take(rows * columns * sizeof(double)), own_o_error = take(rows * columns * sizeof(double));
      own_lse = take(rows * sizeof(double)), own_lse_error = take(rows * sizeof(double));
      if (own->lse_apart != nullptr)
        own_lse_apart = take(rows * sizeof(double)), own_lse_apart_error = take(rows * sizeof(double));
    } else {
      o = take(rows * forward.row_v()), lse = take(rows * sizeof(float));
    }
  }
  void point_all(const ExactRows* own, bool has_dlse, GradientsInput* in) const {
    point(in->tasks, tasks);
    point(in->first_row, first_row);
    point(in->dout, dout);
    if (has_dlse) point(in->dlse, dlse);
    if (own != nullptr) {
      point(in->own_o, own_o), point(in->own_o_error, own_o_error);
      point(in->own_lse, own_lse), point(in->own_lse_error, own_lse_error);
      if (own->lse_apart != nullptr)
        point(in->own_lse_apart, own_lse_apart), point(in->own_lse_apart_error, own_lse_apart_error);
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
      if (own->lse_apart == nullptr) continue;
      put(at.own_lse_apart, r, own->lse_apart + number, 1);
      put(at.own_lse_apart_error, r, own->lse_apart_error + number, 1);
    }
  }
}

// Writes the head and the query of each row, and the first row of each group. Returns the rows of the largest
// group.
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

bool pack_gradients(const attn_problem& p, const attn_tensors& host, const std::vector<int64_t>& rows,
                    const Forward& forward, const ExactRows* own, const std::function<std::byte*(size_t)>& room,
                    PackedGradients* packed, std::string* why) {
  const Tasks& tasks = forward.tasks;
  GradientSections at(p, forward.at, rows.size(), tasks.groups.size(), own);
  if (at.bytes > kMostBytes) {
    *why = "more than 256 MiB of inputs";
    return false;
  }
  packed->bytes = at.bytes;
  std::byte* const block = packed->block = room(at.bytes);
  copy_forward(p, host, rows, forward, block);
  copy_saved(p, host, rows, own, forward.at, at, block);
  GradientsInput& in = packed->input;
  fill_input(p, tasks, forward.at, &in.rows);
  in.most_rows = copy_places(p, rows, tasks, at, block);
  const auto stored = [&](int dimension, int64_t size) {
    return host.dbias.stride[dimension] != 0 ? static_cast<int32_t>(size) : 1;
  };
  in.dbias = {stored(0, p.batch), stored(1, p.heads_q), stored(2, p.seq_q)};
  at.point_all(own, (p.features & ATTN_FEATURE_DLSE) != 0, &in);
  packed->has_mask = has_mask(p);
  return true;
}

}  // namespace attnfuzz::cuda
