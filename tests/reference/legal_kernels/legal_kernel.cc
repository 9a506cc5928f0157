#include "tests/reference/legal_kernels/legal_kernel.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "reference/numbers/formats.h"
#include "reference/rows/visibility.h"

namespace attnfuzz {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();
constexpr float kLog2E = std::numbers::log2e_v<float>, kLn2 = std::numbers::ln2_v<float>;

float cut_off(double x) {
  const float nearest = static_cast<float>(x);
  return std::abs(static_cast<double>(nearest)) <= std::abs(x) ? nearest : std::nextafter(nearest, 0.0f);
}

// A small binary format: significant bits, least exponent of a normal number, largest number.
struct Bits {
  int significant, least;
  double most;
};
Bits bits_of(int32_t format, int32_t dtype) {
  if (format == ATTN_FORMAT_E4M3) return {4, -6, 448};
  if (format == ATTN_FORMAT_E5M2) return {3, -14, 57344};
  if (format == ATTN_FORMAT_F16) dtype = ATTN_F16;
  if (format == ATTN_FORMAT_BF16) dtype = ATTN_BF16;
  return dtype == ATTN_F16 ? Bits{11, -14, 65504} : Bits{8, -126, 0x1p128 - 0x1p120};
}

enum class Direction { kNearest, kCut, kAny };

double converted(double x, const Bits& bits, Direction direction, Random* random) {
  if (x == 0 || !std::isfinite(x)) return x;
  const double quantum = std::ldexp(1.0, std::max(std::ilogb(x), bits.least) - bits.significant + 1);
  const double scaled = x / quantum;
  double out = direction == Direction::kNearest ? std::nearbyint(scaled)
               : direction == Direction::kCut   ? std::trunc(scaled)
               : random->below(2)               ? std::ceil(scaled)
                                                : std::floor(scaled);
  out *= quantum;
  return std::abs(out) > bits.most ? std::copysign(INFINITY, x) : out;
}

class Kernel {
 public:
  Kernel(Case& c, const Choices& how)
      : p_(c.problem), plan_(c.plan), how_(how), random_(how.seed), tensors_(c.tensors()) {
    direction_ = plan_.conversion == ATTN_CONVERT_NEAREST ? Direction::kNearest
                 : random_.below(2)                       ? Direction::kCut
                                                          : Direction::kAny;
    q_ = decoded(c.q), k_ = decoded(c.k), v_ = decoded(c.v);
    scale_ = p_.scale;
    if (how.wrong == Wrong::kScale9) scale_ *= 1 + 0x1p-9f;
    if (how.wrong == Wrong::kScale12) scale_ *= 1 + 0x1p-12f;
    mode_ = plan_.scale_mode;
    const bool plain = p_.softcap == 0 && p_.bias_dtype == ATTN_NONE;
    if (mode_ == ATTN_SCALE_UNKNOWN) mode_ = 1 + static_cast<int32_t>(random_.below(4));
    if (!plain && (mode_ == ATTN_SCALE_FUSED || mode_ == ATTN_SCALE_FOLDED_Q)) mode_ = ATTN_SCALE_SEPARATE;
    if (mode_ == ATTN_SCALE_FUSED && !(scale_ > 0)) mode_ = ATTN_SCALE_SEPARATE;
    folds_log_ = random_.below(2) != 0;
    lanes_ = plan_.sum_lanes > 0 ? plan_.sum_lanes : 1 + 3 * random_.below(2);
    accumulators_ = plan_.key_order == ATTN_KEYS_ANY ? 1 + random_.below(2) : 1;
    p_bits_ = bits_of(plan_.p_format, p_.dtype);
    if (how.wrong == Wrong::kPInBf16) p_bits_ = bits_of(0, ATTN_BF16);
    if (how.wrong == Wrong::kPIn8Bits) p_bits_ = bits_of(ATTN_FORMAT_E4M3, 0);
    bool wide = plan_.v_format != ATTN_FORMAT_UNKNOWN && plan_.v_format != ATTN_FORMAT_F32;
    v_scale_ = wide && plan_.v_scale > 0 ? plan_.v_scale : 1;
    if (wide)
      for (float& v : v_)
        v = static_cast<float>(
            converted(v * v_scale_, bits_of(plan_.v_format, p_.dtype), direction_, &random_));
    p_scale_ = plan_.p_scale > 0 && plan_.p_format != ATTN_FORMAT_F32 ? plan_.p_scale : 1;
    const bool sum_first =
        plan_.max_rule != ATTN_MAX_RUNNING && plan_.sum_rule == ATTN_SUM_OF_EXP && !merges16();
    normalises_ =
        plan_.p_order == ATTN_P_NORMALISED || (plan_.p_order == ATTN_P_ANY && sum_first && how.seed % 5 < 2);
  }

