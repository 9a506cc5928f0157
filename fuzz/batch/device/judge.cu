// Judges what a run of a call has written. A thread works on one unit (lay_out.cu), or on one result of the
// oracle.
#include <cuda_runtime.h>

#include "fuzz/batch/device/jobs.cuh"
#include "fuzz/batch/device/rows.cuh"

namespace attnfuzz::batch {
namespace {

enum : unsigned {
  kOutputJob = kWorkspaceJob + 1,
  kLseJob,
  kJudgeJobs
};  // a backward pass has neither O nor LSE
static_assert(kJudgeJobs <= sizeof Work::jobs);

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

bool judges(const Call& call, unsigned job) {
  if (job == kWorkspaceJob) return call.workspace.end > 0;
  return job > kWorkspaceJob || call.tensor[tensor_of(job)].end > 0;
}

}  // namespace

attn_status judge(const Call& call, const Work& work, const attn_env* env) {
  const unsigned jobs = is_backward(call) ? kOutputJob : kJudgeJobs;
  return launch_jobs(judge_kernel, call, work, env, jobs, [&](unsigned job) { return judges(call, job); });
}

}  // namespace attnfuzz::batch
