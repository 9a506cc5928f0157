// dbias and dsink on a GPU, from dS of the pairs and from the rows: gradient_sums.h.
#pragma once

#include "kernels/primitives/launch.h"
#include "reference/cuda/gradient_rows.cuh"

namespace attnfuzz::cuda {

__device__ inline void put(const GradientOutput& to, int64_t at, const gradients::Element& element) {
  to.value[at] = element.value;
  to.bound[at] = element.bound;
  to.rule[at] = static_cast<uint8_t>(element.due);
}

// Combines the parts of a sum that the threads of a warp have. All get the same bits.
__device__ inline void over_warp(gradients::TermSum* sum) {
  double parts[4] = {sum->value, sum->error, sum->moduli, static_cast<double>(sum->terms)};
  G::over(parts, Sum());
  sum->value = parts[0], sum->error = parts[1], sum->moduli = parts[2];
  sum->terms = static_cast<int64_t>(parts[3]);
  sum->taint = over_warp(sum->taint);
}

// dsink of a head: add_to_sink() of gradients.cc. Run by a warp.
__global__ void __launch_bounds__(32) dsink_kernel(const __grid_constant__ GradientsInput in,
                                                   const GradientsScratch from, const GradientsOutput out) {
  const auto head = static_cast<int>(blockIdx.x);
  gradients::TermSum sum;
  for (int64_t row = G::rank(); row < in.rows.rows; row += 32) {
    if (in.tasks[row].head != head || in.tasks[row].query == kAbsent) continue;
    const GradientRow& of = from.rows[row];
    const double sink = in.rows.tasks[row].sink;
    if (of.sink_taint != kPure) {
      sum.mark(isinf(sink) || of.pairs == 0 ? kFree : of.sink_taint);
      continue;
    }
    const gradients::SinkTerm term = gradients::sink_term(
        in.terms, in.rows.model,
        {sink, of.lse, of.lse_error, of.delta, of.delta_size, of.delta_error, of.delta_factors});
    sum.add(term.value, term.error);
    if (!term.bounded) sum.mark(kFree);
  }
  over_warp(&sum);
  if (G::rank() == 0) put(out.dsink, head, sum.element(kU, kFlush, sum.terms));
}

// The queries that one element of dbias sums over: counts[n] indices from first[n] on, for batch entries, heads
// and queries.
struct BiasPart {
  int64_t first[3], counts[3];
  __device__ int64_t size() const { return counts[0] * counts[1] * counts[2]; }
};
// `element`: the place of a stored element among those of a key.
__device__ inline BiasPart part_of(const GradientsInput& in, int64_t element) {
  const int64_t stored[] = {in.dbias.batch, in.dbias.heads, in.dbias.queries},
                all[] = {in.rows.groups / in.heads_kv, in.heads_q, in.seq_q};
  BiasPart part;
  for (int n = 2; n >= 0; --n) {
    part.first[n] = element % stored[n], element /= stored[n];
    part.counts[n] = stored[n] < all[n] ? all[n] : 1;
  }
  return part;
}
// Query number n of a BiasPart.
struct BiasQuery {
  int64_t b, h, i;
};
__device__ inline BiasQuery query_at(const BiasPart& part, int64_t n) {
  const int64_t head = n / part.counts[2];
  return {part.first[0] + head / part.counts[1], part.first[1] + head % part.counts[1],
          part.first[2] + n % part.counts[2]};
}

// Adds dS of a query and key j: add_to_bias() and mark_hidden() of gradients.cc.
__device__ inline void add_pair(const GradientsInput& in, const GradientsScratch& from, const BiasQuery& query,
                                int64_t j, gradients::TermSum* sum) {
  const int64_t heads = in.heads_q / in.heads_kv, group = query.b * in.heads_kv + query.h / heads;
  const int64_t first = in.first_row[group], rows = (in.first_row[group + 1] - first) / heads;
  const int64_t row = first + query.h % heads * rows + query.i;
  if (query.i >= rows || in.tasks[row].query == kAbsent || j >= in.rows.lengths[group]) return;
  const int64_t pair = row * in.rows.keys + j;
  const unsigned facts = from.facts[pair];
  if ((facts & kSeen) != 0) {
    if (const auto taint = static_cast<Taint>(facts & 3); taint != kPure) return sum->mark(taint);
    return gradients::add_to_bias(in.terms, in.rows.model, from.s[pair], from.s_error[pair], sum);
  }
  if (in.rows.model.isolates_masked_nan) return;
  const GradientRow& of = from.rows[row];
  const GradientKey& key = from.keys[group * in.rows.keys + j];
  const Taint taint = worse(worse(of.taint, worse(of.q_taint, of.dout_taint)), worse(key.k_taint, key.v_taint));
  if (taint != kPure) sum->mark(kFree);
}

// Sums one stored element of dbias, by a thread (kLanes = 1) or a warp (32), and writes it at every index that
// shares it.
template <int kLanes>
__global__ void __launch_bounds__(kThreads)
    dbias_kernel(const __grid_constant__ GradientsInput in, const GradientsScratch from,
                 const GradientsOutput out) {
  const int64_t unit = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) / kLanes,
                keys = in.rows.keys;
  if (unit >= int64_t{in.dbias.batch} * in.dbias.heads * in.dbias.queries * keys) return;
  const int64_t j = unit % keys;
  const BiasPart part = part_of(in, unit / keys);
  const int lane = kLanes == 1 ? 0 : G::rank();
  gradients::TermSum sum;
  for (int64_t n = lane; n < part.size(); n += kLanes) add_pair(in, from, query_at(part, n), j, &sum);
  if constexpr (kLanes == 32) over_warp(&sum);
  const gradients::Element element = gradients::bias_element(in.terms, sum);
  for (int64_t n = lane; n < part.size(); n += kLanes) {
    const BiasQuery query = query_at(part, n);
    put(out.dbias, ((query.b * in.heads_q + query.h) * in.seq_q + query.i) * keys + j, element);
  }
}

inline attn_status launch_dbias(const GradientsInput& in, const GradientsOutput& out,
                                const GradientsScratch& from, const attn_env* env) {
  const int64_t queries = int64_t{in.dbias.batch} * in.dbias.heads * in.dbias.queries,
                all = int64_t{in.rows.groups / in.heads_kv} * in.heads_q * in.seq_q;
  if (queries == 0 || all == 0) return ATTN_OK;
  const int64_t lanes = all / queries < 32 ? 1 : 32;
  const auto blocks = static_cast<unsigned>((queries * in.rows.keys * lanes + kThreads - 1) / kThreads);
  return attn::launch(lanes == 1 ? dbias_kernel<1> : dbias_kernel<32>, dim3(blocks), dim3(kThreads), 0, env, in,
                      from, out);
}

}  // namespace attnfuzz::cuda