  Output run() {
    const int64_t rows = p_.batch * p_.heads_q * p_.seq_q, splits = plan_.num_splits;
    const auto columns = static_cast<size_t>(p_.dim_v);
    Output out;
    out.o.resize(static_cast<size_t>(rows) * columns);
    out.lse.resize(static_cast<size_t>(rows));
    for (int64_t row = 0; row < rows; ++row) {
      std::vector<std::vector<float>> o(static_cast<size_t>(splits), std::vector<float>(columns));
      std::vector<float> lse(static_cast<size_t>(splits));
      std::vector<Sums> sums(static_cast<size_t>(splits));
      for (int64_t s = 0; s < splits; ++s)
        split(row, s, o[static_cast<size_t>(s)].data(), &lse[static_cast<size_t>(s)],
              &sums[static_cast<size_t>(s)]);
      std::vector<float> merged = o[0];
      out.lse[static_cast<size_t>(row)] = merges16()    ? merge16(o, sums, &merged)
                                          : splits == 1 ? lse[0]
                                                        : merge(o, lse, &merged);
      for (size_t col = 0; col < columns; ++col)
        out.o[static_cast<size_t>(row) * columns + col] = stored(merged[col]);
    }
    return out;
  }

 private:
  // For one split: the number subtracted from its scores, in powers of two, and its sum.
  struct Sums {
    float mu = kNone, l = 0;
  };
  bool merges16() const { return plan_.merge_format == ATTN_FORMAT_OF_INPUT; }
  // Like stored(), but numbers that overflow the format stay finite.
  float rounded(float x) {
    Bits bits = bits_of(0, p_.dtype);
    bits.most = INFINITY;
    return static_cast<float>(converted(x, bits, direction_, &random_));
  }
  float stored(float x) { return static_cast<float>(converted(x, bits_of(0, p_.dtype), direction_, &random_)); }
  float flushed(float x) const { return plan_.flush_to_zero && std::abs(x) < 0x1p-126f ? 0.0f : x; }

  std::vector<float> decoded(const std::vector<uint16_t>& data) const {
    std::vector<float> out(data.size());
    for (size_t i = 0; i < data.size(); ++i)
      out[i] = flushed(static_cast<float>(decode(p_.dtype, data.data(), static_cast<int64_t>(i))));
    return out;
  }

  float exp2(float x) {
    double y = std::exp2(static_cast<double>(x));
    const double most =
        plan_.exp_error > 0 ? plan_.exp_error * (1 - 0x1p-8) - 0x1p-24 : how_.exp_units * 0x1p-24;
    if (how_.wrong == Wrong::kCoarseExp)
      y *= 1 + 0x1p-20 * std::cos(2 * std::numbers::pi * (static_cast<double>(x) - std::floor(x)));
    if (x != 0) y *= 1 + most * (how_.seed % 3 == 0 ? 1 : 2 * random_.uniform() - 1);
    return flushed(static_cast<float>(y));
  }

  int exponent(double x) const {
    const int least = p_.dtype == ATTN_F16 ? -14 : -126;
    return std::max(std::ilogb(x), least);
  }

