// The host side of the mma path: which problems it takes, and the launch.
#include <algorithm>
#include <array>

#include "kernels/fa1/ampere/ampere.h"
#include "kernels/fa1/ampere/params.h"
#include "kernels/forward/checks.h"
#include "kernels/primitives/launch.h"

namespace attn {

template <class T, class Shape>
attn_status ampere_launch(const AmpereParams& params, unsigned blocks, const attn_env* env);

namespace {

struct AmpereInstantiation {
  AmpereSpec spec;
  attn_status (*f16)(const AmpereParams&, unsigned, const attn_env*);
  attn_status (*bf16)(const AmpereParams&, unsigned, const attn_env*);
};

template <class Shape>
constexpr AmpereInstantiation ampere_instantiation() {
  return {Shape::kSpec, ampere_launch<F16, Shape>, ampere_launch<BF16, Shape>};
}

constexpr std::array kAmpereInstantiations = {
    ampere_instantiation<Ampere64>(), ampere_instantiation<Ampere128>(), ampere_instantiation<Ampere64Scored>(),
    ampere_instantiation<Ampere128Scored>()};

// Rows of O can be stored in whole 16-byte chunks.
bool whole_chunks(const Strided& o, int64_t dim) {
  return reinterpret_cast<uintptr_t>(o.data) % 16 == 0 && dim % 8 == 0 && o.stride[3] == 1 &&
         o.stride[0] % 8 == 0 && o.stride[1] % 8 == 0 && o.stride[2] % 8 == 0;
}

int32_t ampere_clamp(int64_t value) {
  return static_cast<int32_t>(std::min<int64_t>(value, 2 * int64_t{kAmpereSequence}));
}

}  // namespace

int ampere_choice(const attn_problem& problem, const attn_env& env, const ForwardParams& params) {
  if (env.variant == 1 || env.variant > 2 || env.variant < 0) return -1;
  if (!has_dense_entries(problem)) return -1;
  if (!params.async_q || !params.async_k || !params.async_v || !whole_chunks(params.o, problem.dim_v))
    return -1;
  if (problem.batch == 0 || problem.heads_q == 0 || problem.seq_q == 0 || problem.seq_k == 0) return -1;
  if (problem.seq_q >= kAmpereSequence || problem.seq_k >= kAmpereSequence) return -1;
  if (ScoreTerms terms; !make_score_terms(problem, params, &terms)) return -1;
  const int64_t dim = std::max(problem.dim_qk, problem.dim_v);
  const bool scored = params.mode != ScoreMode::kFused;
  int choice = 0;
  while (dim > ampere_spec(choice).dim || scored != ampere_spec(choice).scored) {
    if (++choice == static_cast<int>(kAmpereInstantiations.size())) return -1;
  }
  const AmpereSpec& spec = ampere_spec(choice);
  if (static_cast<int64_t>(spec.shared()) > env.shared_memory_limit) return -1;
  const int64_t q_tiles = ceil_div(problem.seq_q, spec.tile_q());
  return product_within(q_tiles, problem.heads_q, problem.batch, kMaxBlocks) < 0 ? -1 : choice;
}

const AmpereSpec& ampere_spec(int choice) { return kAmpereInstantiations[static_cast<size_t>(choice)].spec; }

attn_status ampere_run(int choice, const attn_problem& problem, const ForwardParams& params,
                       const attn_env* env) {
  const AmpereInstantiation& chosen = kAmpereInstantiations[static_cast<size_t>(choice)];
  AmpereParams p = {};
  p.q = params.q;
  p.k = params.k;
  p.v = params.v;
  p.o = params.o;
  p.lse = params.lse;
  p.sinks = params.sinks;
  p.slopes = params.slopes;
  p.key_lengths = params.key_lengths;
  p.seq_q = static_cast<int32_t>(problem.seq_q);
  p.seq_k = static_cast<int32_t>(problem.seq_k);
  p.dim_qk = params.dim_qk;
  p.dim_v = params.dim_v;
  p.left = ampere_clamp(params.left);
  p.right = ampere_clamp(params.right);
  p.bottom_right = params.bottom_right;
  p.first_hidden = params.left < kFar;
  p.last_hidden = params.right < kFar;
  p.may_be_plain = params.sign > 0;
  p.sign = params.sign;
  if (chosen.spec.scored) {
    if (!make_score_terms(problem, params, &p.terms)) return ATTN_UNSUPPORTED;
    p.terms.pairs = p.terms.chunks;  // only a bias in chunks lies in shared memory as words of two numbers
    p.rough = p.terms.chunks && !p.terms.capped && p.slopes.data == nullptr;
    p.may_be_plain = true;
    p.sign = 1;
    if (problem.batch > 1 && problem.bias_dtype != ATTN_NONE && params.group == 1 && params.bias.stride[0] == 0)
      p.entries = static_cast<uint32_t>(problem.batch);
  }
  p.sigma = params.sigma;
  p.probe = params.probe;
  p.heads_q = static_cast<uint32_t>(problem.heads_q);
  p.group = static_cast<uint32_t>(params.group);
  p.heads = static_cast<uint32_t>(problem.heads_q * problem.batch);
  p.q_tiles = static_cast<uint32_t>(ceil_div(problem.seq_q, chosen.spec.tile_q()));
  const int64_t head_bytes = problem.seq_k * (problem.dim_qk + problem.dim_v) * 2;
  p.section = static_cast<uint32_t>(
      std::min<int64_t>(p.heads, std::max<int64_t>(1, kAmpereSection / head_bytes) * params.group));
  const unsigned blocks = p.heads * p.q_tiles;
  return problem.dtype == ATTN_F16 ? chosen.f16(p, blocks, env) : chosen.bf16(p, blocks, env);
}

}  // namespace attn
