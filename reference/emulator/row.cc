#include "reference/emulator/row.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/emulator/sums.h"

namespace attnfuzz::emulator {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Turns products into the arguments of the exponential.
class Scores {
 public:
  Scores(const attn_problem& problem, const attn_plan& plan, const Device& device)
      : problem_(problem),
        device_(device),
        fused_(plan.scale_mode == ATTN_SCALE_FUSED),
        rule_(plan.score_rule) {
    const double cap = problem.softcap, log2e = 1.4426950408889634;
    inner_ = static_cast<float>(problem.scale / cap);
    outer_ = static_cast<float>(cap * log2e);
  }

  // The factor of a maximum before it is subtracted.
  float sigma() const { return fused_ ? std::fabs(problem_.scale) * kLog2e : 1.0f; }

  // bias: nullptr if there is none.
  float of(float product, const float* bias) const {
    if (fused_) return problem_.scale < 0 ? -product : product;
    if (rule_ == ATTN_SCORE_BY_STEPS) return in_powers_of_two(by_steps(product, bias));
    if (problem_.softcap == 0)
      return in_powers_of_two(bias ? std::fma(product, problem_.scale, *bias) : product * problem_.scale);
    const float t = device_.tanh(product * inner_);
    return bias ? in_powers_of_two(t * problem_.softcap + *bias) : t * outer_;
  }

 private:
  float by_steps(float product, const float* bias) const {
    float x = product * problem_.scale;
    if (problem_.softcap > 0) x = problem_.softcap * device_.tanh(x / problem_.softcap);
    return bias ? x + *bias : x;
  }
  static float in_powers_of_two(float x) {
    const float score = x * kLog2e;
    return score == -kInfinity ? std::numeric_limits<float>::lowest() : score;
  }

  const attn_problem& problem_;
  const Device& device_;
  const bool fused_;
  const int32_t rule_;
  float inner_, outer_;
};

float dot(const RowInput& row, int64_t key) {
  const int block = row.device.products.block;
  const uint32_t* k = row.kv.k.data() + key * row.kv.width_qk;
  uint32_t sum = 0;
  for (int64_t t = 0; t < row.kv.width_qk; t += block)
    sum = row.device.add_products(row.problem.dtype, row.q.data() + t, k + t, 1, sum);
  return std::bit_cast<float>(sum);
}

// The state of a row after some tiles.
struct State {
  float most = -kInfinity;  // the maximum, times sigma
  std::vector<float> sums;  // the parts of the row sum
  std::vector<uint32_t> o;  // bits
};

// Adds a tile's weights after multiplying the sums so far by alpha.
void add_weights(const attn_plan& plan, const std::vector<float>& weights, float alpha,
                 std::vector<float>& sums) {
  const bool by_fma = plan.rescale_rule == ATTN_RESCALE_BY_FMA;
  if (!by_fma)
    for (float& sum : sums) sum *= alpha;
  const auto run = static_cast<size_t>(plan.sum_run);
  for (size_t at = 0; at < weights.size(); ++at) {
    float& sum = sums[at / run % sums.size()];
    const bool first = at < run * sums.size() && at % run == 0;
    sum = by_fma && first ? std::fma(sum, alpha, weights[at]) : sum + weights[at];
  }
}

// Adds the tile that begins with key `begin`; its keys are [first, last) of row.keys.
void add_tile(const RowInput& row, const Scores& scores, int64_t begin, size_t first, size_t last,
              State& state) {
  const attn_plan& plan = row.plan;
  const Device& device = row.device;
  const float sigma = scores.sigma();
  std::vector<float> x(last - first);
  float most = -kInfinity;
  for (size_t n = first; n < last; ++n) {
    const float score = scores.of(dot(row, row.keys[n]), row.bias.empty() ? nullptr : &row.bias[n]);
    x[n - first] = score;
    most = larger(most, score);
  }
  most = larger(state.most, most * sigma);
  const float against = most == -kInfinity ? 0.0f : most;
  const float alpha = device.ex2(state.most - against);
  state.most = most;
  for (uint32_t& o : state.o) o = std::bit_cast<uint32_t>(std::bit_cast<float>(o) * alpha);

  const auto keys = static_cast<size_t>(plan.tile_k);
  std::vector<float> weights(keys);  // 0 for a hidden key
  std::vector<uint32_t> p(keys);
  for (size_t n = first; n < last; ++n) {
    const auto at = static_cast<size_t>(row.keys[n] - begin);
    weights[at] = device.ex2(std::fma(x[n - first], sigma, -against));
    p[at] = std::bit_cast<uint32_t>(round16(row.problem.dtype, weights[at]));
  }
  add_weights(plan, weights, alpha, state.sums);
  // A block of hidden keys adds zeros and changes nothing, so it is skipped.
  const int block = device.products.block;
  for (size_t n = first; n < last;) {
    const int64_t at = (row.keys[n] - begin) / block * block;
    while (n < last && row.keys[n] - begin < at + block) ++n;
    const uint32_t* v = row.kv.v.data() + (begin + at) * row.kv.width_v;
    for (int64_t c = 0; c < row.problem.dim_v; ++c)
      state.o[static_cast<size_t>(c)] =
          device.add_products(row.problem.dtype, p.data() + at, v + c, static_cast<int>(row.kv.width_v),
                              state.o[static_cast<size_t>(c)]);
  }
}

}  // namespace

RowPart row_part(const RowInput& row, int64_t first_tile, int64_t last_tile) {
  const attn_plan& plan = row.plan;
  const Scores scores(row.problem, plan, row.device);
  State state;
  state.sums.assign(static_cast<size_t>(plan.sum_lanes), 0.0f);
  state.o.assign(static_cast<size_t>(row.problem.dim_v), 0);
  const auto index = [&](int64_t tile) {
    const auto at = std::ranges::lower_bound(row.keys, tile * plan.tile_k);
    return static_cast<size_t>(at - row.keys.begin());
  };
  const size_t begin = index(first_tile), end = index(last_tile);
  if (plan.key_order == ATTN_KEYS_ASCENDING) {
    for (size_t n = begin; n < end;) {
      const int64_t tile = row.keys[n] / plan.tile_k;
      const size_t next = index(tile + 1);
      add_tile(row, scores, tile * plan.tile_k, n, next, state);
      n = next;
    }
  } else {
    for (size_t n = end; n > begin;) {
      const int64_t tile = row.keys[n - 1] / plan.tile_k;
      const size_t first = index(tile);
      add_tile(row, scores, tile * plan.tile_k, first, n, state);
      n = first;
    }
  }
  const float sum = in_pairs(state.sums);
  RowPart part{std::vector<float>(state.o.size()), -kInfinity};
  if (sum == 0) return part;
  const float inverse = row.device.rcp(sum);
  for (size_t c = 0; c < state.o.size(); ++c) part.o[c] = std::bit_cast<float>(state.o[c]) * inverse;
  part.lse = (state.most + row.device.lg2(sum)) * kLn2;
  return part;
}

}  // namespace attnfuzz::emulator