  float sum_of(float acc, const float* a, const float* b, int64_t stride, int64_t n) {
    if (how_.mma == Arithmetic::kChain || how_.mma == Arithmetic::kTruncate) {
      for (int64_t t = 0; t < n; ++t) {
        const double sum =
            static_cast<double>(acc) + static_cast<double>(a[t]) * static_cast<double>(b[t * stride]);
        acc = how_.mma == Arithmetic::kChain ? static_cast<float>(sum) : cut_off(sum);
      }
      return acc;
    }
    const bool hopper = how_.mma == Arithmetic::kHopper;
    const int64_t block = hopper ? 16 : 4;
    const int kept = hopper ? 25 : 23;
    for (int64_t first = 0; first < n; first += block) {
      double term[17] = {acc};
      int count = 1, most = acc == 0 ? -10000 : std::max(std::ilogb(acc), -126);
      for (int64_t t = first; t < std::min(n, first + block); ++t) {
        const double x = a[t], y = b[t * stride];
        if (x == 0 || y == 0) continue;
        term[count++] = x * y;
        most = std::max(most, exponent(x) + exponent(y));
      }
      if (most == -10000 || !std::isfinite(acc)) continue;
      const double per_quantum = std::ldexp(1.0, kept - most);
      double sum = 0;
      for (int k = 0; k < count; ++k) sum += std::trunc(term[k] * per_quantum);
      acc = cut_off(sum / per_quantum);
    }
    return acc;
  }

  // q.k in an order that the plan allows.
  float product(const float* q, const float* k) {
    const int64_t d = p_.dim_qk;
    if (plan_.dot_order == ATTN_DOT_ASCENDING || how_.seed % 2 == 0) return sum_of(0, q, k, 1, d);
    const int64_t half = d / 32 * 16;  // two accumulators
    return sum_of(0, q + half, k + half, 1, d - half) + sum_of(0, q, k, 1, half);
  }

  // Scores z of keys [first, last). The exponential is taken of factor_ * z - mu.
  void scores(int64_t row, int64_t first, int64_t last, std::vector<float>* z) {
    const int64_t i = row % p_.seq_q, h = row / p_.seq_q % p_.heads_q, b = row / p_.seq_q / p_.heads_q;
    const int64_t g = h / (p_.heads_q / p_.heads_kv);
    std::vector<float> q(&q_[static_cast<size_t>(row * p_.dim_qk)],
                         &q_[static_cast<size_t>(row * p_.dim_qk)] + p_.dim_qk);
    factor_ = mode_ == ATTN_SCALE_FUSED ? scale_ * kLog2E : mode_ == ATTN_SCALE_SEPARATE_FMA ? kLog2E : 1.0f;
    if (mode_ == ATTN_SCALE_FOLDED_Q) {
      if (!folds_log_) factor_ = kLog2E;
      // The same result at each call.
      const Direction once = direction_ == Direction::kAny ? Direction::kCut : direction_;
      for (float& x : q)
        x = static_cast<float>(
            converted(x * (folds_log_ ? scale_ * kLog2E : scale_), bits_of(0, p_.dtype), once, &random_));
    }
    z->clear();
    for (int64_t j = first; j < last; ++j) {
      bool visible = j < p_.seq_k && sees(p_, tensors_, b, h, i, j);
      if (how_.wrong == Wrong::kDropLastKey && visible && !sees(p_, tensors_, b, h, i, j + 1)) visible = false;
      if (how_.wrong == Wrong::kHiddenKeyLeaks && !visible && j > 0 && j < p_.seq_k &&
          sees(p_, tensors_, b, h, i, j - 1))
        visible = true;
      if (!visible) {
        z->push_back(kNone);
        continue;
      }
      float s = product(q.data(), &k_[static_cast<size_t>(((b * p_.heads_kv + g) * p_.seq_k + j) * p_.dim_qk)]);
      if (how_.folded) s *= how_.folded->k[(b * p_.heads_kv + g) * p_.seq_k + j];
      if (mode_ == ATTN_SCALE_SEPARATE || mode_ == ATTN_SCALE_SEPARATE_FMA) {
        s *= flushed(scale_);
        if (p_.softcap > 0) s = p_.softcap * std::tanh(s / p_.softcap);
        if (p_.bias_dtype != ATTN_NONE)
          s += static_cast<float>(
              decode(p_.bias_dtype, tensors_.bias.data, offset_of(tensors_.bias, b, h, i, j)));
        // Only hidden keys are -inf.
        if (mode_ == ATTN_SCALE_SEPARATE)
          s = s > kNone ? std::max(s * kLog2E, std::numeric_limits<float>::lowest()) : s * kLog2E;
      }
      z->push_back(s);
    }
  }

