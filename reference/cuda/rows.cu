// The oracle's rows on a GPU, in double. A block evaluates a few rows at a time, and each warp weighs one
// of them.
#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/primitives/launch.h"
#include "kernels/primitives/shared.h"
#include "reference/cuda/columns_alone.cuh"
#include "reference/cuda/mean.cuh"
#include "reference/cuda/rows.h"
#include "reference/cuda/scores.cuh"
#include "reference/cuda/weights.cuh"

namespace attnfuzz::cuda {
namespace {

// Finds the facts about keys and values that load_operands() finds on the host. One warp takes one key.
template <Format kFormat>
__global__ void __launch_bounds__(kThreads)
    facts_kernel(const RowsInput in, double* key_norm, uint8_t* key_facts) {
  const int64_t slot = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  const int group = static_cast<int>(slot / in.keys), lane = threadIdx.x % 32;
  if (group >= in.groups || slot % in.keys >= in.lengths[group]) return;
  double norm = 0, least = 0x1p1023, largest = 0;
  bool nan = false, infinite = false, impure = false;
  for (int t = lane; t < in.dim_qk; t += 32) {
    const double x = number<kFormat>(numbers_of<kFormat>(in.k)[slot * in.stride_qk + t]), size = fabs(x);
    nan |= isnan(x);
    infinite |= isinf(x);
    norm += size;
    if (x != 0 && size < least) least = size;
  }
  for (int c = lane; c < in.dim_v; c += 32) {
    const double x = number<kFormat>(numbers_of<kFormat>(in.v)[slot * in.stride_v + c]);
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
  const Purity purity = nan ? Purity::kNaN : infinite ? Purity::kInfinite : Purity::kFinite;
  key_norm[slot] = norm;
  key_facts[slot] = static_cast<uint8_t>(purity) | (least < in.model.least_factor ? kBelowLeast : 0);
  // Bits of numbers that are not negative are ordered like the numbers.
  GroupFacts& facts = in.facts[group];
  atomicMin(&facts.least_key, static_cast<unsigned long long>(__double_as_longlong(least)));
  atomicMax(&facts.largest, static_cast<unsigned long long>(__double_as_longlong(largest)));
  if (impure) atomicOr(&facts.impure_values, 1);
}

// Fills a row that sees a sink and no key.
template <class G>
__device__ void fill_without_keys(const RowsInput& in, const RowsOutput& out, int64_t task, double sink) {
  fill<G>(in, out, task, RowState::kBounded, Due::kNumber, sink / in.model.log_unit, 0);
  if (G::rank() == 0) out.lse_bound[task] = lone_sink_bound(in.model, sink) / in.model.log_unit;
}

// Fills a row for which weigh() found the same expectation in all columns.
template <class G>
__device__ void fill(const RowsInput& in, const RowsOutput& out, int64_t task, Row& row) {
  const bool open = isnan(row.sink) || row.sink == INFINITY;
  if (row.n == 0 && !open && has_sink(row.sink))
    fill_without_keys<G>(in, out, task, row.sink);
  else if (row.n == 0 && !open)
    fill<G>(in, out, task, RowState::kDead, Due::kNumber, in.model.dead_lse, 0);
  else if (row.nan && !open)
    fill<G>(in, out, task, RowState::kNaN, Due::kMustBeNaN, 0, INFINITY);
  else
    fill<G>(in, out, task, RowState::kUnconstrained, Due::kAnything, 0, INFINITY);
  G::sync();
  if (G::rank() == 0) row.way = Way::kDone;
  G::sync();
}

// Completes a row whose columns are computed, or need not be.
template <class G>
__device__ void finish(const RowsInput& in, const RowsOutput& out, int64_t task, const GroupFacts& facts,
                       const Team& team, const Row& row) {
  if (row.way == Way::kDone) return;
  const RowPlace to = place_of(in, out, task);
  if (row.way == Way::kHull) hull<G>(in, row, team, to);
  G::sync();
  const double largest = __longlong_as_double(static_cast<int64_t>(facts.largest));
  bool any = false;
  if (may_overflow(row.terms, row.grown, row.n, largest)) any = mark_overflow<G>(in, row, team, to);
  if (facts.impure_values != 0) any |= mark_non_finite<G>(in, in.lengths[in.tasks[task].group], row, team, to);
  if (G::rank() > 0) return;
  const bool known = row.way != Way::kHull;
  out.lse[task] = (row.lam + row.shift) / in.model.log_unit;
  out.lse_bound[task] = known ? row.lse_bound / in.model.log_unit : INFINITY;
  out.state[task] =
      static_cast<uint8_t>(known ? RowState::kBounded : RowState::kUninformative) | (any ? kAnyColumn : 0);
}

// Evaluates rows at, at + 1, ... of one group of keys.
template <Format kFormat>
__device__ void evaluate(const RowsInput& in, const RowsOutput& out, const RowsScratch& scratch, int64_t at,
                         int count, double* q, Team& team) {
  const GroupFacts facts = in.facts[in.tasks[at].group];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  // Each row belongs to a warp, or to the whole block if it is alone.
  const auto each_row = [&](const auto& visit) {
    if (count == 1)
      visit(Group<Members::kBlock>(), 0);
    else if (warp < count)
      visit(Group<Members::kWarp>(), warp);
    __syncthreads();
  };
  const auto any_by = [&](Way way) {
    bool any = false;
    for (int r = 0; r < count; ++r) any |= team.row[r].way == way;
    return any;
  };
  // If a column has no finite bound by the way `now`, it may have one by the way `next`.
  const auto columns_by = [&](Way now, Way next) {
    if (!any_by(now)) return;
    if (team.room != nullptr)
      find_columns_alone<kFormat>(in, out, at, facts.impure_values != 0, now, team);
    else
      find_columns<kFormat>(in, out, at, facts.impure_values != 0, now, team);
    __syncthreads();
    each_row([&]<class G>(G, int r) {
      Row& row = team.row[r];
      if (row.way != now || row.unbounded == 0) return;
      G::sync();
      if (G::rank() == 0) row.way = next, row.unbounded = 0;
      G::sync();
      charge_keys<G>(team, row);
    });
  };

  find_keys(in, at, count, team);
  __syncthreads();
  if (warp < count) read_query<kFormat>(in, at + warp, q + warp * in.stride_qk, team.row[warp]);
  divide_into_tiles(in.model, team);
  __syncthreads();
  if (count == 1)
    find_scores<1, kFormat>(in, at, facts, q, scratch.key_norm, scratch.key_facts, team);
  else if (count == 2)
    find_scores<2, kFormat>(in, at, facts, q, scratch.key_norm, scratch.key_facts, team);
  else
    find_scores<kTeam, kFormat>(in, at, facts, q, scratch.key_norm, scratch.key_facts, team);
  __syncthreads();
  each_row([&]<class G>(G, int r) {
    if (!weigh<G>(in, at + r, facts, team, team.row[r])) fill<G>(in, out, at + r, team.row[r]);
  });
  columns_by(Way::kKnown, Way::kPlain);
  columns_by(Way::kPlain, Way::kHull);
  if (out.o_exact && team.room == nullptr && any_by(Way::kKnown)) find_exact(in, out, at, team);
  each_row([&]<class G>(G, int r) { finish<G>(in, out, at + r, facts, team, team.row[r]); });
}

// Four blocks of kThreads have as many registers as one of kThreadsAlone.
template <Format kFormat>
__global__ void __launch_bounds__(kThreadsAlone)
    rows_kernel(const __grid_constant__ RowsInput in, const RowsOutput out, const RowsScratch scratch) {
  ATTN_DYNAMIC_SHARED(Pair, shared);
  alignas(16) __shared__ std::byte room[sizeof(Team)];
  Team& team = *reinterpret_cast<Team*>(room);
  auto* const q = reinterpret_cast<double*>(shared);
  const int rows = scratch.rows_a_team;
  if (threadIdx.x == 0) {
    std::byte* memory = reinterpret_cast<std::byte*>(q + rows * in.stride_qk);
    team.room = scratch.threads == kThreadsAlone ? reinterpret_cast<double*>(memory) : nullptr;
    if (team.room != nullptr) memory += kRoomAlone;
    if (scratch.bytes_a_block > 0) memory = scratch.memory + scratch.bytes_a_block * blockIdx.x;
    carve(in, rows, memory, team);
  }
  for (int64_t from = int64_t{blockIdx.x} * rows; from < in.rows; from += int64_t{gridDim.x} * rows) {
    const int64_t end = min(from + rows, int64_t{in.rows});
    for (int64_t at = from; at < end;) {
      int count = 1;
      while (at + count < end && in.tasks[at + count].group == in.tasks[at].group) ++count;
      __syncthreads();
      evaluate<kFormat>(in, out, scratch, at, count, q, team);
      at += count;
    }
  }
}

template <Format kFormat>
attn_status launch(const RowsInput& in, const RowsOutput& out, const RowsScratch& scratch,
                   const attn_env* env) {
  if (in.rows == 0) return ATTN_OK;
  const int64_t slots = static_cast<int64_t>(in.groups) * in.keys;
  if (slots > 0) {
    const auto blocks = static_cast<unsigned>((slots + kWarps - 1) / kWarps);
    const attn_status status = attn::launch(facts_kernel<kFormat>, dim3(blocks), dim3(kThreads), 0, env, in,
                                            scratch.key_norm, scratch.key_facts);
    if (status != ATTN_OK) return status;
  }
  return attn::launch(rows_kernel<kFormat>, dim3(static_cast<unsigned>(scratch.blocks)),
                      dim3(static_cast<unsigned>(scratch.threads)), scratch.shared_bytes, env, in, out, scratch);
}

}  // namespace

RowsScratch divide_rows(const RowsInput& in, int most_blocks, int64_t shared_limit) {
  // If a block needs more shared memory, fewer than two blocks share a multiprocessor.
  constexpr int64_t kMostShared = 100 << 10;
  // The most bytes of scratch. If blocks need more together, fewer run at once.
  constexpr size_t kMostScratch = size_t{1} << 27;
  RowsScratch scratch = {};
  const int64_t a_group = (int64_t{in.rows} + in.groups - 1) / std::max(in.groups, 1);
  scratch.rows_a_team = a_group > 2 ? kTeam : static_cast<int>(std::max<int64_t>(a_group, 1));
  // In a team each row has a warp. A long row alone has a whole block, which is faster as long as there are few rows.
  constexpr int kLongRow = 1024;
  // A block has other shared memory, too.
  constexpr int64_t kBesides = 8 << 10;
  const int64_t shared_alone = in.stride_qk * static_cast<int64_t>(sizeof(double)) + kRoomAlone + kBesides;
  const bool alone = in.keys >= kLongRow && in.rows <= most_blocks && shared_alone <= shared_limit;
  scratch.threads = alone ? kThreadsAlone : kThreads;
  if (alone) scratch.rows_a_team = 1;
  const auto bytes_of_queries = [&] {
    return scratch.rows_a_team * in.stride_qk * static_cast<int64_t>(sizeof(double));
  };
  while (scratch.rows_a_team > 1 && bytes_of_queries() + kBesides > shared_limit) scratch.rows_a_team /= 2;
  const int64_t teams = (int64_t{in.rows} + scratch.rows_a_team - 1) / scratch.rows_a_team;
  const size_t queries = static_cast<size_t>(bytes_of_queries()) + (alone ? kRoomAlone : 0);
  const size_t bytes = bytes_a_team(in, scratch.rows_a_team);
  // More than 48 KiB in all must be requested (attn::launch()).
  constexpr size_t kAsked = (size_t{48} << 10) + 16;
  size_t shared = queries + bytes;
  if (shared + kBesides > kAsked) shared = std::max(shared, kAsked);
  if (shared + kBesides <= static_cast<size_t>(alone ? shared_limit : std::min(shared_limit, kMostShared))) {
    scratch.shared_bytes = shared;
    scratch.blocks = static_cast<int>(teams);
  } else {
    scratch.shared_bytes = queries;
    scratch.bytes_a_block = bytes;
    const auto fit = static_cast<int64_t>(std::max<size_t>(kMostScratch / bytes, 1));
    scratch.blocks = static_cast<int>(std::min({teams, int64_t{most_blocks}, fit}));
  }
  return scratch;
}

attn_status launch_rows(const RowsInput& in, const RowsOutput& out, const RowsScratch& scratch,
                        const attn_env* env) {
  return in.dtype == ATTN_F32    ? launch<Format::kF32>(in, out, scratch, env)
         : in.dtype == ATTN_BF16 ? launch<Format::kBf16>(in, out, scratch, env)
                                 : launch<Format::kF16>(in, out, scratch, env);
}

}  // namespace attnfuzz::cuda
