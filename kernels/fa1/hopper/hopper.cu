// The kernel of the sm_90a path of FA-1, and its host side: which problems the path takes, in which shape, and
// the launch. Every shape of kInstantiations is compiled here.
#include <algorithm>
#include <array>

#include "kernels/fa1/hopper/consumer.h"
#include "kernels/fa1/hopper/hopper.h"
#include "kernels/fa1/hopper/producer.h"
#include "kernels/fa1/hopper/shapes.h"
#include "kernels/forward/checks.h"
#include "kernels/primitives/dependent.h"
#include "kernels/primitives/launch.h"
#include "kernels/primitives/warpgroup.h"

namespace attn {

// A block is one loading warpgroup, which gives its registers away, and the consumers.
template <class T, class Shape>
__global__ void __launch_bounds__(Shape::kSpec.threads(), Shape::kSpec.blocks_per_sm)
    fa1_hopper_kernel(const __grid_constant__ HopperParams p) {
  if constexpr (kHasWarpgroups) {
    constexpr HopperSpec kSpec = Shape::kSpec;
    const Pipeline<T, kSpec> pipe = set_up<T, kSpec>();
    const int group = warpgroup_id();
    if (group == 0) {
      give_registers<kSpec.give>();
      if (warp_id() == 0 && elect_one()) load(p, pipe);
    } else {
      take_registers<kSpec.take>();
      if constexpr (kSpec.scored || kSpec.lengths)
        grid_dependency_wait();  // consumers read the bias or the lengths
      compute(p, pipe, group - 1);
    }
  } else {
    no_warpgroups();
  }
}

// Sets the counter of taken items to 0 for the kernel that follows: the workspace may hold anything. First it
// waits for the kernel before it, which may still use the workspace. So the kernel that follows need only wait
// for this one.
static __global__ void fa1_hopper_reset(uint32_t* taken) {
  grid_dependents_start();
  grid_dependency_wait();
  if (threadIdx.x == 0) *taken = 0;
}

// Resets the counter, and puts packed entries in order (EntryOrder). Each thread finds the place of one entry.
static __global__ void fa1_hopper_order(const __grid_constant__ HopperParams p, uint32_t tile_q) {
  grid_dependents_start();
  grid_dependency_wait();
  const uint32_t mine = blockIdx.x * blockDim.x + threadIdx.x;
  if (mine == 0) *p.taken = 0;
  if (mine >= p.batch) return;
  const auto tiles_of = [&](uint32_t b) {
    return (static_cast<uint32_t>(rows_between(p, p.ragged.cu_q, static_cast<int32_t>(b))) + tile_q - 1) / tile_q;
  };
  const uint32_t tiles = tiles_of(mine);
  uint32_t place = 0, before = 0;
  for (uint32_t b = 0; b < p.batch; ++b) {
    const uint32_t other = tiles_of(b);
    if (other > tiles || (other == tiles && b < mine)) ++place, before += other;
  }
  p.order.entry[place] = mine;
  p.order.first[place] = before;
  if (place + 1 == p.batch) p.order.first[p.batch] = before + tiles;
}

namespace {

constexpr unsigned kOrderThreads = 256;
// Each thread of fa1_hopper_order looks at all entries, so more entries would take too long.
constexpr int64_t kMostPacked = 4096;

template <class T, class Shape>
attn_status launch_shape(const HopperParams& params, unsigned blocks, const attn_env* env) {
  return launch_dependent(fa1_hopper_kernel<T, Shape>, dim3(blocks), dim3(Shape::kSpec.threads()),
                          Shape::kSpec.shared(), env, params);
}

struct Instantiation {
  HopperSpec spec;
  attn_status (*f16)(const HopperParams&, unsigned, const attn_env*);
  attn_status (*bf16)(const HopperParams&, unsigned, const attn_env*);
};

template <class Shape>
constexpr Instantiation instantiation() {
  return {Shape::kSpec, launch_shape<F16, Shape>, launch_shape<BF16, Shape>};
}

constexpr std::array kInstantiations = {
    instantiation<Hopper64>(),         instantiation<Hopper64Mid>(),      instantiation<Hopper64Short>(),
    instantiation<Hopper128>(),        instantiation<Hopper256>(),        instantiation<Hopper256Short>(),
    instantiation<Hopper64Scored>(),   instantiation<Hopper128Scored>(),  instantiation<Hopper64Lengths>(),
    instantiation<Hopper128Lengths>(), instantiation<Hopper256Lengths>(),
};
enum Choice {
  k64,
  k64Mid,
  k64Short,
  k128,
  k256,
  k256Short,
  k64Scored,
  k128Scored,
  k64Lengths,
  k128Lengths,
  k256Lengths
};

TensorView view(const Strided& tensor, int64_t heads, const Rows& rows, int64_t columns) {
  return {tensor.data,
          {columns, rows.count, heads, rows.entries},
          {tensor.stride[2], tensor.stride[1], tensor.stride[0]}};
}

struct Views {
  TensorView q, k, v, o;