  std::vector<int64_t> order(int64_t first, int64_t last) {
    std::vector<int64_t> tiles(static_cast<size_t>(std::max<int64_t>(0, last - first)));
    std::iota(tiles.begin(), tiles.end(), first);
    const bool back =
        plan_.key_order == ATTN_KEYS_DESCENDING || (plan_.key_order == ATTN_KEYS_CONSECUTIVE && how_.seed % 2);
    if (back) std::reverse(tiles.begin(), tiles.end());
    if (plan_.key_order == ATTN_KEYS_ANY && how_.seed % 4 == 1)
      for (size_t t = tiles.size(); t > 1; --t)
        std::swap(tiles[t - 1], tiles[static_cast<size_t>(random_.below(static_cast<int64_t>(t)))]);
    return tiles;
  }

  // P as it is multiplied by V. `into_p`: the scale of V that is folded into it.
  float rounded_p(float p, float into_p) {
    if (plan_.p_format == ATTN_FORMAT_F32) return flushed(p * into_p);
    const Direction direction = how_.wrong == Wrong::kCutP ? Direction::kCut : direction_;
    const double least = std::ldexp(1.0, p_bits_.least - p_bits_.significant);  // half of the least number
    if (how_.wrong == Wrong::kFlushP && p * p_scale_ * into_p < 8 * least) return 0;
    return static_cast<float>(converted(flushed(p * p_scale_ * into_p), p_bits_, direction, &random_));
  }

  // One accumulator for each column, or two that take turns.
  using Accumulators = std::vector<std::vector<float>>;
  // Rescales, and adds the products of a tile. `turn`: the number of tiles before it.
  void add_products(const std::vector<float>& weight, const float* values, size_t turn, float alpha,
                    Accumulators* acc) {
    const size_t to = turn / 2 % static_cast<size_t>(accumulators_);
    for (size_t col = 0; col < static_cast<size_t>(p_.dim_v); ++col) {
      for (auto& other : *acc) other[col] = flushed(other[col] * alpha);
      float& a = (*acc)[to][col];
      for (size_t k = 0; k < weight.size(); k += 16) {
        a = sum_of(a, weight.data() + k,
                   values + static_cast<int64_t>(k) * p_.dim_v + static_cast<int64_t>(col), p_.dim_v,
                   static_cast<int64_t>(std::min<size_t>(16, weight.size() - k)));
        if (how_.wrong == Wrong::kAccumulator16)
          a = static_cast<float>(converted(a, bits_of(0, ATTN_F16), Direction::kNearest, &random_));
      }
    }
  }

  // A tile of weights that are not rounded yet.
  struct Kept {
    const float* values;
    std::vector<float> p, into_p;
  };
  // Divides weights by their sum, rounds them, and adds their products.
  void add_normalised(const std::vector<Kept>& tiles, float sum, Accumulators* acc) {
    const bool divides = how_.seed % 2 != 0;
    std::vector<float> weight;
    for (size_t turn = 0; turn < tiles.size(); ++turn) {
      const Kept& tile = tiles[turn];
      weight.clear();
      for (size_t k = 0; k < tile.p.size(); ++k) {
        const float w = divides ? tile.p[k] / sum : tile.p[k] * (1 / sum);
        weight.push_back(rounded_p(flushed(w), tile.into_p[k]));
      }
      add_products(weight, tile.values, turn, 1, acc);
    }
  }

