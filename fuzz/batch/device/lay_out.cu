// Lays out a call. For Q, K and V a warp works on one row after another. For everything else a thread works on
// one unit: a byte of a mask, two bytes of any other tensor, four of the workspace, or one number of the
// oracle's inputs.
#include <cuda_runtime.h>

#include "fuzz/batch/device/jobs.cuh"
#include "fuzz/batch/device/rows.cuh"
#include "reference/semantics.h"

namespace attnfuzz::batch {
namespace {

enum : unsigned { kPackedBias = kWorkspaceJob + 1, kPackedMask, kPackedSides, kTasks, kLayOutJobs };
static_assert(kLayOutJobs <= sizeof Work::jobs);

__device__ uint32_t workspace_word(const Call& call, uint64_t at) {
  const Workspace& workspace = call.workspace;
  if (at < workspace.data || at >= workspace.end_of_data) return ~uint32_t{0};
  // Before the first call, a dirty workspace holds values that a call of another shape could have
  // left. Later calls find what the call before them left.
  if (!call.repeat[0].dirty_workspace) return workspace.pattern;
  const uint64_t offset = at - workspace.data;
  return static_cast<uint32_t>(mix(0, 0, 0, 0, offset / 8 * 8) >> 8 * (offset & 4));
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

}  // namespace

attn_status lay_out(const Call& call, const Work& work, const attn_env* env) {
  return launch_jobs(lay_out_kernel, call, work, env, kLayOutJobs,
                     [&](unsigned job) { return lays(call, work, job); });
}

attn_status lay_again(const Call& call, const Work& work, const attn_env* env) {
  return attn::launch(lay_again_kernel, dim3(blocks_for(call), 3), dim3(kThreads), 0, env, work);
}

}  // namespace attnfuzz::batch
