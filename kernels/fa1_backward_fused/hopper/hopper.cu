// The walk on wgmma: the kernel, the problems that it takes, and its launch.
#include "kernels/fa1_backward/walks.h"
#include "kernels/fa1_backward_fused/hopper/consumer.h"
#include "kernels/fa1_backward_fused/hopper/hopper.h"
#include "kernels/fa1_backward_fused/hopper/producer.h"

namespace attn::backward {

// A block is one producer warp, whose warpgroup gives its registers away, and two consumers.
template <class T, int D>
__global__ void __launch_bounds__(GroupTiles<T, D>::kThreads, 1)
    walk_groups(const __grid_constant__ GroupParams p) {
  if constexpr (kHasWarpgroups) {
    using Tiles = GroupTiles<T, D>;
    SharedArena arena;
    const Tiles tiles(arena);
    tiles.make_barriers();
    const int group = warpgroup_id();
    if (group == 0) {
      give_registers<Tiles::kGive>();
      if (warp_id() == 0) GroupProducer<T, D>(p, tiles).run();
    } else {
      take_registers<Tiles::kTake>();
      GroupConsumer<T, D>(p.walk, tiles, group - 1).run();
    }
  } else {
    no_warpgroups();
  }
}

namespace {

TensorView view(const attn_tensor& tensor, int64_t heads, const attn::Rows& rows, int64_t columns) {
  return {tensor.data,
          {columns, rows.count, heads, rows.entries},
          {tensor.stride[2], tensor.stride[1], tensor.stride[0]}};
}

struct GroupViews {
  TensorView q, dout, k, v;

  GroupViews(const attn_problem& p, const attn_tensors& t)
      : q(view(t.q, p.heads_q, rows_of_queries(p), p.dim_qk)),
        dout(view(t.dout, p.heads_q, rows_of_queries(p), p.dim_v)),
        k(view(t.k, p.heads_kv, rows_of_keys(p), p.dim_qk)),
        v(view(t.v, p.heads_kv, rows_of_keys(p), p.dim_v)) {}
};

template <class T, int D>
attn_status launch_columns(const GroupParams& p, const attn_env* env) {
  using Tiles = GroupTiles<T, D>;
  const ForwardParams& f = p.walk.of.forward;
  const dim3 rows(static_cast<unsigned>(f.batch * f.heads_q * (p.walk.rows / kRowTile))), threads(kThreads);
  const dim3 blocks(std::min(p.items, static_cast<unsigned>(std::max(env->sm_count, 1))));
  attn_status status = launch_dependent(prepare_rows<T, D>, rows, threads, 0, env, p.walk);
  if (status == ATTN_OK)
    status = launch_dependent(walk_groups<T, D>, blocks, dim3(Tiles::kThreads), Tiles::bytes(), env, p);
  return status == ATTN_OK ? launch_dependent(finish_dq<T, D>, rows, threads, 0, env, p.walk) : status;
}

// Bytes of Q, dO and the sums of dQ of a section. They should stay in the L2 while its items are computed.
constexpr int64_t kSection = 32 << 20;

// Under a causal mask the first items of a head are the longest. Taken in turn, the longest items of all heads
// of a section start first, and the last blocks end at about the same time. Without a causal mask the place of
// an item in its head does not say how long it is: key lengths, packed entries and windows make some items
// shorter than others. Then a section is one head, because the fewer heads are walked over at once, the better
// for the L2.
int32_t section_of(const attn_problem& p) {
  if (!p.causal) return 1;
  const int64_t bytes = 8 * ceil_div(p.heads_q, p.heads_kv) * p.seq_q * walk_columns(p);
  return static_cast<int32_t>(std::clamp<int64_t>(kSection / bytes, 1, p.batch * p.heads_kv));
}

}  // namespace

bool groups_take(const Call& call) {
  const attn_problem& p = call.problem;
  const attn_tensors t = strided(p, call.tensors);
  const size_t shared = walk_columns(p) == 64 ? GroupTiles<F16, 64>::bytes() : GroupTiles<F16, 128>::bytes();
  if (call.env.compute_capability != 90 || static_cast<int64_t>(shared) > call.env.shared_memory_limit)
    return false;
  const GroupViews views(p, t);
  // If the rows of dO are not whole chunks, dO is copied, and the copy engine can load the copy.
  return tensor_map_fits(views.q) && tensor_map_fits(views.k) && tensor_map_fits(views.v) &&
         (tensor_map_fits(views.dout) || !whole_chunks(t.dout, p.dim_v)) && p.batch * p.heads_q * p.seq_q > 0 &&
         p.batch * p.heads_kv * p.seq_k > 0 && device_has_warpgroups();
}

attn_status launch_groups(const Call& call, const WalkParams& walk) {
  const attn_problem& problem = call.problem;
  attn_tensors t = strided(problem, call.tensors);
  t.dout = {walk.of.dout.data, {}};
  for (int d = 0; d < 4; ++d) t.dout.stride[d] = walk.of.dout.stride[d];
  const GroupViews views(problem, t);
  GroupParams p = {walk, {}, {}, {}, {}, 0, section_of(problem)};
  p.items = static_cast<uint32_t>(problem.batch * problem.heads_kv * ceil_div(problem.seq_k, 128));
  char reason[160];
  const auto map = [&](TensorMap* to, const TensorView& view, int rows) {
    return make_tensor_map<F16>(to, view, rows, reason, sizeof reason);  // both formats have 16 bits
  };
  if (!map(&p.q, views.q, 64) || !map(&p.dout, views.dout, 64) || !map(&p.k, views.k, 128) ||
      !map(&p.v, views.v, 128)) {
    report_launch(&call.env, ATTN_REPORT_LAUNCH, reason);
    return ATTN_LAUNCH_FAILED;
  }
  const auto launch = [&]<class T>() {
    return walk_columns(problem) == 64 ? launch_columns<T, 64>(p, &call.env)
                                       : launch_columns<T, 128>(p, &call.env);
  };
  return problem.dtype == ATTN_F16 ? launch.template operator()<F16>() : launch.template operator()<BF16>();
}

}  // namespace attn::backward
