#include "tests/reference/support.h"

#include <algorithm>
#include <cmath>

#include "reference/numbers/formats.h"

namespace attnfuzz {
namespace {

attn_tensor dense(void* data, int64_t n1, int64_t n2, int64_t n3) {
  return {data, {n1 * n2 * n3, n2 * n3, n3, 1}};
}

double draw(Regime regime, Random* random) {
  switch (regime) {
    case Regime::kUniform:
      return random->uniform();
    case Regime::kTiny:
      return random->gaussian() * 0x1p-15;
    case Regime::kWide:
      return random->gaussian() * std::exp2(static_cast<double>(random->below(13) - 9));
    default:
      return random->gaussian();
  }
}

}  // namespace

const char* name_of(Regime regime) {
  constexpr const char* kNames[] = {"Gaussian",  "uniform",    "peaked",      "Q=0",  "negative",
                                    "equal max", "constant V", "neg const V", "tiny", "wide"};
  return kNames[static_cast<int>(regime)];
}

Case::Case(const Shape& s) {
  problem.size = sizeof problem;
  problem.dtype = s.dtype;
  problem.batch = s.batch;
  problem.heads_q = s.heads_q;
  problem.heads_kv = s.heads_kv;
  problem.seq_q = s.seq_q;
  problem.seq_k = s.seq_k;
  problem.dim_qk = s.dim_qk;
  problem.dim_v = s.dim_v;
  problem.scale = 1 / std::sqrt(static_cast<float>(s.dim_qk));
  problem.softcap = s.softcap;
  problem.causal = s.causal;
  problem.align = s.align;
  problem.window_left = s.window_left;
  problem.window_right = s.window_right;
  problem.bias_dtype = s.bias_dtype;
  problem.has_mask = s.mask;
  problem.num_splits = s.num_splits;

  const int64_t tiles = (s.seq_k + s.tile_k - 1) / s.tile_k;
  plan.size = sizeof plan;
  plan.accumulator = ATTN_ACC_TENSOR;
  plan.tile_q = s.tile_q;
  plan.tile_k = s.tile_k;
  plan.num_splits = s.num_splits;
  plan.split_tiles = std::max<int64_t>(1, (tiles + s.num_splits - 1) / s.num_splits);
  plan.rescales = s.num_splits > 1 ? plan.split_tiles : std::max<int64_t>(1, tiles);
  plan.merges = s.num_splits > 1 ? s.num_splits : 0;
  plan.mma_block = 16;
  plan.exp_class = ATTN_EXP_EX2_APPROX;
  plan.log_class = ATTN_LOG_LG2_APPROX;
  plan.rcp_class = ATTN_RCP_APPROX;
  plan.tanh_class = ATTN_TANH_TANHF;
  plan.scale_mode = ATTN_SCALE_FUSED;
  plan.p_format = ATTN_FORMAT_OF_INPUT;
  plan.p_order = ATTN_P_UNNORMALISED;
  plan.partial_format = ATTN_FORMAT_F32;
  plan.flush_to_zero = 1;
  plan.workspace_align = 1;

  q.resize(static_cast<size_t>(s.batch * s.heads_q * s.seq_q * s.dim_qk));
  k.resize(static_cast<size_t>(s.batch * s.heads_kv * s.seq_k * s.dim_qk));
  v.resize(static_cast<size_t>(s.batch * s.heads_kv * s.seq_k * s.dim_v));
  const auto pairs = static_cast<size_t>(s.batch * s.heads_q * s.seq_q * s.seq_k);
  if (s.bias_dtype != ATTN_NONE) bias.assign(pairs, 0);
  if (s.mask) mask.assign(pairs, 1);
}

attn_tensors Case::tensors() {
  const attn_problem& p = problem;
  attn_tensors out{};
  out.size = sizeof out;
  out.q = dense(q.data(), p.heads_q, p.seq_q, p.dim_qk);
  out.k = dense(k.data(), p.heads_kv, p.seq_k, p.dim_qk);
  out.v = dense(v.data(), p.heads_kv, p.seq_k, p.dim_v);
  out.bias = dense(bias.data(), p.heads_q, p.seq_q, p.seq_k);
  out.mask = dense(mask.data(), p.heads_q, p.seq_q, p.seq_k);
  out.key_lengths = key_lengths.data();
  return out;
}

void Case::use_key_lengths(std::vector<int64_t> lengths) {
  key_lengths = std::move(lengths);
  problem.has_key_lengths = 1;
}

void Case::fill(Regime regime, uint64_t seed) {
  Random random(seed);
  const auto each = [&](std::vector<uint16_t>* data, const auto& value) {
    for (uint16_t& element : *data) element = encode16(problem.dtype, static_cast<float>(value()));
  };
  const double d = static_cast<double>(problem.dim_qk);
  switch (regime) {
    case Regime::kZeroQuery:
      each(&q, [] { return 0.0; });
      each(&k, [&] { return random.gaussian(); });
      break;
    case Regime::kPeaked:
      each(&q, [&] { return 16 * random.gaussian(); });
      each(&k, [&] { return 16 * random.gaussian(); });
      break;
    case Regime::kNegativeConstantV:
    case Regime::kNegative: {
      const double size = std::sqrt(6e4 / std::sqrt(d));
      each(&q, [&] { return size + random.gaussian() / 16; });
      each(&k, [&] { return -size + random.gaussian() / 16; });
      break;
    }
    case Regime::kEqualMax:
      each(&q, [&] { return static_cast<double>(1 + random.below(2)); });
      each(&k, [&] { return random.below(8) == 0 ? 1.0 : 2.0; });
      // Whole keys repeat, so that their scores tie exactly.
      for (size_t at = static_cast<size_t>(problem.dim_qk); at < k.size(); ++at)
        if (at / static_cast<size_t>(problem.dim_qk) % 3) k[at] = k[at - static_cast<size_t>(problem.dim_qk)];
      break;
    default:
      each(&q, [&] { return draw(regime, &random); });
      each(&k, [&] { return draw(regime, &random); });
  }
  switch (regime) {
    case Regime::kEqualMax:
      each(&v, [&] { return 0.5 + random.uniform(); });
      break;
    case Regime::kConstantV:
    case Regime::kNegativeConstantV:
      each(&v, [] { return 1.2345; });
      break;
    default:
      each(&v, [&] { return draw(regime, &random); });
  }
  for (float& b : bias) b = static_cast<float>(random.below(4) == 0 ? -INFINITY : 3 * random.gaussian());
  for (uint8_t& m : mask) m = random.below(3) != 0;
}

void Case::set_q(int64_t b, int64_t h, int64_t i, int64_t t, float value) {
  q[static_cast<size_t>(((b * problem.heads_q + h) * problem.seq_q + i) * problem.dim_qk + t)] =
      encode16(problem.dtype, value);
}
void Case::set_k(int64_t b, int64_t g, int64_t j, int64_t t, float value) {
  k[static_cast<size_t>(((b * problem.heads_kv + g) * problem.seq_k + j) * problem.dim_qk + t)] =
      encode16(problem.dtype, value);
}
void Case::set_v(int64_t b, int64_t g, int64_t j, int64_t c, float value) {
  v[static_cast<size_t>(((b * problem.heads_kv + g) * problem.seq_k + j) * problem.dim_v + c)] =
      encode16(problem.dtype, value);
}

}  // namespace attnfuzz
