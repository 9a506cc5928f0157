#include "tests/reference/literal.h"

#include <algorithm>
#include <cmath>

#include "reference/formats.h"
#include "reference/visibility.h"

namespace attnfuzz {
namespace {

using Real = long double;
constexpr Real u = 0x1p-24L, u_a = 0x1p-23L, eps_e = 0x1p-22L, eps_l = 0x1p-22L, eps_t = 4 * u,
               tiny = 0x1p-126L;
constexpr int k_hw = 16;

Real gamma_of(Real m, Real w) { return m * w / (1 - m * w); }

struct Key {
  Real absolute, a_capped, tanh, b, x, delta, e;
  std::vector<Real> v;
};

Real at(const Case& c, const attn_tensor& t, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
  return decode(c.problem.dtype, t.data, offset_of(t, i0, i1, i2, i3));
}

Key load(Case& c, const attn_tensors& t, int64_t b, int64_t h, int64_t i, int64_t j) {
  const attn_problem& p = c.problem;
  const int64_t g = h / (p.heads_q / p.heads_kv);
  Key key{};
  Real dot = 0;
  for (int64_t s = 0; s < p.dim_qk; ++s) {
    const Real product = at(c, t.q, b, h, i, s) * at(c, t.k, b, g, j, s);
    dot += product;
    key.absolute += std::fabs(product);
  }
  const Real a = static_cast<Real>(p.scale) * dot;
  key.a_capped = a;
  if (p.softcap > 0) {
    key.tanh = std::fabs(std::tanh(a / p.softcap));
    key.a_capped = p.softcap * std::tanh(a / p.softcap);
  }
  if (p.bias_dtype != ATTN_NONE) key.b = decode(p.bias_dtype, t.bias.data, offset_of(t.bias, b, h, i, j));
  key.x = key.a_capped + key.b;
  const Real d = p.dim_qk, additions = d + 2 * std::ceil(d / k_hw);
  key.delta = std::fabs(static_cast<Real>(p.scale)) * (gamma_of(additions, u_a) * key.absolute + d * tiny);
  for (int64_t col = 0; col < p.dim_v; ++col) key.v.push_back(at(c, t.v, b, g, j, col));
  return key;
}

}  // namespace

LiteralRow literal_row(Case& c, int64_t b, int64_t h, int64_t i) {
  const attn_problem& p = c.problem;
  const attn_tensors t = c.tensors();
  LiteralRow out;
  std::vector<Key> keys;
  std::vector<int64_t> blocks, tiles;
  for (int64_t j = 0; j < p.seq_k; ++j)
    if (sees(p, t, b, h, i, j)) {
      keys.push_back(load(c, t, b, h, i, j));
      blocks.push_back(j / k_hw);
      tiles.push_back(j / c.plan.tile_k);
    }
  if (keys.empty()) return out;
  out.dead = false;
  const Real n = keys.size(), S = c.plan.num_splits;
  Real T = tiles.back() - tiles.front() + 1;
  if (S > 1) T = std::min<Real>(T, c.plan.split_tiles);
  T = std::max<Real>(T, c.plan.rescales);
  const Real hardware_blocks = std::unique(blocks.begin(), blocks.end()) - blocks.begin();

  Real m = -INFINITY, most_delta = 0, l = 0;
  for (const Key& key : keys) m = std::max(m, key.x), most_delta = std::max(most_delta, key.delta);
  for (const Key& key : keys) l += std::exp(key.x - m);
  const Real lam = m + std::log(l), ln_n = std::log(n);
  for (Key& key : keys) {
    const Real R = m - key.x + key.delta + most_delta;
    key.e = key.delta + 3 * u * R + u * R + u * R + T * (eps_e + 2 * u);
    if (c.plan.scale_mode != ATTN_SCALE_FUSED) key.e += 2 * u * std::fabs(key.x);
    if (p.softcap > 0) key.e += p.softcap * (eps_t * key.tanh + 1.4L * u);
    if (p.softcap > 0 || p.bias_dtype != ATTN_NONE)
      key.e += 3 * u * (std::fabs(key.a_capped) + std::fabs(key.b)) + u * std::fabs(key.x);
    if (S > 1) {
      key.e += 3 * u * std::fabs(m) + 3 * u * (std::fabs(m) + R) + eps_l * (1 + ln_n);
      key.e += 2 * u * (std::fabs(m) + R + ln_n) + gamma_of(n + 2 * T, u) + 2 * eps_e + u * (R + ln_n);
    }
  }
  const Format format = format_of(p.dtype);
  const bool p16 = c.plan.p_format != ATTN_FORMAT_F32;
  const Real u_P = p16 ? format.unit : 0, u_O = format.unit;
  const Real eta_O = std::max<Real>(format.tiny, c.plan.flush_to_zero ? tiny : 0);
  const bool fused = c.plan.scale_mode == ATTN_SCALE_FUSED;
  const Real misplaced = fused ? u * (std::fabs(m) + most_delta) : 0;
  const Real eta_P = (std::max<Real>(p16 ? format.tiny : 0, tiny) + tiny) * std::exp(most_delta + misplaced);
  const Real g_l = gamma_of(n + 2 * T, u) + (S > 1 ? gamma_of(S + 3, u) : 0);
  const Real g_v = gamma_of(n + 2 * hardware_blocks, u_a) + gamma_of(2 * T + 2 * S + 3, u);

  Real rho_w = 0;
  for (const Key& key : keys) rho_w += std::exp(key.x - lam) * (std::exp(key.e) * (1 + eps_e) - 1);
  const Real lost = rho_w + g_l * (1 + rho_w);
  out.lse = lam;
  out.lse_bound = -std::log(1 - lost) + 3 * u * std::fabs(m) + eps_l * (1 + std::log(l)) + 2 * u * std::log(l) +
                  3 * u * std::fabs(lam);
  for (size_t col = 0; col < static_cast<size_t>(p.dim_v); ++col) {
    Real o = 0, size = 0;
    for (const Key& key : keys)
      o += std::exp(key.x - lam) * key.v[col], size += std::exp(key.x - lam) * std::fabs(key.v[col]);
    Real N = g_l * (1 + rho_w) * std::fabs(o) + tiny * n / l * std::fabs(o) + (n + 2 * T) * tiny / l;
    for (const Key& key : keys) {
      const Real w = std::exp(key.x - lam), rho = std::exp(key.e) * (1 + eps_e) - 1;
      N += w * rho * std::fabs(key.v[col] - o) +
           ((1 + u_P) * (1 + g_v) - 1) * w * (1 + rho) * std::fabs(key.v[col]) +
           eta_P / l * std::fabs(key.v[col]);
    }
    Real B1 = N / (1 - lost);
    if (S > 1) {
      const Real C = 3 * u * std::fabs(lam) + eps_l * (1 + std::log(S)) + 2 * u * std::log(S) +
                     gamma_of(S + 3, u) + 2 * eps_e;
      B1 += (std::exp(C) - 1) * (std::fabs(o) + B1);
    }
    const Real B2 = B1 + 4 * u * (std::fabs(o) + B1);
    out.o.push_back(o);
    out.o_size.push_back(size);
    out.o_bound.push_back(B2 + u_O * (std::fabs(o) + B2) + eta_O);
  }
  return out;
}

}  // namespace attnfuzz
