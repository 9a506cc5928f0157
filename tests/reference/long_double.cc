#include "tests/reference/long_double.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "reference/numbers/formats.h"
#include "reference/rows/visibility.h"

namespace attnfuzz {
namespace {

using Real = long double;
constexpr Real u = 0x1p-24L, tiny = 0x1p-126L;

Real compound(Real sum) { return sum < 1 ? sum / (1 - sum) : INFINITY; }
Real gamma_of(Real m, Real w) { return compound(m * w); }

// The errors of the instructions that a plan names; the loosest if it names none.
struct Device {
  bool tensor;
  int k_hw = 1;
  Real u_p = u, u_s = 0;  // units of a product and of a block of k_hw
  Real least = 0;         // the size as which Q.K aligns an fp16 subnormal
  Real least_value = 0;   // the same for P.V
  Real eps_exp, s_e = 0, eps_l, eps_rcp, eps_t;
  Real block_error(Real products) const { return products * u_p + std::ceil(products / k_hw) * u_s; }
};
Device device_of(const Case& c, const Calibration& cal) {
  const attn_plan& plan = c.plan;
  Device d;
  d.tensor = plan.accumulator != ATTN_ACC_FFMA;
  if (d.tensor) {
    d.u_p = cal.mma_product, d.u_s = cal.mma_sum, d.k_hw = cal.mma_block;
    if (plan.mma_block > 0) d.k_hw = cal.measured ? std::min(d.k_hw, plan.mma_block) : plan.mma_block;
    const bool f16 = c.problem.dtype == ATTN_F16;
    if (f16) d.least = cal.mma_least_f16;
    if (f16 || plan.p_format == ATTN_FORMAT_F16 || plan.v_format == ATTN_FORMAT_F16)
      d.least_value = cal.mma_least_f16;
  }
  const Real exps[] = {cal.fast_expf, cal.ex2, cal.exp2f, cal.expf};
  const bool fast = plan.exp_class == ATTN_EXP_FAST_EXPF;
  d.eps_exp = plan.exp_error > 0                      ? static_cast<Real>(plan.exp_error)
              : fast                                  ? exps[0]
              : plan.exp_class == ATTN_EXP_EX2_APPROX ? exps[1]
              : plan.exp_class == ATTN_EXP_EXP2F      ? exps[2]
              : plan.exp_class == ATTN_EXP_EXPF       ? exps[3]
                                                      : *std::max_element(exps, exps + 4);
  if (plan.exp_error <= 0 && (fast || plan.exp_class == ATTN_EXP_UNKNOWN)) d.s_e = cal.fast_expf_slope;
  const Real logs[] = {cal.lg2, cal.logf, cal.fast_logf};
  d.eps_l = plan.log_class == ATTN_LOG_LG2_APPROX  ? logs[0]
            : plan.log_class == ATTN_LOG_LOGF      ? logs[1]
            : plan.log_class == ATTN_LOG_FAST_LOGF ? logs[2]
                                                   : *std::max_element(logs, logs + 3);
  d.eps_rcp = plan.rcp_class == ATTN_RCP_APPROX  ? cal.rcp
              : plan.rcp_class == ATTN_RCP_EXACT ? cal.rcp_exact
                                                 : std::max(cal.rcp, cal.rcp_exact);
  d.eps_t = plan.tanh_class == ATTN_TANH_APPROX  ? cal.tanh_approx
            : plan.tanh_class == ATTN_TANH_TANHF ? cal.tanhf
                                                 : std::max(cal.tanh_approx, cal.tanhf);
  return d;
}

struct Numbers {
  Real unit, tiny;
};
Numbers numbers_of(const Case& c, int32_t format) {
  Numbers n{c.problem.dtype == ATTN_F16 ? 0x1p-11L : 0x1p-8L,
            c.problem.dtype == ATTN_F16 ? 0x1p-25L : 0x1p-134L};
  if (format == ATTN_FORMAT_E4M3) n = {0x1p-4L, 0x1p-10L};
  if (format == ATTN_FORMAT_E5M2) n = {0x1p-3L, 0x1p-17L};
  if (format == ATTN_FORMAT_TF32) n = {0x1p-11L, 0x1p-137L};
  if (format == ATTN_FORMAT_F16) n = {0x1p-11L, 0x1p-25L};
  if (format == ATTN_FORMAT_BF16) n = {0x1p-8L, 0x1p-134L};
  if (c.plan.conversion == ATTN_CONVERT_FAITHFUL) n = {2 * n.unit, 2 * n.tiny};
  return n;
}

struct Key {
  int64_t j, tile, split;
  Real absolute, aligned, running, a_capped, tanh, b, x, delta, err, e, norm;
  std::vector<Real> v;
};

Real at(const Case& c, const attn_tensor& t, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
  return decode(c.problem.dtype, t.data, offset_of(t, i0, i1, i2, i3));
}

Key load(Case& c, const Device& device, const attn_tensors& t, int64_t b, int64_t h, int64_t i, int64_t j,
         int64_t only_split) {
  const attn_problem& p = c.problem;
  const attn_plan& plan = c.plan;
  const int64_t g = h / (p.heads_q / p.heads_kv);
  Key key{};
  key.j = j, key.tile = j / plan.tile_k;
  key.split = plan.num_splits > 1 ? key.tile / plan.split_tiles : 0;
  const Real tau = p.scale;
  const auto counted = [&](Real x) { return x == 0 ? 0 : std::max(std::fabs(x), device.least); };
  Real dot = 0, q_norm = 0;
  bool subnormal = false;
  for (int64_t s = 0; s < p.dim_qk; ++s) {
    const Real q = at(c, t.q, b, h, i, s), k = at(c, t.k, b, g, j, s);
    if (s % 16 == 0) key.running += std::fabs(dot);
    dot += q * k;
    key.absolute += std::fabs(q * k);
    key.aligned += counted(q) * counted(k);
    key.norm += std::fabs(k), q_norm += std::fabs(q);
    subnormal = subnormal || (q != 0 && std::fabs(q) < tiny);
  }
  // A flushed key anywhere in the head (or in the split, if it is judged by itself) is charged to all keys
  // there.
  const int64_t others = p.dtype == ATTN_BF16 && plan.flush_to_zero ? p.seq_k : 0;
  for (int64_t other = 0; other < others; ++other)
    for (int64_t s = 0; s < p.dim_qk; ++s) {
      if (only_split >= 0 && other / plan.tile_k / plan.split_tiles != only_split) continue;
      const Real k = at(c, t.k, b, g, other, s);
      subnormal = subnormal || (k != 0 && std::fabs(k) < tiny);
    }
  const Real a = tau * dot;
  key.a_capped = a;
  if (p.softcap > 0) {
    key.tanh = std::fabs(std::tanh(a / p.softcap));
    key.a_capped = p.softcap * std::tanh(a / p.softcap);
  }
  if (p.bias_dtype != ATTN_NONE) key.b = decode(p.bias_dtype, t.bias.data, offset_of(t.bias, b, h, i, j));
  key.x = key.a_capped + key.b;
  const Real d = p.dim_qk, c_16 = device.block_error(std::min<Real>(d, 16));
  const Real products = plan.dot_order == ATTN_DOT_ASCENDING
                            ? c_16 * (key.running + key.aligned) / (1 - std::ceil(d / 16) * c_16)
                            : compound(device.block_error(d)) * key.aligned;
  key.delta = std::fabs(tau) * (products + d * tiny);
  if (plan.flush_to_zero && p.dtype == ATTN_BF16 && subnormal)
    key.delta += std::fabs(tau) * tiny * (key.norm + q_norm);
  if (plan.flush_to_zero && std::fabs(tau) < 2 * tiny) key.delta += std::fabs(tau) * key.absolute;
  key.err = key.delta;
  if (plan.scale_mode != ATTN_SCALE_FUSED) key.err += 2 * u * std::fabs(key.x);
  if (plan.scale_mode == ATTN_SCALE_FOLDED_Q || plan.scale_mode == ATTN_SCALE_UNKNOWN) {
    const Numbers q = numbers_of(c, 0);
    key.err += std::fabs(tau) * q.unit * key.absolute + q.tiny * key.norm;
  }
  if (plan.qk_format != ATTN_FORMAT_UNKNOWN) {
    const auto [u_T, eta_T] = numbers_of(c, plan.qk_format);
    key.err += std::fabs(tau) * ((2 * u_T + u_T * u_T) * key.absolute +
                                 (1 + u_T) * eta_T * (q_norm + key.norm) + d * eta_T * eta_T);
  }
  if (p.softcap > 0) key.err += p.softcap * (device.eps_t * key.tanh + 1.4L * u);
  if (p.softcap > 0 || p.bias_dtype != ATTN_NONE)
    key.err += 3 * u * (std::fabs(key.a_capped) + std::fabs(key.b)) + u * std::fabs(key.x);
  for (int64_t col = 0; col < p.dim_v; ++col) key.v.push_back(at(c, t.v, b, g, j, col));
  return key;
}

// The running maximum of a split: the exact one, and the range that a kernel's may have.
struct Maximum {
  Real exact = -INFINITY, low = -INFINITY, high = -INFINITY;
  void take(const Key& key) {
    exact = std::max(exact, key.x), low = std::max(low, key.x - key.err),
    high = std::max(high, key.x + key.err);
  }
  Real off(bool rounded) const {
    const Real off = std::max(high - exact, exact - low);
    return rounded ? off + u * (std::fabs(exact) + off) : off;
  }
};

// One tile of a row.
struct Tile {
  int64_t split = 0;
  std::vector<const Key*> keys;
  Real max = 0, off = 0, split_max = 0, split_off = 0, growths = 0, cost = 0;
  bool last = false;
};

Real rounded16(Real x, bool f16) {
  const int bits = f16 ? 11 : 8, least = f16 ? -14 : -126;
  if (x == 0) return 0;
  const Real quantum = std::ldexp(1.0L, std::max(std::ilogb(x), least) - bits + 1);
  return std::nearbyint(x / quantum) * quantum;
}

// ATTN_P_ANY: the plan does not tell when P is rounded.
int32_t order_of_p(const attn_plan& plan) {
  if (plan.p_order != ATTN_P_ANY) return plan.p_order;
  if (plan.max_rule == ATTN_MAX_RUNNING || plan.sum_rule == ATTN_SUM_OF_ROUNDED_P) return ATTN_P_UNNORMALISED;
  return plan.merge_format == ATTN_FORMAT_OF_INPUT ? ATTN_P_UNNORMALISED : ATTN_P_ANY;
}

// True if the plan says what is rounded to which format of 16 bits.
bool tells_p(const attn_plan& plan) {
  const bool of_16_bits = plan.p_format == ATTN_FORMAT_OF_INPUT || plan.p_format == ATTN_FORMAT_F16 ||
                          plan.p_format == ATTN_FORMAT_BF16;
  return of_16_bits && order_of_p(plan) == ATTN_P_UNNORMALISED && plan.max_rule != ATTN_MAX_UNKNOWN &&
         plan.sum_rule != ATTN_SUM_OF_ROUNDED_P && plan.conversion == ATTN_CONVERT_NEAREST;
}

// The most that P's rounding costs a key of a weight, beside u_P.
struct Underflow {
  int32_t order;
  Real before, flushed, rounding;  // before: if P is rounded before it is divided by the sum
  bool nearest;
  Underflow(const attn_plan& plan, Real before, Real flushed, Real eta)
      : order(order_of_p(plan)), before(before), flushed(flushed), rounding(std::max(eta, tiny)),
        nearest(plan.p_format == ATTN_FORMAT_F32 || plan.conversion == ATTN_CONVERT_NEAREST) {}
  Real operator()(Real weight, Real relative) const {
    const Real after = (1 + relative) * (flushed + (nearest ? std::min(rounding, weight) : rounding));
    return order == ATTN_P_UNNORMALISED ? before : order == ATTN_P_NORMALISED ? after : std::max(before, after);
  }
};

}  // namespace

LongDoubleRow long_double_row(Case& c, int64_t b, int64_t h, int64_t i, const Calibration& calibration,
                              int64_t only_split) {
  const attn_problem& p = c.problem;
  const attn_plan& plan = c.plan;
  Device device = device_of(c, calibration);
  const attn_tensors t = c.tensors();
  LongDoubleRow out;
  std::vector<Key> keys;
  for (int64_t j = 0; j < p.seq_k; ++j)
    if (sees(p, t, b, h, i, j)) keys.push_back(load(c, device, t, b, h, i, j, only_split));
  if (only_split >= 0) std::erase_if(keys, [&](const Key& key) { return key.split != only_split; });
  if (keys.empty()) return out;
  out.dead = false;
  const Real n = keys.size(), S = only_split >= 0 ? 1 : plan.num_splits, s_e = device.s_e;
  const Real eps_exp = device.eps_exp, eps_l = device.eps_l;
  // Products of 8 bits are added up in fewer bits.
  const bool p_of_8_bits = plan.p_format == ATTN_FORMAT_E4M3 || plan.p_format == ATTN_FORMAT_E5M2;
  if (device.tensor && p_of_8_bits)
    device.u_p = std::max(device.u_p, 0x1p-13L), device.u_s = std::max(device.u_s, 0x1p-12L);
  const bool merged = S > 1, ftz = plan.flush_to_zero;
  const bool running = plan.max_rule == ATTN_MAX_RUNNING;
  const bool rounded_max = plan.scale_mode != ATTN_SCALE_SEPARATE;

  Real m = -INFINITY, most_delta = 0, most_err = 0, l = 0;
  for (const Key& key : keys) {
    m = std::max(m, key.x);
    most_delta = std::max(most_delta, key.delta), most_err = std::max(most_err, key.err);
  }
  for (const Key& key : keys) l += std::exp(key.x - m);
  const Real lam = m + std::log(l), ln_n = std::log(n);
  const Real misplaced = rounded_max ? u * (std::fabs(m) + most_delta) : 0;

  // Tiles in the order of work.
  const bool descending = plan.key_order == ATTN_KEYS_DESCENDING;
  const bool ordered = descending || plan.key_order == ATTN_KEYS_ASCENDING;
  std::map<int64_t, Tile> by_number;
  for (const Key& key : keys) {
    Tile& tile = by_number[descending ? -key.tile : key.tile];
    tile.keys.push_back(&key);
    tile.split = key.split;
  }
  std::vector<Tile> tiles;
  for (auto& [number, tile] : by_number) tiles.push_back(tile);
  Real T = 0;
  for (Tile& tile : tiles) {
    std::vector<int64_t> blocks;
    for (const Key* key : tile.keys) blocks.push_back((key->j % plan.tile_k) / device.k_hw);
    blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
    tile.cost =
        static_cast<Real>(tile.keys.size()) * device.u_p + static_cast<Real>(blocks.size()) * device.u_s;
  }
  for (size_t first = 0, end; first < tiles.size(); first = end) {
    Maximum so_far, whole;
    for (end = first; end < tiles.size() && tiles[end].split == tiles[first].split; ++end)
      for (const Key* key : tiles[end].keys) whole.take(*key);
    tiles[end - 1].last = true;
    Real growths = 0;
    for (size_t r = first; r < end; ++r) {
      Maximum tile;
      for (const Key* key : tiles[r].keys) tile.take(*key);
      if (r > first && tile.high > so_far.low && running) ++growths;
      for (const Key* key : tiles[r].keys) so_far.take(*key);
      const Maximum& used = running ? so_far : whole;
      tiles[r].max = used.exact, tiles[r].off = used.off(rounded_max), tiles[r].growths = growths;
      tiles[r].split_max = whole.exact, tiles[r].split_off = whole.off(rounded_max);
    }
    for (size_t r = first; r < end; ++r) tiles[r].growths = growths - tiles[r].growths;
    T = std::max(T, growths);
  }
  if (plan.max_rule == ATTN_MAX_UNKNOWN) {
    T = keys.back().tile - keys.front().tile + 1;
    if (plan.num_splits > 1) T = std::min<Real>(T, plan.split_tiles);
    T = std::max<Real>(T, plan.rescales);
  }

  // The row sum.
  Real g_sum = gamma_of(n + 2 * T, u);
  if (plan.sum_lanes > 0 && ordered) {
    const Real most = std::ceil(static_cast<Real>(plan.tile_k) / plan.sum_lanes);
    Real lost = 0, so_far = 0;
    for (const Tile& tile : tiles) {
      for (const Key* key : tile.keys) so_far += std::exp(key->x - m);
      lost += std::min<Real>(most, tile.keys.size()) * so_far;
      if (tile.last) so_far = 0;
    }
    g_sum = compound(u * (lost / l + 2 * T + plan.sum_lanes - 1));
  }
  const Real g_l = g_sum + (merged ? gamma_of(S + 3, u) : 0);

  // Merges: the LSE is merged M times, and O M_O times.
  const bool merging = plan.merge_format == ATTN_FORMAT_OF_INPUT && only_split < 0;
  const Real M =
      merging || plan.merge_rule == ATTN_MERGE_BY_WEIGHT || plan.merge_rule == ATTN_MERGE_BY_LSE ? 1 : S;
  const Real M_O = merging || plan.merge_rule == ATTN_MERGE_BY_WEIGHT ? 0 : M;
  const Real merge_constant =
      merging ? eps_exp + 2 * u
              : g_sum + M * (6 * u * std::fabs(m) + eps_l * (1 + ln_n) + 2 * u * (std::fabs(m) + ln_n) +
                             2 * eps_exp + (u + 2 * s_e) * ln_n);
  const Real merge_range = M * (6 * u + 2 * s_e);
  Real most_e = 0;
  for (Key& key : keys) {
    const Real R = m - key.x + key.delta + most_delta;
    key.e = key.err + (5 * u + 2 * s_e) * R + T * (eps_exp + 2 * u);
    if (merged) key.e += merge_constant + merge_range * R;
    most_e = std::max(most_e, key.e);
  }

  const Numbers format = numbers_of(c, 0), p_format = numbers_of(c, plan.p_format);
  const bool p_rounds = plan.p_format != ATTN_FORMAT_F32, v_rounds = plan.v_format != ATTN_FORMAT_UNKNOWN;
  const Real p_scale = p_rounds && plan.p_scale > 0 ? plan.p_scale : 1;
  const Real v_scale = plan.v_scale > 0 ? plan.v_scale : 1;
  Real u_P = p_rounds ? p_format.unit + (plan.p_scale > 0 ? u : 0) : 0;
  const Real eta_rounding = p_rounds ? p_format.tiny / p_scale : 0;
  const Real u_V = v_rounds ? numbers_of(c, plan.v_format).unit + (plan.v_scale > 0 ? 2 * u : 0) : 0;
  // The result of a single split is stored in the format of partials.
  const bool of_input = plan.partial_format == ATTN_FORMAT_OF_INPUT, alone = only_split >= 0;
  const Real u_O = alone && !of_input ? u : format.unit;
  const Real eta_O = alone && !of_input ? tiny : std::max<Real>(format.tiny, ftz ? tiny : 0);
  const bool partials16 = !alone && (of_input || (merged && plan.partial_format == ATTN_FORMAT_UNKNOWN));
  const Real least = device.least_value, eta_A = device.block_error(16) * least;
  Real g = 0;
  for (const Tile& tile : tiles) g += tile.cost;
  const Real g_m = compound(g), g_v = gamma_of(2 * T + 2 * S + 3, u);
  const Real u_M = merging ? format.unit : 0, eta_M = merging ? std::max(format.tiny, tiny) : 0;
  const Real u_S = (1 + (partials16 ? format.unit : 0)) * (merged ? (1 + u_M) * (1 + u_M) : 1) - 1;
  const Real eta_S = (partials16 ? std::max(format.tiny, tiny) : 0) * (merging ? std::exp(misplaced) : 1);
  const Real eta_hull = (std::max(eta_rounding, tiny) + tiny) * std::exp(misplaced) + eta_A;
  const Real eta_P = eta_hull * std::exp(most_delta);

  // 16-bit weights of partials, relative to the largest, that underflow; products and their sum likewise.
  const Real grown_M = eta_M * std::exp(misplaced + most_delta);
  const Real eta_W = merged ? grown_M * (1 + u_S) * (1 + u_P) * (1 + u_V) * (1 + g_v) * (1 + g_m) : 0;
  const Real merges = merged ? (partials16 ? S : S + 1) : 1;

  // A sum of rounded P: the same rounding in numerator and denominator.
  const bool rounded_sum = p_rounds && plan.sum_rule == ATTN_SUM_OF_ROUNDED_P;
  const bool p_of_f16 =
      plan.p_format == ATTN_FORMAT_OF_INPUT ? p.dtype == ATTN_F16 : plan.p_format == ATTN_FORMAT_F16;
  const bool predicted = p_rounds && tells_p(plan) && ordered && eps_exp < 0.0625L;
  const Real eps_w = rounded_sum ? (1 + eps_exp) * (1 + u_P) - 1 : eps_exp;
  if (rounded_sum) u_P = 0;
  const Real eta_V =
      v_rounds ? numbers_of(c, plan.v_format).tiny / v_scale * (1 + u_P) * (1 + g_v) * (1 + g_m) : 0;

  const auto rho_of = [&](const Key& key) { return std::exp(key.e) * (1 + eps_w) - 1; };
  Real rho_w = 0;
  for (const Key& key : keys) rho_w += std::exp(key.x - lam) * rho_of(key);
  const Real lost = rho_w + g_l * (1 + rho_w) + (rounded_sum ? eta_P * n / l : 0);
  out.lse = lam;
  out.informative = lost < 1 && std::isfinite(rho_w) && std::isfinite(g_m);
  out.lse_bound = -std::log(1 - lost) + 3 * u * std::fabs(m) + eps_l * (1 + std::log(l)) + 2 * u * std::log(l) +
                  3 * u * std::fabs(lam);
  const Real ln_S = std::log(S);
  const Real C = 3 * u * (std::fabs(lam) + std::min(most_e, lost)) + eps_l * (1 + ln_S) + 2 * u * ln_S +
                 gamma_of(S + 3, u) + 2 * eps_exp;
  const Real growth = merged ? std::expm1(M_O * C) : 0;
  Real most_v = 0;
  for (const Key& key : keys)
    for (const Real v : key.v) most_v = std::max(most_v, std::fabs(v));
  const auto stored = [&](Real o, Real B) {
    Real B2 = B + growth * (o + B);
    B2 += 2 * u_M / (1 - u_M) * (o + B2);
    B2 += std::max(4 * u, device.eps_rcp + 2 * u) * (o + B2) + (merged ? 2 * S * tiny * most_v : 0);
    return B2 + u_O * (o + B2) + eta_O;
  };
  const Underflow underflow(plan, (eta_P + eta_W) / l, tiny * std::exp(misplaced + most_delta) + eta_A, eta_rounding);
  const Real l_p = underflow.order == ATTN_P_UNNORMALISED ? l : 1;
  const Real constant =
      (n + 2 * T) * tiny / l_p + eta_S + eta_V + merges * grown_M / l_p + eta_A * (1 + n * least / l_p);
  const Real of_sum = (rounded_sum ? eta_P : tiny) * n / l;

  // P, if it is known.
  std::map<const Key*, std::pair<Real, Real>> weights;
  Real total_charge = 0;
  const Real common = merged ? 0 : std::expm1(tiles.back().off);
  bool known = predicted;
  for (const Tile& tile : tiles) {
    if (!predicted) break;
    Real y = 0;
    if (merged || tile.growths > 0) {
      const Real off = tile.off + tile.split_off;
      y = off + tile.growths * (eps_exp + 2 * u) + (5 * u + s_e) * (tile.split_max - tile.max + off);
    }
    if (merged) y += merge_constant + merge_range * (m - tile.split_max + 2 * most_err);
    const Real phi = std::expm1(y), factor = std::exp(tile.max - m) / l;
    known = known && phi < 1;
    for (const Key* key : tile.keys) {
      const Real off = key->err + tile.off;
      const Real h =
          off + (5 * u + s_e) * (tile.max - key->x + off) + eps_exp + (p_scale != 1 ? u : 0) + 0x1p-46L +
          0x1p-48L *
              (std::fabs(key->x) + std::fabs(tile.max) + std::fabs(static_cast<Real>(p.scale)) * key->absolute);
      known = known && h < 0.125L;
      const Real exact = std::exp(key->x - tile.max) * p_scale;
      const Real low = exact * (1 - h) < tiny * std::max<Real>(p_scale, 1) ? 0 : exact * (1 - h);
      const Real below = rounded16(low, p_of_f16) / p_scale,
                 above = rounded16(exact * (1 + h + h * h), p_of_f16) / p_scale;
      const Real P = (below + above) / 2, half = (above - below) / 2;
      weights[key] = {factor * P, factor * (half + phi * (P + half))};
      total_charge += weights[key].second;
    }
  }
  const Real lost_known = lost + common * (1 + lost);
  known = known && total_charge < u_P + rho_w && lost_known < 1 && g < 0.5L;
  out.known = known && out.informative;

  for (size_t col = 0; col < static_cast<size_t>(p.dim_v); ++col) {
    Real o = 0, size = 0, largest = 0, low = INFINITY, high = -INFINITY;
    for (const Key& key : keys) {
      const Real v = key.v[col];
      o += std::exp(key.x - lam) * v, size += std::exp(key.x - lam) * std::fabs(v);
      low = std::min(low, v), high = std::max(high, v), largest = std::max(largest, std::fabs(v));
    }
    out.o_size.push_back(size);
    out.exact.push_back(o);
    if (!out.informative) {
      const Real spread = (1 + u_P) * (1 + u_V) * (1 + g_v) * (1 + g_m) / (1 - g_l) * (1 + u_S) - 1;
      const Real eta_weights = merged ? eta_M * std::exp(misplaced) * (1 + spread) : 0;
      const Real pad = spread * largest + (eta_hull + eta_weights) * n * largest + eta_S + eta_V +
                       merges * eta_M * std::exp(misplaced) + eta_A * (1 + n * least);
      out.exact.back() = (low + high) / 2;
      out.o.push_back((low + high) / 2);
      out.o_bound.push_back((high - low) / 2 + stored(largest, pad));
      continue;
    }
    if (out.known) {
      Real centre = 0, charged = 0, G = 0, prefix = 0;
      const Real relative =
          u_V + gamma_of(2 * std::max<Real>(merged ? S : 0, 1) + 3, u) + u_S * (1 + g_m) / (1 - lost_known);
      for (const Tile& tile : tiles) {
        Real sum = 0, sizes = 0;
        for (const Key* key : tile.keys) {
          const auto [weight, charge] = weights[key];
          sum += weight * key->v[col];
          sizes += weight * std::fabs(key->v[col]);
          charged += (charge + relative * (weight + charge) +
                      (2 * tiny * std::exp(misplaced + most_delta) + eta_A + eta_W) / l) *
                     std::fabs(key->v[col]);
        }
        G += tile.cost * (std::fabs(prefix) + sizes);
        prefix = tile.last ? 0 : prefix + sum;
        centre += sum;
      }
      const Real N =
          (charged + G) * (1 + 2 * g / (1 - g)) + (lost_known + tiny * n / l) * std::fabs(centre) + constant;
      out.o.push_back(centre);
      out.o_bound.push_back(stored(std::fabs(centre), N / (1 - lost_known)));
      continue;
    }
    const bool long_row = device.tensor && plan.key_order != ATTN_KEYS_ANY && n > 4096;
    const Real r = (1 + u_P) * (1 + u_V) * (1 + g_v) * (1 + (long_row ? 0 : g_m)) - 1;
    const Real s = u_S * (1 + r) / (1 - lost);
    Real N = (g_l * (1 + rho_w) + of_sum) * std::fabs(o) + constant;
    Real wrong = rho_w * std::fabs(o), sizes = 0, prefix = 0, most = 0;
    for (const Key& key : keys) {
      const Real w = std::exp(key.x - lam), rho = rho_of(key), v = key.v[col];
      const Real lost_of_p = underflow(w * (1 + rho), r + s);
      N += w * rho * std::fabs(v - o) + ((r + s) * w * (1 + rho) + lost_of_p) * std::fabs(v);
      wrong += w * rho * std::fabs(v - o);
      sizes += (w * (1 + rho) + lost_of_p / (r + s)) * std::fabs(v);
      prefix += w * v;
      most = std::max(most, std::fabs(prefix));
    }
    if (long_row) N += g_m * (1 + g_v) * std::min((1 + u_P) * sizes, 2 * most + u_P * sizes + wrong);
    out.o.push_back(o);
    out.o_bound.push_back(stored(std::fabs(o), N / (1 - lost)));
  }
  return out;
}

}  // namespace attnfuzz
