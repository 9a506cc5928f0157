// The kernels of a batch. For Q, K and V a warp works on one row after another. For everything else a thread
// works on one unit: a byte of a mask, two bytes of any other tensor, four of the workspace, or one number of
// the oracle's inputs or results.
#include <cuda_runtime.h>

#include "fuzz/batch/kernels.h"
#include "fuzz/batch/units.cuh"
#include "kernels/primitives/launch.h"
#include "reference/semantics.h"

namespace attnfuzz::batch {
namespace {

// The first jobs are the tensors of the forward pass and of merges.
constexpr unsigned kTensorJobs = kDout + (kDq - kOutput);
ATTN_BOTH int tensor_of(unsigned job) {
  const int t = static_cast<int>(job);
  return t < kDout ? t : t - kDout + kOutput;
}
enum : unsigned { kWorkspaceJob = kTensorJobs, kPackedBias, kPackedMask, kPackedSides, kTasks, kLayOutJobs };
enum : unsigned { kOutputJob = kWorkspaceJob + 1, kLseJob, kJudgeJobs };  // a backward pass has neither O nor LSE

// The units of all inputs but Q, K and V.
struct UnitOf {
  const Work& work;
  __device__ uint16_t operator()(int t, const uint32_t (&n)[4], uint32_t within) const {
    return input_unit(work, t, n, within);
  }
};

__device__ uint32_t workspace_word(const Call& call, uint64_t at) {
  const Workspace& workspace = call.workspace;
  if (at < workspace.data || at >= workspace.end_of_data) return ~uint32_t{0};
  // Before the first call, a dirty workspace holds values that a call of another shape could have
  // left. Later calls find what the call before them left.
  if (!call.repeat[0].dirty_workspace) return workspace.pattern;
  const uint64_t offset = at - workspace.data;
  return static_cast<uint32_t>(mix(0, 0, 0, 0, offset / 8 * 8) >> 8 * (offset & 4));
}

// Calls visit(pattern, unit) for each unit of the redzones and gaps of Q, K or V.
template <class Visit>
__device__ void each_unit_between(const Work& work, int t, const Visit& visit) {
  const TensorSlot& place = work.call->tensor[t];
  const auto each = [&](uint64_t from, uint64_t to, bool gaps) {
    for (uint64_t at = from + 2 * static_cast<uint64_t>(first_unit()); at < to;
         at += 2 * static_cast<uint64_t>(stride_of_units()))
      if (!gaps || !element_at(place, static_cast<uint32_t>(at - place.data) / place.element_bytes).is)
        visit(pattern_at(place, at), *reinterpret_cast<uint16_t*>(work.base[t] + address_of(place, at)));
  };
  uint64_t elements = place.element_bytes;
  for (const uint32_t size : place.size) elements *= size;
  each(place.begin, place.data, false);
  each(place.elements_end, place.end, false);
  if (place.data + elements != place.elements_end) each(place.data, place.elements_end, true);
}

// The rows of Q, K or V as the oracle reads them: dense, and padded with zeros (rows.h).
template <class Number>
struct Packed {
  Number* at;
  int32_t rows, length, heads, stride;
};
template <class Number>
__device__ Packed<Number> packed_of(const Work& work, int t) {
  const attn_problem& p = work.call->problem;
  const cuda::RowsInput& in = work.input;
  const auto heads_q = static_cast<int32_t>(p.heads_q), heads_kv = static_cast<int32_t>(p.heads_kv);
  const auto writable = [](const void* at) { return static_cast<Number*>(const_cast<void*>(at)); };
  if (t == kQuery) return {writable(in.q), in.rows, static_cast<int32_t>(p.seq_q), heads_q, in.stride_qk};
  if (t == kKey) return {writable(in.k), in.groups * in.keys, in.keys, heads_kv, in.stride_qk};
  return {writable(in.v), in.groups * in.keys, in.keys, heads_kv, in.stride_v};
}

// The place of a row of Q, K or V in the kernel's tensors.
template <class Number>
struct Stored {
  Number* at;
  int64_t step;    // to the next column
  uint32_t b, h;   // the indices by which its values are made: 0 if all indices share one row
  uint32_t entry;  // the batch entry of the row
  bool mine;       // true if no other row shares this memory, or if this is the first of those that do
};

// The tensor whose memory t uses: K for a latent V, else t itself.
__device__ int memory_of(const Work& work, int t) {
  return t == kValue && work.call->problem.latent != 0 ? kKey : t;
}

// The place of row s of batch entry b in Q, K or V: the indices of its first and its third dimension.
struct RowPlace {
  uint32_t first, row;
};
__device__ RowPlace row_place(const Work& work, int t, uint32_t b, int32_t s) {
  const Call& call = *work.call;
  if (is_packed(call, t)) return {0, static_cast<uint32_t>(borders_of(call, t)[b] + s)};
  if (in_pages(call, t)) {
    const attn_problem& p = call.problem;
    return {static_cast<uint32_t>(work.table[b * p.pages_per_seq + s / p.page_size]),
            static_cast<uint32_t>(s % p.page_size)};
  }
  return {call.tensor[t].size[0] == 1 ? 0 : b, static_cast<uint32_t>(s)};
}

// Calls visit(Stored, s, the oracle's row, its stride), one warp for each row. It skips rows that a
// packed or paged entry does not have.
template <class Number, class Visit>
__device__ void each_row(const Work& work, int t, const Visit& visit) {
  const Call& call = *work.call;
  const int memory = memory_of(work, t);
  const TensorSlot& place = call.tensor[memory];
  const bool paged = in_pages(call, memory), dense = !is_packed(call, memory) && !paged;
  const int64_t shared = call.recipe.paging.shared * call.recipe.paging.size;
  const Packed packed = packed_of<Number>(work, t);
  const auto warp = static_cast<int32_t>(first_unit() / 32),
             warps = static_cast<int32_t>(stride_of_units() / 32);
  for (int32_t row = warp; row < packed.rows; row += warps) {
    const int32_t head = row / packed.length, s = row % packed.length, b = head / packed.heads,
                  h = head % packed.heads;
    if (s >= (t == kQuery ? queries_of(call, b) : held_keys(call, b))) continue;
    Stored<Number> stored;
    stored.entry = static_cast<uint32_t>(b);
    stored.b = (place.size[0] == 1 && dense) || (paged && s < shared) ? 0 : static_cast<uint32_t>(b);
    stored.h = place.size[1] == 1 ? 0 : static_cast<uint32_t>(h);
    // Entries write the same values to a page that they share.
    stored.mine = (paged || stored.b == static_cast<uint32_t>(b)) && stored.h == static_cast<uint32_t>(h);
    stored.step = (place.backwards & 8) != 0 ? -int64_t{place.stride[3]} : int64_t{place.stride[3]};
    const RowPlace at = row_place(work, memory, static_cast<uint32_t>(b), s);
    const uint64_t offset = element_offset(place, at.first, stored.h, at.row, 0);
    stored.at =
        reinterpret_cast<Number*>(work.base[memory] + address_of(place, place.data + offset * sizeof(Number)));
    visit(stored, s, packed.at + int64_t{row} * packed.stride, packed.stride);
  }
}

// Calls visit(element, its content) for each element of Q, K or V that belongs to no batch entry.
template <class Number, class Visit>
__device__ void each_slack_element(const Work& work, int t, const Visit& visit) {
  const Call& call = *work.call;
  const bool paged = in_pages(call, t);
  if (!is_packed(call, t) && !paged) return;
  const TensorSlot& place = call.tensor[t];
  const int64_t first = paged ? 0 : owned_rows(call, t), heads = place.size[1], columns = place.size[3],
                rows = place.size[2] - first;
  for (int64_t unit = first_unit(); unit < place.size[0] * rows * heads * columns; unit += stride_of_units()) {
    const int64_t row = unit / columns / heads;
    const auto d = static_cast<uint32_t>(unit % columns), h = static_cast<uint32_t>(unit / columns % heads),
               s = static_cast<uint32_t>(first + row % rows), page = static_cast<uint32_t>(row / rows);
    if (paged && static_cast<int32_t>(s) < work.held[page]) continue;
    const uint64_t at = place.data + element_offset(place, page, h, s, d) * sizeof(Number);
    visit(*reinterpret_cast<Number*>(work.base[t] + address_of(place, at)),
          static_cast<Number>(slack_bits(call, t, page, h, s, d)));
  }
}

template <class Number>
__device__ void lay_input(const Work& work, int t) {
  const Call& call = *work.call;
  const int memory = memory_of(work, t);
  const bool own = memory == t;  // else K's job writes the memory, and only the oracle's copy is made here
  if (call.tensor[memory].end == 0) return;
  if (own) {
    each_unit_between(work, t, [](uint16_t pattern, uint16_t& unit) { unit = pattern; });
    each_slack_element<Number>(work, t, [](Number& element, Number due) { element = due; });
  }
  const auto dim = static_cast<int32_t>(own ? call.tensor[t].size[3] : call.problem.dim_v);
  each_row<Number>(work, t, [&](const Stored<Number>& to, int32_t s, Number* packed, int32_t stride) {
    const RowValues row = row_values(call, memory, to.b, to.h, static_cast<uint32_t>(s));
    for (int32_t d = static_cast<int32_t>(threadIdx.x) % 32; d < stride; d += 32) {
      Number bits = 0;
      if (d < dim) {
        bits = static_cast<Number>(value_bits(call, memory, row, static_cast<uint32_t>(d)));
        if (to.mine && own) to.at[d * to.step] = bits;
      }
      packed[d] = bits;
    }
  });
}

// The row of a packed bias or mask that belongs to a query.
__device__ int64_t shared_row(const TensorSlot& place, int64_t b, int64_t h, int64_t i) {
  return ((place.size[0] == 1 ? 0 : b) * place.size[1] + (place.size[1] == 1 ? 0 : h)) * place.size[2] +
         (place.size[2] == 1 ? 0 : i);
}

// Writes the oracle's copy of a bias or a mask: only the stored rows, each padded to padded_keys().
template <class Value>
__device__ void lay_pairs(const Work& work, int t, const void* to, Value value_of) {
  const Call& call = *work.call;
  const TensorSlot& place = call.tensor[t];
  using Number = decltype(value_of(call, 0, 0, 0, 0));
  const int64_t stride = padded_keys(work.input);
  const int64_t rows = int64_t{1} * place.size[0] * place.size[1] * place.size[2];
  for (int64_t unit = first_unit(); unit < rows * stride; unit += stride_of_units()) {
    const int64_t row = unit / stride, j = unit % stride, head = row / place.size[2];
    if (j >= place.size[3]) continue;
    static_cast<Number*>(const_cast<void*>(to))[unit] =
        value_of(call, static_cast<uint32_t>(head / place.size[1]), static_cast<uint32_t>(head % place.size[1]),
                 static_cast<uint32_t>(row % place.size[2]), static_cast<uint32_t>(j));
  }
}

__device__ void lay_workspace(const Work& work, bool clean) {
  const Workspace& workspace = work.call->workspace;
  for (uint64_t at = workspace.begin + 4 * static_cast<uint64_t>(first_unit()); at < workspace.end;
       at += 4 * static_cast<uint64_t>(stride_of_units())) {
    const bool inside = at >= workspace.data && at < workspace.end_of_data;
    *reinterpret_cast<uint32_t*>(work.base[kTensors] + at) =
        clean && inside ? workspace.pattern : workspace_word(*work.call, at);
  }
}

// Writes the oracle's dense copy of a merge's sides.
__device__ void lay_sides(const Work& work) {
  const Call& call = *work.call;
  const cuda::MergeInput& in = work.merge;
  const int64_t heads = call.problem.heads_q, queries = call.problem.seq_q;
  const auto each = [&](int t, const void* to, int64_t columns, bool wide) {
    for (int64_t unit = first_unit(); unit < in.rows * columns; unit += stride_of_units()) {
      const int64_t row = unit / columns, head = row / queries;
      const uint32_t bits =
          side_bits(call, t, static_cast<uint32_t>(head / heads), static_cast<uint32_t>(head % heads),
                    static_cast<uint32_t>(row % queries), static_cast<uint32_t>(unit % columns));
      if (wide)
        static_cast<uint32_t*>(const_cast<void*>(to))[unit] = bits;
      else
        static_cast<uint16_t*>(const_cast<void*>(to))[unit] = static_cast<uint16_t>(bits);
    }
  };
  for (int side = 0; side < 2; ++side) {
    each(side == 0 ? kFirstO : kSecondO, in.o[side], in.columns, in.dtype == ATTN_F32);
    each(side == 0 ? kFirstLse : kSecondLse, in.lse[side], 1, true);
  }
}

__device__ void lay_tasks(const Work& work) {
  const Call& call = *work.call;
  const attn_problem& p = call.problem;
  const cuda::RowsInput& in = work.input;
  const int64_t heads_a_group = p.heads_q / p.heads_kv, stride = padded_keys(in);
  for (int64_t row = first_unit(); row < in.rows; row += stride_of_units()) {
    const int64_t head = row / p.seq_q, b = head / p.heads_q, h = head % p.heads_q, i = row % p.seq_q;
    const Lengths lengths = lengths_of(call, b);
    // The oracle treats a query that a packed entry does not have as a dead row.
    const KeyRange range = i < lengths.queries ? key_range(p, lengths, i) : KeyRange{0, 0};
    cuda::RowTask task = {};
    task.sink = -INFINITY;
    if (p.has_sink) {
      const uint32_t sink = sink_at(call, h);
      task.sink = cuda::number_of(p.sink_dtype, &sink, 0);
    }
    task.slope = in.slopes ? slope_at(call, b, h) : 0;
    task.diagonal = diagonal(p, lengths, i);
    task.group = static_cast<int32_t>(b * p.heads_kv + h / heads_a_group);
    // A window may end before the first key.
    if (range.last > range.first)
      task.first = static_cast<int32_t>(range.first), task.last = static_cast<int32_t>(range.last);
    if (in.bias) task.bias = shared_row(call.tensor[kBias], b, h, i) * stride;
    if (has_lists(call))
      task.mask = (task.group * p.seq_q + i) * stride;
    else if (in.mask)
      task.mask = shared_row(call.tensor[kMask], b, h, i) * stride;
    const_cast<cuda::RowTask*>(in.tasks)[row] = task;
  }
  for (int64_t group = first_unit(); group < in.groups; group += stride_of_units()) {
    in.facts[group] = {static_cast<unsigned long long>(__double_as_longlong(0x1p1023)), 0, 0};
    const_cast<int32_t*>(in.lengths)[group] = static_cast<int32_t>(length_of(call, group / p.heads_kv));
  }
}

__global__ void __launch_bounds__(kThreads) lay_out_kernel(const __grid_constant__ Work work) {
  const unsigned job = work.jobs[blockIdx.y];
  const cuda::RowsInput& in = work.input;
  if (job <= kValue)
    work.call->problem.dtype == ATTN_F32 ? lay_input<uint32_t>(work, static_cast<int>(job))
                                         : lay_input<uint16_t>(work, static_cast<int>(job));
  else if (job == kMask)
    lay_tensor<uint8_t>(work, kMask, UnitOf{work});
  else if (job < kTensorJobs)
    lay_tensor<uint16_t>(work, tensor_of(job), UnitOf{work});
  if (job == kWorkspaceJob && !work.call->keeps_workspace) lay_workspace(work, false);
  if (job == kPackedBias && in.bias) {
    if (in.bias_dtype == ATTN_F32)
      lay_pairs(work, kBias, in.bias, bias_at);
    else
      lay_pairs(work, kBias, in.bias, [](const Call& of, uint32_t b, uint32_t h, uint32_t i, uint32_t j) {
        return static_cast<uint16_t>(bias_at(of, b, h, i, j));
      });
  }
  if (job == kPackedMask && in.mask && !has_lists(*work.call)) lay_pairs(work, kMask, in.mask, mask_at);
  if (job == kPackedSides && is_merge(*work.call)) lay_sides(work);
  if (job == kTasks && !is_merge(*work.call)) lay_tasks(work);
  if (job == kTasks && first_unit() == 0) *work.counts = {};
}

__global__ void __launch_bounds__(kThreads) lay_again_kernel(const __grid_constant__ Work work) {
  if (blockIdx.y == 0)
    lay_tensor<uint16_t>(work, kOutput, UnitOf{work});
  else if (blockIdx.y == 1)
    lay_tensor<uint16_t>(work, kLse, UnitOf{work});
  else if (!work.call->repeat[work.number].dirty_workspace)
    lay_workspace(work, true);
}

// The exponent bits of a format. NaN and infinities have all of them set.
__device__ uint32_t exponent_of(int32_t dtype) {
  return dtype == ATTN_F32 ? 0x7f800000u : dtype == ATTN_F16 ? 0x7c00u : 0x7f80u;
}

// Checks that inputs are unchanged, by comparing them with the oracle's copy, whose address no kernel under
// test gets.
template <class Number>
__device__ void judge_input(const Work& work, int t) {
  const Call& call = *work.call;
  if (call.tensor[t].end == 0) return;
  const auto dim = static_cast<int32_t>(call.tensor[t].size[3]);
  const uint32_t all_ones = exponent_of(call.problem.dtype);
  int redzones = 0, inputs = 0, not_finite = 0;
  each_unit_between(work, t, [&](uint16_t pattern, const uint16_t& unit) { redzones += unit != pattern; });
  each_slack_element<Number>(work, t, [&](const Number& is, Number was) { inputs += is != was; });
  // K and V beyond a key length are not counted, because the fill may put NaN there. Packed ones are counted,
  // because a caller cannot tell them from other keys.
  const bool all_rows = t == kQuery || is_packed(call, t);
  each_row<Number>(work, t, [&](const Stored<Number>& is, int32_t s, const Number* was, int32_t) {
    if (work.number == 0 && (all_rows || s < length_of(call, is.entry)))
      for (int32_t d = static_cast<int32_t>(threadIdx.x) % 32; d < dim; d += 32)
        not_finite += (was[d] & all_ones) == all_ones;
    if (!is.mine) return;
    for (int32_t d = static_cast<int32_t>(threadIdx.x) % 32; d < dim; d += 32)
      inputs += is.at[d * is.step] != was[d];
  });
  count(&work.counts->redzones, redzones);
  count(&work.counts->inputs, inputs);
  count(&work.counts->not_finite, not_finite);
}

__device__ void judge_workspace(const Work& work) {
  const Workspace& workspace = work.call->workspace;
  int redzones = 0;
  for (uint64_t at = workspace.begin + 4 * static_cast<uint64_t>(first_unit()); at < workspace.end;
       at += 4 * static_cast<uint64_t>(stride_of_units())) {
    if (at >= workspace.data && at < workspace.end_of_data) continue;
    redzones += *reinterpret_cast<const uint32_t*>(work.base[kTensors] + at) != ~uint32_t{0};
  }
  count(&work.counts->redzones, redzones);
}

template <cuda::Format kFormat>
__device__ void judge_output(const Work& work) {
  const Call& call = *work.call;
  const cuda::RowsOutput& out = work.output;
  const int64_t columns = call.problem.dim_v;
  double worst = 0;
  int outside = 0, repeated = 0, not_finite = 0;
  // Only the last call does this: allowances replace the bounds, so no later call could be judged
  // (Readback).
  const bool allowances = out.o_exact && call.readback_at != kNoReadback && !call.readback_all &&
                          work.number + 1 == static_cast<int32_t>(call.repeats);
  for (int64_t at = first_unit(); at < work.input.rows * columns; at += stride_of_units()) {
    const Query query = query_of(call, at / columns);
    if (is_absent(call, query)) {
      out.o[at] = 0, out.o_bound[at] = INFINITY, out.o_rule[at] = static_cast<uint8_t>(Due::kAnything);
      if (out.o_exact) out.o_exact[at] = 0;
      if (work.got) work.got[at] = 0;
      continue;
    }
    const auto* bits = reinterpret_cast<const cuda::Bits<kFormat>*>(
        work.base[kOutput] + place_of(call, kOutput, query, at % columns));
    const auto got = static_cast<float>(cuda::number<kFormat>(*bits));
    repeated += keep(work, work.got, at, got);
    judge_ratio(
        ratio_of(static_cast<Due>(out.o_rule[at]), out.o[at], out.o_bound[at], call.overflow, false, got),
        &worst, &outside);
    for (int side = 0; side < 2 && is_merge(call) && work.number == 0; ++side)
      not_finite += !cuda::is_finite_number<kFormat>(cuda::numbers_of<kFormat>(work.merge.o[side])[at]);
    if (allowances) out.o_bound[at] += fabs(out.o[at] - out.o_exact[at]);
  }
  count_ratios(work, worst, outside);
  count(&work.counts->repeated, repeated);
  count(&work.counts->not_finite, not_finite);
}

__device__ void judge_lse(const Work& work) {
  const cuda::RowsOutput& out = work.output;
  double worst = 0;
  int outside = 0, dead = 0, uninformative = 0, unconstrained = 0, unknown = 0, repeated = 0;
  for (int64_t row = first_unit(); row < work.input.rows; row += stride_of_units()) {
    const Query query = query_of(*work.call, row);
    if (is_absent(*work.call, query)) {
      out.state[row] = static_cast<uint8_t>(RowState::kAbsent);
      out.lse[row] = 0, out.lse_bound[row] = INFINITY;
      if (work.got_lse) work.got_lse[row] = 0;
      continue;
    }
    const auto state = static_cast<RowState>(out.state[row] & ~cuda::kAnyColumn);
    dead += state == RowState::kDead;
    uninformative += state == RowState::kUninformative;
    unconstrained += state == RowState::kUnconstrained || (out.state[row] & cuda::kAnyColumn) != 0;
    unknown += state > RowState::kNaN;
    if (work.call->tensor[kLse].end == 0) continue;
    const float got = *reinterpret_cast<const float*>(work.base[kLse] + place_of(*work.call, kLse, query, 0));
    repeated += keep(work, work.got_lse, row, got);
    judge_ratio(ratio_of(cuda::lse_due(work.call->model, state), out.lse[row], out.lse_bound[row],
                         work.call->model.log_overflow, true, got),
                &worst, &outside);
  }
  count_ratios(work, worst, outside);
  count(&work.counts->repeated, repeated);
  if (work.number > 0) return;  // the first call has counted them
  count(&work.counts->dead, dead);
  count(&work.counts->uninformative, uninformative);
  count(&work.counts->unconstrained, unconstrained);
  count(&work.counts->unknown, unknown);
}

__global__ void __launch_bounds__(kThreads) judge_kernel(const __grid_constant__ Work work) {
  const unsigned job = work.jobs[blockIdx.y];
  if (job <= kValue)
    work.call->problem.dtype == ATTN_F32 ? judge_input<uint32_t>(work, static_cast<int>(job))
                                         : judge_input<uint16_t>(work, static_cast<int>(job));
  else if (job == kMask)
    judge_tensor<uint8_t>(work, kMask, UnitOf{work});
  else if (job < kTensorJobs)
    judge_tensor<uint16_t>(work, tensor_of(job), UnitOf{work});
  if (job == kWorkspaceJob) judge_workspace(work);
  if (job == kOutputJob) {
    const int32_t dtype = work.call->problem.dtype;
    dtype == ATTN_F32    ? judge_output<cuda::Format::kF32>(work)
    : dtype == ATTN_BF16 ? judge_output<cuda::Format::kBf16>(work)
                         : judge_output<cuda::Format::kF16>(work);
  }
  if (job == kLseJob) judge_lse(work);
}

// True if the call needs the job. Most calls need a third of the jobs.
bool lays(const Call& call, const Work& work, unsigned job) {
  switch (job) {
    case kWorkspaceJob:
      return !call.keeps_workspace && call.workspace.end > 0;
    case kPackedBias:
      return work.input.bias != nullptr;
    case kPackedMask:
      return work.input.mask != nullptr;
    case kPackedSides:
      return is_merge(call);
    case kTasks:
      return true;  // it sets the counts to 0
    default:
      return call.tensor[tensor_of(job)].end > 0 || (job == kValue && call.problem.latent != 0);
  }
}
bool judges(const Call& call, unsigned job) {
  if (job == kWorkspaceJob) return call.workspace.end > 0;
  return job > kWorkspaceJob || call.tensor[tensor_of(job)].end > 0;
}

// Launches a kernel for those of the first `all` jobs that the call has.
template <class Has>
attn_status launch_jobs(void (*kernel)(const Work), const Call& call, Work work, const attn_env* env, unsigned all,
                        const Has& has) {
  static_assert(kLayOutJobs <= sizeof work.jobs && kJudgeJobs <= sizeof work.jobs);
  unsigned count = 0;
  for (unsigned job = 0; job < all; ++job)
    if (has(job)) work.jobs[count++] = static_cast<uint8_t>(job);
  return attn::launch(kernel, dim3(blocks_for(call), count), dim3(kThreads), 0, env, work);
}

}  // namespace

attn_status lay_out(const Call& call, const Work& work, const attn_env* env) {
  return launch_jobs(lay_out_kernel, call, work, env, kLayOutJobs, [&](unsigned job) { return lays(call, work, job); });
}

attn_status lay_again(const Call& call, const Work& work, const attn_env* env) {
  return attn::launch(lay_again_kernel, dim3(blocks_for(call), 3), dim3(kThreads), 0, env, work);
}

attn_status judge(const Call& call, const Work& work, const attn_env* env) {
  const unsigned jobs = is_backward(call) ? kOutputJob : kJudgeJobs;
  return launch_jobs(judge_kernel, call, work, env, jobs, [&](unsigned job) { return judges(call, job); });
}

}  // namespace attnfuzz::batch