  void split(int64_t row, int64_t s, float* o, float* lse, Sums* sums) {
    const int64_t tiles = (p_.seq_k + plan_.tile_k - 1) / plan_.tile_k;
    const int64_t first = plan_.num_splits > 1 ? std::min(tiles, s * plan_.split_tiles) : 0;
    const int64_t last = plan_.num_splits > 1 ? std::min(tiles, first + plan_.split_tiles) : tiles;
    const int64_t group = row / p_.seq_q % p_.heads_q / (p_.heads_q / p_.heads_kv);
    const int64_t b = row / p_.seq_q / p_.heads_q;
    const auto columns = static_cast<size_t>(p_.dim_v);
    Accumulators acc(static_cast<size_t>(accumulators_), std::vector<float>(columns, 0));
    std::vector<Kept> kept;
    std::vector<float> z, weight, lane(static_cast<size_t>(lanes_), 0);
    const std::vector<int64_t> walk = order(first, last);
    float m = kNone, mu = kNone;
    if (plan_.max_rule == ATTN_MAX_WHOLE || (normalises_ && how_.seed % 3 == 0))
      for (const int64_t t : walk) {
        scores(row, t * plan_.tile_k, (t + 1) * plan_.tile_k, &z);
        for (const float x : z) m = std::max(m, x);
      }
    size_t turn = 0;
    for (const int64_t t : walk) {
      scores(row, t * plan_.tile_k, std::min((t + 1) * plan_.tile_k, p_.seq_k), &z);
      float most = m;
      for (const float x : z) most = std::max(most, x);
      if (most == kNone) continue;
      // A maximum that grew only a little may be kept.
      const bool lazy = plan_.max_rule == ATTN_MAX_UNKNOWN && how_.seed % 3 == 1 && m != kNone && !merges16() &&
                        256 * p_scale_ <= p_bits_.most && (most - m) * factor_ <= 8;
      if (!lazy) m = most;
      const float next = m * factor_;
      float alpha = mu == kNone ? 0 : exp2(mu - next);
      if (how_.wrong == Wrong::kNoSmallRescale && mu != kNone &&
          alpha > 0x1p-1f * std::numbers::sqrt2_v<float> * 1.18920711f)
        alpha = 1;
      mu = next;
      for (float& l : lane) l = flushed(l * alpha);
      for (Kept& tile : kept)
        for (float& p : tile.p) p = flushed(p * alpha);
      weight.clear();
      const float* values =
          &v_[static_cast<size_t>(((b * p_.heads_kv + group) * p_.seq_k + t * plan_.tile_k) * p_.dim_v)];
      if (normalises_) kept.push_back({values, {}, {}});
      for (size_t k = 0; k < z.size(); ++k) {
        const float p = z[k] == kNone ? 0 : exp2(std::fma(z[k], factor_, -mu));
        const float into_p = how_.folded && how_.folded->in_p
                                 ? how_.folded->v[(b * p_.heads_kv + group) * p_.seq_k + t * plan_.tile_k +
                                                  static_cast<int64_t>(k)]
                                 : 1.0f;
        if (normalises_) kept.back().p.push_back(p), kept.back().into_p.push_back(into_p);
        const float rounded = normalises_ ? 0 : rounded_p(p, into_p);
        weight.push_back(rounded);
        lane[k % static_cast<size_t>(lanes_)] +=
            plan_.sum_rule == ATTN_SUM_OF_ROUNDED_P ? rounded / p_scale_ / into_p : p;
      }
      if (!normalises_) add_products(weight, values, turn++, alpha, &acc);
    }
    float l = 0;
    for (const float part : lane) l += part;
    *sums = {mu, l};
    if (normalises_) add_normalised(kept, l, &acc);
    const float inverse = merges16() || normalises_ ? 1 : l > 0 ? 1 / l : 0;
    for (size_t col = 0; col < columns; ++col) {
      float sum = acc[0][col];
      if (accumulators_ > 1) sum += acc[1][col];
      o[col] = sum * inverse / p_scale_ / v_scale_;
      if (how_.folded && !how_.folded->in_p)
        o[col] *= how_.folded->v[(b * p_.heads_kv + group) * p_.seq_k];
      const bool sixteen = plan_.partial_format == ATTN_FORMAT_OF_INPUT || how_.wrong == Wrong::kPartials16;
      if (sixteen) o[col] = merges16() ? rounded(o[col]) : stored(o[col]);
    }
    *lse = l > 0 ? mu * kLn2 + std::log2(l) * kLn2 : kNone;
  }

