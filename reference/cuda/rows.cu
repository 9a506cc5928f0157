// The oracle's rows on a GPU: a block or a warp a row, in double. Nothing here is fast for its own sake: a
// row is read, weighed and added up as on the host, but thousands of them at once.
#include <cuda_runtime.h>

#include <numbers>

#include "kernels/primitives/launch.h"
#include "reference/cuda/mean.cuh"
#include "reference/cuda/rows.h"
#include "reference/cuda/scores.cuh"

namespace attnfuzz::cuda {
namespace {

// A warp a key: what load_operands() finds out of keys and values.
template <bool kBf16>
__global__ void __launch_bounds__(kThreads)
    facts_kernel(const RowsInput in, double* key_norm, uint8_t* key_purity) {
  const int64_t slot = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  const int group = static_cast<int>(slot / in.keys), lane = threadIdx.x % 32;
  if (group >= in.groups || slot % in.keys >= in.lengths[group]) return;
  double norm = 0, least = 0x1p1023, largest = 0;
  bool nan = false, infinite = false, impure = false;
  for (int t = lane; t < in.dim_qk; t += 32) {
    const double x = number<kBf16>(in.k[slot * in.stride_qk + t]), size = fabs(x);
    nan |= isnan(x);
    infinite |= isinf(x);
    norm += size;
    if (x != 0 && size < least) least = size;
  }
  for (int c = lane; c < in.dim_v; c += 32) {
    const double x = number<kBf16>(in.v[slot * in.stride_v + c]);
    if (isfinite(x))
      largest = max(largest, fabs(x));
    else
      impure = true;
  }
  norm = over_warp(norm, Sum());
  largest = over_warp(largest, Max());
  least = -over_warp(-least, Max());
  nan = __any_sync(kAll, nan);
  infinite = __any_sync(kAll, infinite);
  impure = __any_sync(kAll, impure);
  if (lane > 0) return;
  key_norm[slot] = norm;
  key_purity[slot] = static_cast<uint8_t>(nan ? Purity::kNaN : infinite ? Purity::kInfinite : Purity::kFinite);
  // Of numbers that are not negative the bits have their order.
  GroupFacts& facts = in.facts[group];
  atomicMin(&facts.least_key, static_cast<unsigned long long>(__double_as_longlong(least)));
  atomicMax(&facts.largest, static_cast<unsigned long long>(__double_as_longlong(largest)));
  if (nan || infinite) atomicOr(&facts.impure_keys, 1);
  if (impure) atomicOr(&facts.impure_values, 1);
}

// Of the whole row the same is due.
template <class G>
__device__ void fill(const RowsInput& in, const RowsOutput& out, int64_t task, const RowPlace& to,
                     RowState state, Due due, double lse, double bound) {
  for (int c = G::rank(); c < in.dim_v; c += G::kSize) {
    to.o[c] = 0;
    to.bound[c] = bound;
    to.rule[c] = static_cast<uint8_t>(due);
    if (to.exact) to.exact[c] = 0;
  }
  if (G::rank() > 0) return;
  out.lse[task] = lse;
  out.lse_bound[task] = bound;
  out.state[task] = static_cast<uint8_t>(state);
}

template <class G, bool kBf16>
__device__ void evaluate(const RowsInput& in, const RowsOutput& out, const RowsScratch& scratch, int64_t at,
                         double* q, Row& row) {
  const RowTask task = in.tasks[at];
  const GroupFacts facts = in.facts[task.group];
  const int64_t slots = static_cast<int64_t>(task.group) * in.keys, column = at * in.dim_v;
  const RowPlace to = {out.o + column, out.o_bound + column, out.o_exact ? out.o_exact + column : nullptr,
                       out.o_rule + column};
  if (G::rank() == 0) {
    row.keys = in.k + slots * in.stride_qk;
    row.values = in.v + slots * in.stride_v;
  }
  find_keys<G>(in, task, row);
  if (row.n == 0) return fill<G>(in, out, at, to, RowState::kDead, Due::kNumber, -INFINITY, 0);
  const Purity query = read_query<G, kBf16>(in, at, q, row);
  const Purity purity = purity_of<G>(in, task, facts, scratch.key_purity + slots, query, row);
  if (purity == Purity::kNaN) return fill<G>(in, out, at, to, RowState::kNaN, Due::kMustBeNaN, 0, INFINITY);
  const ErrorNumbers& model = in.model;
  // Scale folded into Q: the 16-bit query may itself overflow (with log2 e folded in, earlier).
  const bool folded =
      model.folded_unit != 0 && row.q_most * fabs(model.scale) * std::numbers::log2e >= model.folded_overflow;
  if (purity == Purity::kFinite && !folded)
    find_scores<G, kBf16>(in, task, facts, scratch.key_norm + slots, q, row);
  if (purity == Purity::kInfinite || folded || row.overflowing)
    return fill<G>(in, out, at, to, RowState::kUnconstrained, Due::kAnything, 0, INFINITY);

  find_tiles<G>(in, row);
  const double charges = round_p<G>(model, row);
  begin_mean<G, kBf16>(in, facts, charges, row);
  for (int c = G::rank(); c < in.dim_v; c += G::kSize) to.rule[c] = static_cast<uint8_t>(Due::kNumber);
  const bool known = row.known && known_columns<G, kBf16>(in, row, to);
  const bool informative = known || (row.informative && plain_columns<G, kBf16>(in, row, to));
  if (!informative) hull<G, kBf16>(in, row, to);
  bool any = mark_overflow<G, kBf16>(in, facts, row, to);
  any |= mark_non_finite<G, kBf16>(in, facts, in.lengths[task.group], row, to);
  if (G::rank() > 0) return;
  out.lse[at] = row.lse;
  out.lse_bound[at] = informative ? row.lse_bound : INFINITY;
  out.state[at] = static_cast<uint8_t>(informative ? RowState::kBounded : RowState::kUninformative) |
                  (any ? kAnyColumn : 0);
}

template <class G, bool kBf16>
__global__ void __launch_bounds__(kThreads, kBlocksASm)
    rows_kernel(const __grid_constant__ RowsInput in, const RowsOutput out, const RowsScratch scratch) {
  constexpr int kGroups = kThreads / G::kSize;
  __shared__ double queries[kGroups][256];  // the largest dim_qk that the contract has
  alignas(16) __shared__ std::byte room[kGroups][sizeof(Row)];
  const int of_block = static_cast<int>(threadIdx.x) / G::kSize,
            group = static_cast<int>(blockIdx.x) * kGroups + of_block;
  if (group >= scratch.groups) return;
  Row& row = *reinterpret_cast<Row*>(room[of_block]);
  if (G::rank() == 0) carve(in, scratch.memory + scratch.bytes_a_group * static_cast<size_t>(group), row);
  for (int64_t at = group; at < in.rows; at += scratch.groups) {
    G::sync();
    evaluate<G, kBf16>(in, out, scratch, at, queries[of_block], row);
  }
}

template <bool kBf16>
attn_status launch(const RowsInput& in, const RowsOutput& out, const RowsScratch& scratch,
                   const attn_env* env) {
  const int64_t slots = static_cast<int64_t>(in.groups) * in.keys;
  if (slots > 0) {
    const auto blocks = static_cast<unsigned>((slots + kWarps - 1) / kWarps);
    const attn_status status = attn::launch(facts_kernel<kBf16>, dim3(blocks), dim3(kThreads), 0, env, in,
                                            scratch.key_norm, scratch.key_purity);
    if (status != ATTN_OK) return status;
  }
  const auto launched = [&]<class G>(G) {
    const int groups_a_block = kThreads / G::kSize;
    const auto blocks = static_cast<unsigned>((scratch.groups + groups_a_block - 1) / groups_a_block);
    return attn::launch(rows_kernel<G, kBf16>, dim3(blocks), dim3(kThreads), 0, env, in, out, scratch);
  };
  return scratch.threads_a_row == 32 ? launched(Group<32>()) : launched(Group<kThreads>());
}

}  // namespace

size_t scratch_bytes(const RowsInput& in) {
  const auto keys = static_cast<size_t>((in.most_keys + 1) / 2 * 2);
  const size_t bytes = keys * (kDoublesAKey * sizeof(double) + sizeof(int32_t)) +
                       static_cast<size_t>(tiles_of(in.model, in.most_keys)) * sizeof(Tile);
  return (bytes + 127) / 128 * 128;
}

int threads_a_row(const RowsInput& in, int64_t others, int blocks) {
  constexpr int kWarpsKeys = 1024;
  const bool many = in.rows + others > int64_t{kThreads / 32} * blocks;
  return many && in.most_keys <= kWarpsKeys ? 32 : kThreads;
}

attn_status launch_rows(const RowsInput& in, const RowsOutput& out, const RowsScratch& scratch,
                        const attn_env* env) {
  return in.dtype == ATTN_BF16 ? launch<true>(in, out, scratch, env) : launch<false>(in, out, scratch, env);
}

}  // namespace attnfuzz::cuda
