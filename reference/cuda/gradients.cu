// The gradients of a backward pass on a GPU, in double: gradients.h. After the rows, the keys and the pairs, a
// thread adds up each element.
#include <cuda_runtime.h>

#include <algorithm>
#include <type_traits>

#include "kernels/primitives/launch.h"
#include "reference/cuda/gradient_pairs.cuh"
#include "reference/cuda/gradient_sums.cuh"
#include "reference/cuda/gradients.h"

namespace attnfuzz::cuda {
namespace {

__global__ void __launch_bounds__(kThreads) clear_kernel(const GradientsScratch to, int groups) {
  const auto group = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (group < groups) to.groups[group] = 0;
}

// An element as it grows.
struct Growing {
  double value = 0, bound = 0, factors = 0;
  Taint taint = kPure;
};

// One element of dQ.
template <Format kFormat>
__global__ void __launch_bounds__(kThreads) dq_kernel(const __grid_constant__ GradientsInput in,
                                                      const GradientsScratch from, const GradientsOutput out) {
  const int64_t unit = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x, row = unit / in.rows.dim_qk;
  if (row >= in.rows.rows) return;
  const ErrorNumbers& model = in.rows.model;
  const auto c = static_cast<int>(unit % in.rows.dim_qk);
  const RowTask& task = in.rows.tasks[row];
  const GradientRow& query = from.rows[row];
  const int64_t slot = int64_t{task.group} * in.rows.keys;
  const auto key_at = [&](int j) { return number_at<kFormat>(in.rows.k, (slot + j) * in.rows.stride_qk + c); };
  Growing sum;
  Taint ignored = kPure;
  for (int j = task.first; j < task.last; ++j) {
    const int64_t pair = row * in.rows.keys + j;
    const unsigned facts = from.facts[pair];
    if ((facts & kSeen) == 0) continue;
    sum.taint = worse(sum.taint, static_cast<Taint>(facts & 3));
    const double k = pure(key_at(j), &ignored), a = from.a[pair], error = from.a_error[pair];
    const double moduli = in.terms.raised(fabs(a) + error);
    sum.value = fma(a, k, sum.value);
    sum.bound += (error + query.sum_error * moduli) * counted(k, model.least_factor);
    sum.factors += moduli;
  }
  const unsigned facts = from.groups[task.group];
  Taint here = sum.taint;
  if (here == kPure && !model.isolates_masked_nan) {
    bool met = (facts & kHiddenNan) != 0 || query.row_taint != kPure;
    for (int j = 0; j < in.rows.lengths[task.group] && !met && (facts & kKeysNotFinite) != 0; ++j)
      met = !isfinite(key_at(j));
    if (met) here = kFree;
  }
  put(out.dq, unit,
      gradients::element_of(gradients::finish(in.terms, model,
                                              {sum.value, sum.bound, query.sum_error, sum.factors, query.pairs,
                                               in.terms.dq_adds, true}),
                            here));
  if (c > 0) return;
  const bool met =
      !model.isolates_masked_nan && ((facts & (kHiddenNan | kKeysNotFinite)) != 0 || query.row_taint != kPure);
  const RowState state = query.pairs == 0       ? RowState::kDead
                         : sum.taint == kNaNDue ? RowState::kNaN
                         : sum.taint == kFree   ? RowState::kUnconstrained
                                                : RowState::kBounded;
  const bool any = sum.taint == kFree || (sum.taint == kPure && met);
  out.state[row] = static_cast<uint8_t>(static_cast<uint8_t>(state) | (any ? kAnyColumn : 0));
}

// Adds the sums of one query head to those of its KV head: add_head() of gradients.cc.
__device__ void add_head(const GradientsInput& in, const Growing& head, double scale, Growing& to) {
  const ErrorNumbers& model = in.rows.model;
  to.value += head.value;
  to.bound += head.bound;
  if (!in.terms.rounds_heads || scale == 0) return;
  const double size = fabs(head.value) + head.bound;
  to.bound += model.o_unit * size + model.o_tiny / scale;
  if (!(scale * size < model.overflow)) to.taint = worse(to.taint, kFree);
}

// One element of dK, or of dV.
template <Format kFormat, bool kOfKey>
__device__ void sum_key(const GradientsInput& in, const GradientsScratch& from, const GradientOutput& out,
                        int64_t unit) {
  const ErrorNumbers& model = in.rows.model;
  const int columns = kOfKey ? in.rows.dim_qk : in.rows.dim_v;
  const int64_t slot = unit / columns, stride = kOfKey ? in.rows.stride_qk : in.rows.stride_v;
  const auto group = static_cast<int>(slot / in.rows.keys), j = static_cast<int>(slot % in.rows.keys),
             c = static_cast<int>(unit % columns);
  const GradientKey& key = from.keys[slot];
  const double* const weights = kOfKey ? from.a : from.p;
  const double* const errors = kOfKey ? from.a_error : from.p_error;
  const double scale = kOfKey ? fabs(model.scale) : 1;
  const double relative = kOfKey ? in.terms.folded(model, key.sum_error) : key.sum_error;
  const bool there = j < in.rows.lengths[group];
  const int heads = in.heads_q / in.heads_kv, head = group % in.heads_kv * heads;
  Growing sum;
  bool met = false;
  for (int32_t h = head, row = in.first_row[group]; there && h < head + heads; ++h) {
    Growing of_head;
    for (; row < in.first_row[group + 1] && in.tasks[row].head == h; ++row) {
      const RowTask& task = in.rows.tasks[row];
      Taint taint = kPure;
      const double x = pure(number_at<kFormat>(kOfKey ? in.rows.q : in.dout, row * stride + c), &taint);
      met |= taint != kPure;
      if (j < task.first || j >= task.last) continue;
      const int64_t pair = int64_t{row} * in.rows.keys + j;
      const unsigned facts = from.facts[pair];
      if ((facts & kSeen) == 0) continue;
      const auto of_pair = static_cast<Taint>((kOfKey ? facts : facts >> kTaintOfP) & 3);
      sum.taint = worse(sum.taint, kOfKey ? of_pair : worse(of_pair, taint));
      const double weight = weights[pair], error = errors[pair], size = fabs(weight) + error;
      const double moduli = in.terms.raised(size);
      of_head.value = fma(weight, x, of_head.value);
      of_head.bound += (error + relative * moduli) * counted(x, model.least_factor);
      sum.factors += kOfKey ? moduli : size;
    }
    add_head(in, of_head, scale, sum);
  }
  met |= (from.groups[group] & (kOfKey ? kAllOfDk : kAllOfDv)) != 0;
  if (kOfKey) met |= key.v_taint != kPure || (model.softcap > 0 && key.k_taint != kPure);
  if (sum.taint == kPure && met && there && !model.isolates_masked_nan) sum.taint = kFree;
  put(out, unit,
      gradients::element_of(gradients::finish(in.terms, model,
                                              {sum.value, sum.bound, relative, sum.factors, key.pairs,
                                               in.terms.dkv_adds, kOfKey, kOfKey}),
                            sum.taint));
}

template <Format kFormat>
__global__ void __launch_bounds__(kThreads)
    dkdv_kernel(const __grid_constant__ GradientsInput in, const GradientsScratch from,
                const GradientsOutput out) {
  const int64_t unit = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t slots = int64_t{in.rows.groups} * in.rows.keys;
  if (blockIdx.y == 0 && unit < slots * in.rows.dim_qk) sum_key<kFormat, true>(in, from, out.dk, unit);
  if (blockIdx.y == 1 && unit < slots * in.rows.dim_v) sum_key<kFormat, false>(in, from, out.dv, unit);
}

template <Format kFormat>
attn_status launch(const GradientsInput& in, const GradientsOutput& out, const GradientsScratch& scratch,
                   const attn_env* env) {
  const auto blocks = [](int64_t units, int64_t each) {
    return static_cast<unsigned>((units + each - 1) / each);
  };
  const int64_t slots = int64_t{in.rows.groups} * in.rows.keys, rows = in.rows.rows;
  const dim3 threads(kThreads);
  const auto of_rows = [&](auto kernel) {
    return attn::launch(kernel, dim3(blocks(rows, kWarps)), threads, 0, env, in, scratch);
  };
  attn_status status = ATTN_OK;
  const auto then = [&](attn_status next) { status = status == ATTN_OK ? next : status; };
  if (in.rows.groups > 0)
    then(attn::launch(clear_kernel, dim3(blocks(in.rows.groups, kThreads)), threads, 0, env, scratch,
                      in.rows.groups));
  if (slots > 0)
    then(attn::launch(keys_kernel<kFormat>, dim3(blocks(slots, kThreads)), threads, 0, env, in, scratch));
  if (rows > 0) then(of_rows(rows_kernel<kFormat>));
  if (rows > 0 && in.own_o != nullptr) then(of_rows(softmax_kernel<kFormat>));
  const int64_t quads = (in.most_rows + kRowsAWarp - 1) / kRowsAWarp, chunks = (in.rows.keys + 31) / 32;
  const dim3 jobs(blocks(quads * chunks, kWarps), static_cast<unsigned>(in.rows.groups));
  if (rows > 0 && slots > 0) then(attn::launch(pairs_kernel<kFormat>, jobs, threads, 0, env, in, scratch));
  if (rows > 0)
    then(attn::launch(dq_kernel<kFormat>, dim3(blocks(rows * in.rows.dim_qk, kThreads)), threads, 0, env, in,
                      scratch, out));
  const int columns = std::max(in.rows.dim_qk, in.rows.dim_v);
  if (slots > 0)
    then(attn::launch(dkdv_kernel<kFormat>, dim3(blocks(slots * columns, kThreads), 2), threads, 0, env, in,
                      scratch, out));
  if (in.sinks && in.heads_q > 0)
    then(attn::launch(dsink_kernel, dim3(static_cast<unsigned>(in.heads_q)), dim3(32), 0, env, in, scratch,
                      out));
  if (in.biased && slots > 0) then(launch_dbias(in, out, scratch, env));
  return status;
}

}  // namespace

size_t divide_gradients(const GradientsInput& in, std::byte* memory, GradientsScratch* scratch) {
  size_t bytes = 0;
  const auto take = [&](auto*& to, int64_t count) {
    to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(memory + bytes);
    bytes += (static_cast<size_t>(count) * sizeof *to + 255) / 256 * 256;
  };
  const int64_t pairs = int64_t{in.rows.rows} * in.rows.keys;
  take(scratch->groups, in.rows.groups);
  take(scratch->rows, in.rows.rows);
  take(scratch->keys, int64_t{in.rows.groups} * in.rows.keys);
  take(scratch->a, pairs);
  take(scratch->a_error, pairs);
  take(scratch->p, pairs);
  take(scratch->p_error, pairs);
  take(scratch->s, in.biased ? pairs : 0);
  take(scratch->s_error, in.biased ? pairs : 0);
  take(scratch->facts, pairs);
  return bytes;
}

attn_status launch_gradients(const GradientsInput& in, const GradientsOutput& out,
                             const GradientsScratch& scratch, const attn_env* env) {
  return in.rows.dtype == ATTN_F32    ? launch<Format::kF32>(in, out, scratch, env)
         : in.rows.dtype == ATTN_BF16 ? launch<Format::kBf16>(in, out, scratch, env)
                                      : launch<Format::kF16>(in, out, scratch, env);
}

}  // namespace attnfuzz::cuda