  // Merges in the input's 16-bit format, as merge_format declares.
  float merge16(const std::vector<std::vector<float>>& o, const std::vector<Sums>& sums,
                std::vector<float>* out) {
    std::fill(out->begin(), out->end(), 0.0f);
    float most = kNone, total = 0;
    for (const Sums& split : sums) most = std::max(most, split.mu);
    if (most == kNone) return kNone;
    for (size_t s = 0; s < o.size(); ++s) {
      if (sums[s].mu == kNone) continue;
      const float weight = exp2(sums[s].mu - most), narrow = rounded(weight);
      total += flushed(weight * sums[s].l);
      for (size_t col = 0; col < out->size(); ++col) (*out)[col] += rounded(flushed(narrow * o[s][col]));
    }
    for (float& x : *out) x = rounded(x) / rounded(total);
    return most * kLn2 + std::log2(total) * kLn2;
  }

  float merge(const std::vector<std::vector<float>>& o, const std::vector<float>& lse,
              std::vector<float>* out) {
    std::fill(out->begin(), out->end(), 0.0f);
    const float most = *std::max_element(lse.begin(), lse.end());
    if (most == kNone) return kNone;
    int32_t rule = plan_.merge_rule;
    if (rule == ATTN_MERGE_UNKNOWN) rule = 1 + static_cast<int32_t>(how_.seed % 3);
    if (rule == ATTN_MERGE_ONE_BY_ONE) {
      float so_far = kNone;
      for (size_t s = 0; s < o.size(); ++s) {
        if (lse[s] == kNone) continue;
        const float higher = std::max(so_far, lse[s]);
        const float total = exp2((so_far - higher) * kLog2E) + exp2((lse[s] - higher) * kLog2E);
        const float now = higher + std::log2(total) * kLn2;
        const float old_weight = so_far == kNone ? 0 : exp2((so_far - now) * kLog2E);
        const float weight = exp2((lse[s] - now) * kLog2E);
        for (size_t col = 0; col < out->size(); ++col)
          (*out)[col] = std::fma(weight, o[s][col], (*out)[col] * old_weight);
        so_far = now;
      }
      return so_far;
    }
    float total = 0;
    for (const float x : lse) total += x == kNone ? 0 : exp2((x - most) * kLog2E);
    const float all = most + std::log2(total) * kLn2;
    const float reference = rule == ATTN_MERGE_BY_WEIGHT ? most : all;
    for (size_t s = 0; s < o.size(); ++s) {
      if (lse[s] == kNone) continue;
      const float weight = exp2((lse[s] - reference) * kLog2E);
      for (size_t col = 0; col < out->size(); ++col) (*out)[col] = std::fma(weight, o[s][col], (*out)[col]);
    }
    if (rule == ATTN_MERGE_BY_WEIGHT)
      for (float& x : *out) x *= 1 / total;
    return all;
  }

  const attn_problem& p_;
  const attn_plan& plan_;
  const Choices how_;
  Random random_;
  attn_tensors tensors_;
  Direction direction_;
  std::vector<float> q_, k_, v_;
  float scale_, factor_ = 1, p_scale_, v_scale_;
  int32_t mode_;
  bool folds_log_, normalises_ = false;
  int64_t lanes_, accumulators_;
  Bits p_bits_{};
};

}  // namespace

const char* name_of(Wrong wrong) {
  constexpr const char* kNames[] = {"none",
                                    "last key dropped",
                                    "a hidden key leaks",
                                    "P in bf16",
                                    "P in fp8",
                                    "fp16 accumulator",
                                    "16-bit partials",
                                    "no small rescale",
                                    "scale off by 2^-9",
                                    "scale off by 2^-12",
                                    "P cut off",
                                    "exp2 off by 2^-20",
                                    "small P flushed"};
  return kNames[static_cast<int>(wrong)];
}

Output run_as_planned(Case& c, const Choices& how) { return Kernel(c, how).run(); }

}  // namespace attnfuzz