  Views(const attn_problem& p, const ForwardParams& params)
      : q(view(params.q, p.heads_q, rows_of_queries(p), p.dim_qk)),
        k(view(params.k, p.heads_kv, rows_of_keys(p), p.dim_qk)),
        v(view(params.v, p.heads_kv, rows_of_keys(p), p.dim_v)),
        o(view(params.o, p.heads_q, rows_of_queries(p), p.dim_v)) {}
};

// True if batch entries have lengths of their own.
bool uneven_entries(const attn_problem& p) { return p.has_key_lengths || p.ragged != 0; }

// The shape for the problem's size; -1 if no shape has room for the problem.
int by_shape(const attn_problem& p, bool scored) {
  const int64_t dim = std::max(p.dim_qk, p.dim_v);
  if (scored) return dim <= 64 ? k64Scored : dim <= 128 ? k128Scored : -1;
  if (uneven_entries(p)) return dim <= 64 ? k64Lengths : dim <= 128 ? k128Lengths : k256Lengths;
  if (dim <= 64) return p.seq_k > 2048 ? k64 : p.causal ? k64Short : p.seq_k <= 1024 ? k64Mid : k64;
  if (dim <= 128) return k128;
  return p.seq_k <= 512 || (p.causal && p.seq_k <= 1024) ? k256Short : k256;
}

// True if query tiles differ in cost. Then blocks take query tiles one by one, as they finish.
bool uneven(const attn_problem& p) { return p.causal || uneven_entries(p); }

bool packed_queries(const attn_problem& p) { return (p.ragged & ATTN_RAGGED_QUERIES) != 0; }

// With packed queries this is an upper bound.
int64_t items_of(const attn_problem& p, const HopperSpec& spec) {
  const int64_t tiles = p.batch * ceil_div(p.seq_q, spec.tile_q());
  if (!packed_queries(p)) return p.heads_q * tiles;
  return p.heads_q * std::min(tiles, p.total_q / spec.tile_q() + p.batch);
}

int64_t blocks_at_once(const HopperSpec& spec, const attn_env& env) {
  return std::max<int64_t>(env.sm_count, 1) * spec.blocks_per_sm;
}

int32_t clamp_far(int64_t value) {
  return static_cast<int32_t>(std::min<int64_t>(value, 2 * int64_t{kHopperSequence}));
}

}  // namespace

int hopper_choice(const attn_problem& problem, const attn_env& env, const ForwardParams& params) {
  if (env.variant != 0 || env.compute_capability != 90) return -1;
  if (problem.page_size != 0 || problem.kv_dtype != 0 || problem.key_step != 0) return -1;
  if (problem.batch == 0 || problem.heads_q == 0 || problem.seq_q == 0 || problem.seq_k == 0) return -1;
  if (problem.seq_q >= kHopperSequence || problem.seq_k >= kHopperSequence) return -1;
  if (packed_queries(problem) && problem.batch > kMostPacked) return -1;
  if (rows_of_queries(problem).count >= kHopperSequence || rows_of_keys(problem).count >= kHopperSequence) return -1;
  if (ScoreTerms terms; !make_score_terms(problem, params, &terms)) return -1;
  for (const Strided* tensor : {&params.q, &params.k, &params.v, &params.o}) {
    if (tensor->stride[3] != 1) return -1;
  }
  const Views views(problem, params);
  for (const TensorView* view : {&views.q, &views.k, &views.v, &views.o}) {
    if (!tensor_map_fits(*view)) return -1;
  }
  if (problem.dim_v % 8 != 0) return -1;  // else the last chunk of a row would write past the row
  const int choice = by_shape(problem, params.mode != ScoreMode::kFused);
  if (choice < 0) return -1;
  const HopperSpec& spec = hopper_spec(choice);
  if (product_within(ceil_div(problem.seq_q, spec.tile_q()), problem.heads_q, problem.batch, kMaxBlocks / 2) <
      0)
    return -1;
  if (static_cast<int64_t>(spec.shared()) > env.shared_memory_limit || !device_has_warpgroups()) return -1;
  return choice;
}

uint64_t hopper_workspace(int choice, const attn_problem& problem, const attn_env& env) {
  const HopperSpec& spec = hopper_spec(choice);
  if (packed_queries(problem)) return sizeof(uint32_t) * static_cast<uint64_t>(2 + 2 * problem.batch);
  return uneven(problem) && items_of(problem, spec) > blocks_at_once(spec, env) ? sizeof(uint32_t) : 0;
}

const HopperSpec& hopper_spec(int choice) { return kInstantiations[static_cast<size_t>(choice)].spec; }

attn_status hopper_run(int choice, const attn_problem& problem, const attn_tensors& tensors,
                       const ForwardParams& params, const attn_env* env) {
  const Instantiation& chosen = kInstantiations[static_cast<size_t>(choice)];
  const HopperSpec& spec = chosen.spec;
  HopperParams p = {};
  const Views views(problem, params);
  char reason[160];
  const auto map = [&](TensorMap* to, const TensorView& view, int rows) {
    return make_tensor_map<F16>(to, view, rows, reason, sizeof reason);  // both formats have 16 bits
  };
  if (!map(&p.q, views.q, spec.tile_q()) || !map(&p.k, views.k, spec.tile_k) ||
      !map(&p.v, views.v, spec.tile_k) || !map(&p.o, views.o, 64)) {
    report_launch(env, ATTN_REPORT_LAUNCH, reason);
    return ATTN_LAUNCH_FAILED;
  }
  p.o_rows = params.o;
  p.dim_v = params.dim_v;
  p.lse = static_cast<float*>(params.lse.data);
  for (int i = 0; i < 3; ++i) p.lse_stride[i] = params.lse.stride[i];
  p.sinks = params.sinks;
  p.slopes = params.slopes;
  p.seq_q = static_cast<int32_t>(problem.seq_q);
  p.seq_k = static_cast<int32_t>(problem.seq_k);
  p.left = clamp_far(params.left);
  p.right = clamp_far(params.right);
  p.key_lengths = params.key_lengths;
  p.ragged = params.ragged;
  p.bottom_right = params.bottom_right;
  p.shift = params.bottom_right ? p.seq_k - p.seq_q : 0;
  p.heads_q = static_cast<uint32_t>(problem.heads_q);
  p.group = static_cast<uint32_t>(params.group);
  p.heads = static_cast<uint32_t>(problem.heads_q * problem.batch);
  p.q_tiles = static_cast<uint32_t>(ceil_div(problem.seq_q, spec.tile_q()));
  p.items = static_cast<uint32_t>(items_of(problem, spec));
  if (spec.scored && !packed_queries(problem) && problem.batch > 1 && problem.bias_dtype != ATTN_NONE && params.group == 1 &&
      params.bias.stride[0] == 0)
    p.entries = static_cast<uint32_t>(problem.batch);
  const int64_t head_bytes = problem.seq_k * (problem.dim_qk + problem.dim_v) * 2;
  p.section = static_cast<uint32_t>(
      std::min<int64_t>(p.heads, std::max<int64_t>(1, kHopperSection / head_bytes) * params.group));
  p.sections = (p.heads + p.section - 1) / p.section;
  if (const uint64_t bytes = hopper_workspace(choice, problem, *env); bytes > 0) {
    p.taken = static_cast<uint32_t*>(tensors.workspace);
    if (p.taken == nullptr || tensors.workspace_bytes < bytes) return ATTN_INVALID;
    p.batch = static_cast<uint32_t>(problem.batch);
    if (packed_queries(problem)) p.order = {p.taken + 1, p.taken + 1 + p.batch};
    const attn_status status =
        p.order.first == nullptr
            ? launch_dependent(fa1_hopper_reset, dim3(1), dim3(32), 0, env, p.taken)
            : launch_dependent(fa1_hopper_order, dim3((p.batch + kOrderThreads - 1) / kOrderThreads),
                               dim3(kOrderThreads), 0, env, p, static_cast<uint32_t>(spec.tile_q()));
    if (status != ATTN_OK) return status;
  }
  p.longest_first = problem.causal != 0;
  p.windowed = params.left < kFar;
  p.may_be_plain = params.sign > 0;
  p.sign = params.sign;
  if (spec.scored) {
    if (!make_score_terms(problem, params, &p.terms)) return ATTN_UNSUPPORTED;
    p.may_be_plain = true;
    p.sign = 1;
  }
  p.sigma = params.sigma;
  p.probe = params.probe;
  // If all items cost the same, use the fewest blocks that finish in the same number of rounds. More blocks
  // would be idle in the last round and only use power.
  int64_t blocks = std::min<int64_t>(p.items, blocks_at_once(spec, *env));
  if (p.taken == nullptr) blocks = ceil_div(p.items, ceil_div(p.items, blocks));
  return problem.dtype == ATTN_F16 ? chosen.f16(p, static_cast<unsigned>(blocks), env)
                                   : chosen.bf16(p, static_cast<unsigned>(blocks), env);
}

}  // namespace attn
