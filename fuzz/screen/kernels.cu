// A screen's own kernels. A thread takes a unit after another: two bytes of a 16-bit tensor, four of the
// LSE and the workspace, one number of the oracle's inputs or results.
#include <cuda_runtime.h>

#include <algorithm>

#include "fuzz/screen/kernels.h"
#include "kernels/primitives/launch.h"
#include "properties/data/fill_values.h"
#include "reference/cuda/block.cuh"
#include "reference/expected.h"
#include "reference/key_range.h"

namespace attnfuzz::screen {
namespace {

using cuda::kThreads;

// Over which the units of one job are spread.
constexpr uint64_t kMostBlocks = 48, kUnitsAThread = 4;
unsigned blocks_for(const Work& work) {
  uint64_t bytes = work.workspace.end - work.workspace.begin;
  for (const Place& place : work.tensor) bytes = std::max(bytes, place.end - place.begin);
  return static_cast<unsigned>(std::min(bytes / (2 * kThreads * kUnitsAThread) + 1, kMostBlocks));
}
enum Job : unsigned { kWorkspaceJob = kTensors, kPackedQuery, kPackedKey, kPackedValue, kTasks, kLayOutJobs };
enum : unsigned { kOutputJob = kWorkspaceJob + 1, kLseJob, kJudgeJobs };

__device__ int64_t first_unit() { return static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; }
__device__ int64_t stride_of_units() { return static_cast<int64_t>(gridDim.x) * kThreads; }

struct Element {
  bool is;
  uint32_t n[4];
};

// Which element lies `offset` elements behind the first.
__device__ Element element_at(const Place& place, uint32_t offset) {
  Element e = {true, {}};
  for (int i = 0; i < 3; ++i) {
    const int dimension = place.order[i];
    e.n[dimension] = offset / place.stride[dimension];
    offset -= e.n[dimension] * place.stride[dimension];
    e.is &= e.n[dimension] < place.size[dimension];
  }
  e.n[3] = offset;
  e.is &= offset < place.size[3];
  return e;
}

__device__ uint16_t filled(const Work& work, int t, uint32_t b, uint32_t h, uint32_t s, uint32_t d) {
  return fill_bits(work.fill[t], work.problem.dtype, b, h, s, d, work.tensor[t].size[3]);
}

// The half of a pattern that lies at an address.
__device__ uint16_t half_at(uint32_t pattern, uint64_t address) {
  return static_cast<uint16_t>(address & 2 ? pattern >> 16 : pattern);
}

// What a unit of two bytes of an input, or of guards, gaps and an output before the call, holds.
__device__ uint16_t laid(const Work& work, int t, uint64_t at, bool* element) {
  const Place& place = work.tensor[t];
  *element = false;
  if (at >= place.data && at < place.elements_end) {
    const Element e = element_at(place, static_cast<uint32_t>((at - place.data) / (t == kLse ? 4 : 2)));
    *element = e.is;
    if (e.is && t <= kValue) return filled(work, t, e.n[0], e.n[1], e.n[2], e.n[3]);
  }
  return half_at(place.pattern, at);
}

__device__ void lay_tensor(const Work& work, int t) {
  const Place& place = work.tensor[t];
  bool element;
  for (uint64_t at = place.begin + 2 * static_cast<uint64_t>(first_unit()); at < place.end;
       at += 2 * static_cast<uint64_t>(stride_of_units()))
    *reinterpret_cast<uint16_t*>(work.slot + at) = laid(work, t, at, &element);
}

__device__ uint32_t workspace_word(const Workspace& workspace, uint64_t at) {
  return at >= workspace.data && at < workspace.end_of_data ? workspace.pattern : ~uint32_t{0};
}

// Rows of keys or values, or of queries, dense and padded with zeros: rows.h.
__device__ void lay_packed(const Work& work, int t, int64_t rows, int64_t length, int64_t heads, int32_t stride,
                           const uint16_t* to) {
  for (int64_t unit = first_unit(); unit < rows * stride; unit += stride_of_units()) {
    const int64_t row = unit / stride, d = unit % stride, head = row / length;
    const bool is = d < work.tensor[t].size[3];
    const_cast<uint16_t*>(to)[unit] =
        is ? filled(work, t, static_cast<uint32_t>(head / heads), static_cast<uint32_t>(head % heads),
                    static_cast<uint32_t>(row % length), static_cast<uint32_t>(d))
           : uint16_t{0};
  }
}

__device__ void lay_tasks(const Work& work) {
  const attn_problem& p = work.problem;
  const cuda::RowsInput& in = work.input;
  const int64_t heads_a_group = p.heads_q / p.heads_kv;
  for (int64_t row = first_unit(); row < in.rows; row += stride_of_units()) {
    const int64_t head = row / p.seq_q, b = head / p.heads_q;
    const KeyRange range = key_range(p, p.seq_k, row % p.seq_q);
    cuda::RowTask task = {};
    task.group = static_cast<int32_t>(b * p.heads_kv + head % p.heads_q / heads_a_group);
    // A window may end before the first key.
    if (range.last > range.first)
      task.first = static_cast<int32_t>(range.first), task.last = static_cast<int32_t>(range.last);
    const_cast<cuda::RowTask*>(in.tasks)[row] = task;
  }
  for (int64_t group = first_unit(); group < in.groups; group += stride_of_units()) {
    in.facts[group] = {static_cast<unsigned long long>(__double_as_longlong(0x1p1023)), 0, 0, 0};
    const_cast<int32_t*>(in.lengths)[group] = in.keys;
  }
  if (first_unit() == 0) *work.counts = {};
}

__global__ void __launch_bounds__(kThreads) lay_out_kernel(const __grid_constant__ Work work) {
  const unsigned job = blockIdx.y;
  const cuda::RowsInput& in = work.input;
  const int64_t keys = static_cast<int64_t>(in.groups) * in.keys;
  if (job < kTensors) lay_tensor(work, static_cast<int>(job));
  if (job == kWorkspaceJob) {
    for (uint64_t at = work.workspace.begin + 4 * static_cast<uint64_t>(first_unit()); at < work.workspace.end;
         at += 4 * static_cast<uint64_t>(stride_of_units()))
      *reinterpret_cast<uint32_t*>(work.slot + at) = workspace_word(work.workspace, at);
  }
  if (job == kPackedQuery)
    lay_packed(work, kQuery, in.rows, work.problem.seq_q, work.problem.heads_q, in.stride_qk, in.q);
  if (job == kPackedKey) lay_packed(work, kKey, keys, in.keys, work.problem.heads_kv, in.stride_qk, in.k);
  if (job == kPackedValue) lay_packed(work, kValue, keys, in.keys, work.problem.heads_kv, in.stride_v, in.v);
  if (job == kTasks) lay_tasks(work);
}

// Zeros, which is what there usually is, cost no atomic.
__device__ void count(uint32_t* to, int mine) {
  if (mine > 0) atomicAdd(to, static_cast<uint32_t>(mine));
}

__device__ void judge_tensor(const Work& work, int t) {
  const Place& place = work.tensor[t];
  int guards = 0, inputs = 0, unwritten = 0;
  for (uint64_t at = place.begin + 2 * static_cast<uint64_t>(first_unit()); at < place.end;
       at += 2 * static_cast<uint64_t>(stride_of_units())) {
    bool element;
    const uint16_t is = *reinterpret_cast<const uint16_t*>(work.slot + at), was = laid(work, t, at, &element);
    if (!element)
      guards += is != was;
    else if (t <= kValue)
      inputs += is != was;
    else if (work.complete && t == kOutput)
      unwritten += is == was;
    else if (work.complete && at % 4 == 0)  // the LSE
      unwritten += *reinterpret_cast<const uint32_t*>(work.slot + at) == place.pattern;
  }
  count(&work.counts->guards, guards);
  count(&work.counts->inputs, inputs);
  count(&work.counts->unwritten, unwritten);
}

__device__ void judge_workspace(const Work& work) {
  int guards = 0;
  for (uint64_t at = work.workspace.begin + 4 * static_cast<uint64_t>(first_unit()); at < work.workspace.end;
       at += 4 * static_cast<uint64_t>(stride_of_units())) {
    if (at >= work.workspace.data && at < work.workspace.end_of_data) continue;
    guards += *reinterpret_cast<const uint32_t*>(work.slot + at) != ~uint32_t{0};
  }
  count(&work.counts->guards, guards);
}

// What a row's state leaves its LSE to be.
__device__ Due due_of(RowState state) {
  return state == RowState::kNaN             ? Due::kMustBeNaN
         : state == RowState::kUnconstrained ? Due::kAnything
                                             : Due::kNumber;
}

__device__ uint64_t place_of(const Work& work, int t, int64_t row, int64_t column) {
  const Place& place = work.tensor[t];
  const int64_t head = row / work.problem.seq_q;
  return place.data + static_cast<uint64_t>((head / work.problem.heads_q * place.stride[0] +
                                             head % work.problem.heads_q * place.stride[1] +
                                             row % work.problem.seq_q * place.stride[2] + column) *
                                            (t == kLse ? 4 : 2));
}

__device__ void judge_ratio(double ratio, double* worst, int* outside) {
  if (ratio <= 1)
    *worst = max(*worst, ratio);
  else
    ++*outside;
}

__device__ void count_ratios(const Work& work, double worst, int outside) {
  worst = cuda::over_warp(worst, cuda::Max());
  // Of numbers that are not negative the bits have their order.
  if (threadIdx.x % 32 == 0 && worst > 0)
    atomicMax(&work.counts->worst, static_cast<unsigned long long>(__double_as_longlong(worst)));
  count(&work.counts->outside, outside);
}

template <bool kBf16>
__device__ void judge_output(const Work& work) {
  const cuda::RowsOutput& out = work.output;
  const int64_t columns = work.problem.dim_v;
  double worst = 0;
  int outside = 0;
  for (int64_t at = first_unit(); at < work.input.rows * columns; at += stride_of_units()) {
    const auto* bits =
        reinterpret_cast<const uint16_t*>(work.slot + place_of(work, kOutput, at / columns, at % columns));
    const auto got = static_cast<float>(cuda::number<kBf16>(*bits));
    judge_ratio(
        ratio_of(static_cast<Due>(out.o_rule[at]), out.o[at], out.o_bound[at], work.overflow, false, got),
        &worst, &outside);
  }
  count_ratios(work, worst, outside);
}

__device__ void judge_lse(const Work& work) {
  const cuda::RowsOutput& out = work.output;
  double worst = 0;
  int outside = 0, dead = 0, uninformative = 0, unconstrained = 0, unknown = 0;
  for (int64_t row = first_unit(); row < work.input.rows; row += stride_of_units()) {
    const auto state = static_cast<RowState>(out.state[row] & ~cuda::kAnyColumn);
    dead += state == RowState::kDead;
    uninformative += state == RowState::kUninformative;
    unconstrained += state == RowState::kUnconstrained || (out.state[row] & cuda::kAnyColumn) != 0;
    unknown += state > RowState::kNaN;
    if (work.tensor[kLse].end == 0) continue;
    const float got = *reinterpret_cast<const float*>(work.slot + place_of(work, kLse, row, 0));
    judge_ratio(ratio_of(due_of(state), out.lse[row], out.lse_bound[row], 0, true, got), &worst, &outside);
  }
  count_ratios(work, worst, outside);
  count(&work.counts->dead, dead);
  count(&work.counts->uninformative, uninformative);
  count(&work.counts->unconstrained, unconstrained);
  count(&work.counts->unknown, unknown);
}

__global__ void __launch_bounds__(kThreads) judge_kernel(const __grid_constant__ Work work) {
  const unsigned job = blockIdx.y;
  if (job < kTensors) judge_tensor(work, static_cast<int>(job));
  if (job == kWorkspaceJob) judge_workspace(work);
  if (job == kOutputJob) work.problem.dtype == ATTN_BF16 ? judge_output<true>(work) : judge_output<false>(work);
  if (job == kLseJob) judge_lse(work);
}

}  // namespace

attn_status lay_out(const Work& work, const attn_env* env) {
  return attn::launch(lay_out_kernel, dim3(blocks_for(work), kLayOutJobs), dim3(kThreads), 0, env, work);
}

attn_status judge(const Work& work, const attn_env* env) {
  return attn::launch(judge_kernel, dim3(blocks_for(work), kJudgeJobs), dim3(kThreads), 0, env, work);
}

}  // namespace attnfuzz::screen
