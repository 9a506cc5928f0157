// The kernels of gradients.h. Each thread handles one unit of a tensor, or one number that the oracle reads or
// writes.
#include <cuda_runtime.h>

#include "fuzz/batch/device/gradients.h"
#include "fuzz/batch/device/units.cuh"
#include "kernels/primitives/launch.h"

namespace attnfuzz::batch {
namespace {

// The first jobs are the inputs, then the outputs.
constexpr unsigned kTensorJobs = kGradientInputs + kGradients;
__device__ int tensor_of(unsigned job) {
  const int t = static_cast<int>(job);
  return t < kGradientInputs ? kDout + t : kDq + t - kGradientInputs;
}
enum : unsigned { kCopies = kTensorJobs, kTasks, kLayOutJobs };
enum : unsigned { kNotFinite = kTensorJobs, kStates, kValues, kJudgeJobs = kValues + kGradients };

__device__ uint32_t nan_of(int32_t dtype) { return dtype == ATTN_F32 ? kNan32 : format16(dtype).nan; }

// A number as saved_bytes() stores it, in properties/operations/backward.
__device__ uint32_t saved_bits(int32_t dtype, Due due, double value) {
  if (due == Due::kMustBeNaN) return nan_of(dtype);
  const float number = due == Due::kNumber ? static_cast<float>(value) : 0.0f;
  return dtype == ATTN_F32 ? __float_as_uint(number) : to_bits(dtype, number);
}

// An element of the saved O or LSE, by its batch entry, head and query.
__device__ uint32_t saved_at(const Work& work, int t, int64_t b, int64_t h, int64_t i, int64_t d) {
  const Call& call = *work.call;
  const cuda::RowsOutput& out = work.output;
  const int64_t row = (b * call.problem.heads_q + h) * call.problem.seq_q + i,
                at = row * call.problem.dim_v + d;
  if (t == kSavedO) return saved_bits(call.problem.dtype, static_cast<Due>(out.o_rule[at]), out.o[at]);
  const auto state = static_cast<RowState>(out.state[row] & ~cuda::kAnyColumn);
  return saved_bits(ATTN_F32, cuda::lse_due(call.saved, state), out.lse[row]);
}

// An element of dO or dLSE, by its batch entry, head and query. A dimension that is stored once has index 0.
__device__ uint32_t recipe_at(const Call& call, int t, int64_t b, int64_t h, int64_t i, int64_t d) {
  const Recipe& recipe = call.recipe;
  if (const Plant* plant = plant_at(recipe, t, static_cast<uint32_t>(b), static_cast<uint32_t>(h),
                                    static_cast<uint32_t>(i), static_cast<uint32_t>(d)))
    return plant->bits;
  const bool dout = t == kDout;
  if (recipe.remapped) {
    const int64_t length = length_of(call, b);
    const auto from = [&](int dimension, const Axis& axis, int64_t n) {
      return dout && recipe.once_dout[dimension] ? 0 : source(axis, n, length);
    };
    b = from(0, recipe.batch, b), h = from(1, recipe.head_q, h), i = from(2, recipe.query, i);
  }
  return filled(dout ? recipe.dout : recipe.dlse, dout ? call.problem.dtype : int32_t{ATTN_F32}, b, h, i, d,
                call.tensor[t].size[3]);
}

// An element of dO, O, LSE or dLSE, by its batch entry, head and query, as a kernel reads it.
__device__ uint32_t value_at(const Work& work, int t, int64_t b, int64_t h, int64_t i, int64_t d) {
  if (t == kSavedO || t == kSavedLse) return saved_at(work, t, b, h, i, d);
  const TensorSlot& place = work.call->tensor[t];
  const bool packed = is_packed(*work.call, t);
  return recipe_at(*work.call, t, !packed && place.size[0] == 1 ? 0 : b, place.size[1] == 1 ? 0 : h,
                   !packed && place.size[2] == 1 ? 0 : i, place.size[3] == 1 ? 0 : d);
}

// An element of a row that belongs to no batch entry, as InputRows::write_slack() writes it.
__device__ uint32_t slack_at(const Call& call, int t, const uint32_t (&n)[4]) {
  const int32_t dtype = t == kDout || t == kSavedO ? call.problem.dtype : int32_t{ATTN_F32};
  if (!call.recipe.numbers_q) return nan_of(dtype);
  const Fill fill = t == kDout   ? call.recipe.dout
                    : t == kDlse ? call.recipe.dlse
                                 : Fill{.kind = FillKind::kGaussian};
  return filled(fill, dtype, 0, n[1], n[2], n[3], call.tensor[t].size[3]);
}

// The units of the four inputs, by the element's place in memory.
struct UnitOf {
  const Work& work;
  __device__ uint16_t operator()(int t, const uint32_t (&n)[4], uint32_t within) const {
    return static_cast<uint16_t>(element(t, n) >> 8 * within);
  }
  __device__ uint32_t element(int t, const uint32_t (&n)[4]) const {
    const Call& call = *work.call;
    if (!is_packed(call, t)) return value_at(work, t, n[0], n[1], n[2], n[3]);
    if (n[2] >= owned_rows(call, t)) return slack_at(call, t, n);
    const int64_t* const borders = borders_of(call, t);
    int64_t b = 0;
    while (borders[b + 1] <= n[2]) ++b;
    return value_at(work, t, b, n[1], n[2] - borders[b], n[3]);
  }
};

// Writes an array of the oracle: `columns` numbers of each row, and 0 for queries that a packed entry does not
// have.
template <class Number, class ValueOf>
__device__ void lay_copy(const Work& work, const void* to, int64_t columns, int64_t stride,
                         const ValueOf& value_of) {
  for (int64_t unit = first_unit(); unit < work.input.rows * columns; unit += stride_of_units()) {
    const int64_t row = unit / columns, column = unit % columns;
    const Query query = query_of(*work.call, row);
    static_cast<Number*>(const_cast<void*>(to))[row * stride + column] =
        is_absent(*work.call, query) ? Number{0} : static_cast<Number>(value_of(query, column));
  }
}

template <class Number>
__device__ void lay_copies(const GradientWork& of) {
  const cuda::GradientsInput& in = of.input;
  const auto copy = [&]<class Element>(int t, const void* to, int64_t columns, int64_t stride, Element) {
    lay_copy<Element>(of.work, to, columns, stride, [&](const Query& query, int64_t column) {
      return value_at(of.work, t, query.b, query.h, query.i, column);
    });
  };
  copy(kDout, in.dout, in.rows.dim_v, in.rows.stride_v, Number{});
  copy(kSavedO, in.o, in.rows.dim_v, in.rows.stride_v, Number{});
  copy(kSavedLse, in.lse, 1, 1, uint32_t{});
  if (in.dlse) copy(kDlse, in.dlse, 1, 1, uint32_t{});
  if (of.work.call->packed_q == 0) return;
  // lay_out() has written only the queries that exist.
  for (int64_t row = first_unit(); row < in.rows.rows; row += stride_of_units()) {
    if (!is_absent(*of.work.call, query_of(*of.work.call, row))) continue;
    auto* const q = static_cast<Number*>(const_cast<void*>(in.rows.q)) + row * in.rows.stride_qk;
    for (int32_t d = 0; d < in.rows.stride_qk; ++d) q[d] = 0;
  }
}

__device__ void lay_tasks(const GradientWork& of) {
  const Call& call = *of.work.call;
  const cuda::GradientsInput& in = of.input;
  for (int64_t row = first_unit(); row < in.rows.rows; row += stride_of_units()) {
    const Query query = query_of(call, row);
    const_cast<cuda::GradientTask*>(in.tasks)[row] = {
        static_cast<int32_t>(query.h), is_absent(call, query) ? cuda::kAbsent : static_cast<int32_t>(query.i)};
  }
  for (int64_t group = first_unit(); group <= in.rows.groups; group += stride_of_units())
    const_cast<int32_t*>(in.first_row)[group] = static_cast<int32_t>(group * in.most_rows);
}

__global__ void __launch_bounds__(kThreads) lay_gradients_kernel(const __grid_constant__ GradientWork of) {
  const unsigned job = blockIdx.y;
  if (job < kTensorJobs) lay_tensor<uint16_t>(of.work, tensor_of(job), UnitOf{of.work});
  if (job == kCopies)
    of.work.call->problem.dtype == ATTN_F32 ? lay_copies<uint32_t>(of) : lay_copies<uint16_t>(of);
  if (job == kTasks) lay_tasks(of);
}

__global__ void __launch_bounds__(kThreads)
    lay_gradients_again_kernel(const __grid_constant__ GradientWork of) {
  lay_tensor<uint16_t>(of.work, kDq + static_cast<int>(blockIdx.y), UnitOf{of.work});
}

// Counts the numbers of dO and dLSE that are not finite.
template <cuda::Format kFormat>
__device__ void count_not_finite(const GradientWork& of) {
  const cuda::RowsInput& rows = of.input.rows;
  int not_finite = 0;
  for (int64_t unit = first_unit(); unit < int64_t{rows.rows} * rows.dim_v; unit += stride_of_units())
    not_finite += !cuda::is_finite_number<kFormat>(
        cuda::numbers_of<kFormat>(of.input.dout)[unit / rows.dim_v * rows.stride_v + unit % rows.dim_v]);
  for (int64_t row = first_unit(); of.input.dlse && row < rows.rows; row += stride_of_units())
    not_finite += !isfinite(of.input.dlse[row]);
  count(&of.work.counts->not_finite, not_finite);
}

__device__ void count_states(const GradientWork& of) {
  int dead = 0, unconstrained = 0, unknown = 0;
  for (int64_t row = first_unit(); row < of.input.rows.rows; row += stride_of_units()) {
    uint8_t& bits = of.due.state[row];
    if (is_absent(*of.work.call, query_of(*of.work.call, row))) {
      bits = static_cast<uint8_t>(RowState::kAbsent);
      continue;
    }
    const auto state = static_cast<RowState>(bits & ~cuda::kAnyColumn);
    dead += state == RowState::kDead;
    unconstrained += (bits & cuda::kAnyColumn) != 0;
    unknown += state > RowState::kNaN;
  }
  count(&of.work.counts->dead, dead);
  count(&of.work.counts->unconstrained, unconstrained);
  count(&of.work.counts->unknown, unknown);
}

// Where a row of a gradient lies. `is` false: its batch entry has no such query or key.
struct GradientPlace {
  Query at;
  bool is;
};
__device__ GradientPlace row_of(const Call& call, int t, int64_t row) {
  const attn_problem& p = call.problem;
  if (t == kDsink) return {{0, row, 0}, true};
  if (t == kDq) {
    const Query query = query_of(call, row);
    return {query, !is_absent(call, query)};
  }
  if (t == kDbias) {  // it is never packed, and is a sum over the dimensions that it stores once
    const Query query = query_of(call, row);
    const uint32_t* const size = call.tensor[t].size;
    return {{size[0] == 1 ? 0 : query.b, size[1] == 1 ? 0 : query.h, size[2] == 1 ? 0 : query.i}, true};
  }
  const int64_t head = row / p.seq_k;
  const Query key = {head / p.heads_kv, head % p.heads_kv, row % p.seq_k};
  return {key, key.i < held_keys(call, key.b)};
}

template <cuda::Format kFormat>
__device__ void judge_values(const GradientWork& of, int t, const cuda::GradientOutput& due, int64_t rows,
                             int64_t columns) {
  const Call& call = *of.work.call;
  const double overflow = t == kDsink ? call.dsink_overflow : t == kDbias ? call.dbias_overflow : call.overflow;
  double worst = 0;
  int outside = 0, repeated = 0;
  float* const first = of.got[t - kDq];
  for (int64_t unit = first_unit(); unit < rows * columns; unit += stride_of_units()) {
    const GradientPlace row = row_of(call, t, unit / columns);
    if (!row.is) {
      due.value[unit] = 0, due.bound[unit] = INFINITY, due.rule[unit] = static_cast<uint8_t>(Due::kAnything);
      if (first) first[unit] = 0;
      continue;
    }
    const auto* bits = reinterpret_cast<const cuda::Bits<kFormat>*>(of.work.base[t] +
                                                                    place_of(call, t, row.at, unit % columns));
    const auto got = static_cast<float>(cuda::number<kFormat>(*bits));
    repeated += keep(of.work, first, unit, got);
    judge_ratio(
        ratio_of(static_cast<Due>(due.rule[unit]), due.value[unit], due.bound[unit], overflow, false, got),
        &worst, &outside);
  }
  count_ratios(of.work, worst, outside);
  count(&of.work.counts->repeated, repeated);
}

__device__ void judge_dbias(const GradientWork& of) {
  const attn_problem& p = of.work.call->problem;
  const cuda::GradientOutput& due = of.due.dbias;
  const int64_t rows = p.batch * p.heads_q * p.seq_q;
  p.bias_dtype == ATTN_F32    ? judge_values<cuda::Format::kF32>(of, kDbias, due, rows, p.seq_k)
  : p.bias_dtype == ATTN_BF16 ? judge_values<cuda::Format::kBf16>(of, kDbias, due, rows, p.seq_k)
                              : judge_values<cuda::Format::kF16>(of, kDbias, due, rows, p.seq_k);
}

template <cuda::Format kFormat>
__device__ void judge_job(const GradientWork& of, unsigned job) {
  const cuda::RowsInput& rows = of.input.rows;
  const int64_t slots = int64_t{rows.groups} * rows.keys;
  // Later calls have the inputs and the states of the first.
  if (job == kNotFinite && of.work.number == 0) count_not_finite<kFormat>(of);
  if (job == kStates && of.work.number == 0) count_states(of);
  if (job == kValues) judge_values<kFormat>(of, kDq, of.due.dq, rows.rows, rows.dim_qk);
  if (job == kValues + 1) judge_values<kFormat>(of, kDk, of.due.dk, slots, rows.dim_qk);
  if (job == kValues + 2) judge_values<kFormat>(of, kDv, of.due.dv, slots, rows.dim_v);
  if (job == kValues + 3 && of.input.biased) judge_dbias(of);
  if (job == kValues + 4 && of.input.sinks)
    judge_values<cuda::Format::kF32>(of, kDsink, of.due.dsink, of.input.heads_q, 1);
}

__global__ void __launch_bounds__(kThreads) judge_gradients_kernel(const __grid_constant__ GradientWork of) {
  const unsigned job = blockIdx.y;
  if (job < kTensorJobs) return judge_tensor<uint16_t>(of.work, tensor_of(job), UnitOf{of.work});
  const int32_t dtype = of.work.call->problem.dtype;
  dtype == ATTN_F32    ? judge_job<cuda::Format::kF32>(of, job)
  : dtype == ATTN_BF16 ? judge_job<cuda::Format::kBf16>(of, job)
                       : judge_job<cuda::Format::kF16>(of, job);
}

}  // namespace

attn_status lay_gradients(const Call& call, const GradientWork& of, const attn_env* env) {
  return attn::launch(lay_gradients_kernel, dim3(blocks_for(call), kLayOutJobs), dim3(kThreads), 0, env, of);
}

attn_status lay_gradients_again(const Call& call, const GradientWork& of, const attn_env* env) {
  return attn::launch(lay_gradients_again_kernel, dim3(blocks_for(call), kGradients), dim3(kThreads), 0, env,
                      of);
}

attn_status judge_gradients(const Call& call, const GradientWork& of, const attn_env* env) {
  return attn::launch(judge_gradients_kernel, dim3(blocks_for(call), kJudgeJobs), dim3(kThreads), 0, env, of);
}

}  // namespace attnfuzz::batch
