#include "tests/properties/support/fake_attention.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include "reference/numbers/formats.h"

namespace attnfuzz {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

int64_t at(const attn_tensor& t, int64_t a, int64_t b, int64_t c, int64_t d) {
  return a * t.stride[0] + b * t.stride[1] + c * t.stride[2] + d * t.stride[3];
}

// Q, K or V as dense fp32. Otherwise conversions would take most of the time.
struct Dense {
  int64_t heads, rows, columns;
  std::vector<float> data;
  Dense(const attn_problem& p, const attn_tensor& t, int64_t heads, int64_t rows, int64_t columns)
      : heads(heads), rows(rows), columns(columns), data(p.batch * heads * rows * columns) {
    size_t n = 0;
    for (int64_t b = 0; b < p.batch; ++b) {
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t s = 0; s < rows; ++s) {
          for (int64_t d = 0; d < columns; ++d) {
            data[n++] = static_cast<float>(decode(p.dtype, t.data, at(t, b, h, s, d)));
          }
        }
      }
    }
  }
  const float* row(int64_t b, int64_t h, int64_t s) const {
    return &data[((b * heads + h) * rows + s) * columns];
  }
};

attn_tensor flawed_k(Flaw flaw, const attn_tensors& t) {
  attn_tensor k = t.k;
  // The stride has K's direction and is not larger than K's, so that all reads are within K.
  const int64_t size = std::min(std::abs(t.v.stride[2]), std::abs(t.k.stride[2]));
  if (flaw == Flaw::kStrideOfV) k.stride[2] = t.k.stride[2] < 0 ? -size : size;
  return k;
}

struct Kernel {
  Flaw flaw;
  const attn_problem& p;
  const attn_tensors& t;
  const attn_plan& plan;
  const Dense q, k, v;

  Kernel(Flaw flaw, const attn_problem& p, const attn_tensors& t, const attn_plan& plan)
      : flaw(flaw),
        p(p),
        t(t),
        plan(plan),
        q(p, t.q, p.heads_q, p.seq_q, p.dim_qk),
        k(p, flawed_k(flaw, t), p.heads_kv, p.seq_k, p.dim_qk),
        v(p, t.v, p.heads_kv, p.seq_k, p.dim_v) {}

  int64_t length(int64_t b) const {
    if (!p.has_key_lengths || (flaw == Flaw::kLengthIgnored && b > 0)) return p.seq_k;
    return std::clamp<int64_t>(t.key_lengths[b], 0, p.seq_k);
  }

  int64_t kv_head(int64_t h) const {
    return flaw == Flaw::kHeadMap ? h % p.heads_kv : h / (p.heads_q / p.heads_kv);
  }

  bool sees(int64_t b, int64_t h, int64_t i, int64_t j, float* bias) const {
    const bool bottom = p.align == ATTN_BOTTOM_RIGHT && flaw != Flaw::kAlignIgnored;
    const int64_t diagonal = bottom ? i + length(b) - p.seq_q : i;
    if (p.causal && j > diagonal) return false;
    if (p.window_left >= 0) {
      // In this form no sum can overflow: both sides of the difference are small.
      const int64_t left = p.window_left - (flaw == Flaw::kWindowExclusive);
      if (diagonal - j > left) return false;
    }
    if (p.window_right >= 0) {
      if (flaw == Flaw::kWindowOverflow) {
        const uint64_t end = static_cast<uint64_t>(diagonal) + static_cast<uint64_t>(p.window_right);
        if (j > static_cast<int64_t>(end)) return false;
      } else if (j - diagonal > p.window_right) {
        return false;
      }
    }
    if (p.has_mask) {
      const int64_t head = flaw == Flaw::kMaskBroadcast ? 0 : h;
      if (static_cast<const uint8_t*>(t.mask.data)[at(t.mask, b, head, i, j)] == 0) return false;
    }
    *bias = 0;
    if (p.bias_dtype != ATTN_NONE) {
      *bias = static_cast<float>(decode(p.bias_dtype, t.bias.data, at(t.bias, b, h, i, j)));
      if (flaw == Flaw::kBiasClipped && *bias <= -1e4f) return false;
    }
    return *bias != -kInf;
  }

  float scale(int64_t b) const {
    if (flaw == Flaw::kBatchScale && b % 2 == 1) return p.scale * 1.125f + 0.01f;
    if (flaw == Flaw::kScaleRounded && p.scale > 0) {
      int exponent;
      const float mantissa = std::frexp(p.scale, &exponent);
      return std::ldexp(std::ceil(mantissa * 16) / 16, exponent);
    }
    return p.scale;
  }

  // True: this row adds its products from the last to the first. That gives other bits within the same bounds.
  bool backwards(int64_t b, int64_t h) const {
    if (flaw == Flaw::kBatchRounds) return b % 2 == 1;
    if (flaw == Flaw::kHeadRounds) return h % 2 == 1;
    if (flaw == Flaw::kLayoutRounds) return t.k.stride[2] != p.dim_qk;
    if (flaw == Flaw::kHiddenKeyRounds) {
      const int64_t end = p.causal && p.align == ATTN_TOP_LEFT ? std::min(length(b), p.seq_q) : length(b);
      return end < p.seq_k && *k.row(b, kv_head(h), end) > 3.0f;
    }
    return false;
  }

  float score(int64_t b, int64_t h, int64_t i, int64_t j) const {
    const float *query = q.row(b, h, i), *key = k.row(b, kv_head(h), j);
    float sum = 0;
    if (backwards(b, h)) {
      for (int64_t d = p.dim_qk - 1; d >= 0; --d) sum += query[d] * key[d];
    } else {
      for (int64_t d = 0; d < p.dim_qk; ++d) sum += query[d] * key[d];
    }
    if (flaw == Flaw::kScaleRounds) sum = (sum + 0x1p-12f) - 0x1p-12f;
    float x = sum * scale(b);
    if (flaw == Flaw::kScoresClipped) x = std::clamp(x, -8.0f, 8.0f);
    if (p.softcap > 0 && flaw != Flaw::kSoftcapIgnored) x = p.softcap * std::tanh(x / p.softcap);
    return x;
  }

  float value(float x) const {
    if (flaw == Flaw::kNanSwallowed && std::isnan(x)) return 0;
    return flaw == Flaw::kVClipped ? std::clamp(x, -2.0f, 2.0f) : x;
  }

  // P of a weight relative to its sum, as the textbook rounds it.
  float rounded(float w) const {
    if (flaw == Flaw::kFlushesP && p.dtype == ATTN_F16 && w < 0x1p-22f) return 0;
    if (p.dtype == ATTN_F32 || std::isnan(w)) return w;
    const uint16_t bits = encode16(p.dtype, w);
    return static_cast<float>(decode(p.dtype, &bits, 0));
  }

  int64_t last_key(int64_t b) const {
    int64_t end = length(b);
    const int64_t rest = end % plan.tile_k;
    if (flaw == Flaw::kDropsLastKey && rest != 0) --end;
    if (flaw == Flaw::kWholeTileLost && rest == 1) --end;
    return end;
  }

  void partial(int64_t split, int64_t b, int64_t h, int64_t i, float* o, float* lse) const {
    const int64_t first = split * plan.split_tiles * plan.tile_k;
    const int64_t last = std::min(last_key(b), first + plan.split_tiles * plan.tile_k);
    std::vector<int64_t> keys;
    std::vector<float> x;
    float largest = -kInf;
    for (int64_t j = first; j < last; ++j) {
      float bias;
      if (!sees(b, h, i, j, &bias)) continue;
      keys.push_back(j);
      x.push_back(score(b, h, i, j) + bias);
      largest = x.back() > largest ? x.back() : largest;
    }
    std::fill_n(o, p.dim_v, 0.0f);
    *lse = -kInf;
    if (keys.empty()) return;
    if (flaw == Flaw::kNoMaximum) largest = 0;
    const int64_t g = kv_head(h), n = static_cast<int64_t>(keys.size());
    float sum = 0;
    const bool reverse = backwards(b, h);
    for (int64_t m = 0; m < n; ++m) {
      const int64_t key = reverse ? n - 1 - m : m;
      const float weight = std::exp(x[key] - largest);
      const int times = flaw == Flaw::kFirstKeyTwice && keys[key] == 0 ? 2 : 1;
      for (int time = 0; time < times; ++time) {
        sum += weight;
        const float* row = v.row(b, g, keys[key]);
        for (int64_t c = 0; c < p.dim_v; ++c) o[c] += weight * value(row[c]);
      }
    }
    for (int64_t c = 0; c < p.dim_v; ++c) o[c] = fake_rounds_p(flaw) ? 0 : o[c] / sum;
    for (int64_t m = 0; fake_rounds_p(flaw) && m < n; ++m) {
      const float weight = rounded(std::exp(x[m] - largest) / sum);
      for (int64_t c = 0; c < p.dim_v; ++c) o[c] += weight * v.row(b, g, keys[m])[c];
    }
    for (int64_t j = first; flaw == Flaw::kHiddenTimesZero && j < last; ++j) {
      for (int64_t c = 0; c < p.dim_v; ++c) o[c] += 0 * v.row(b, g, j)[c];
    }
    if (flaw == Flaw::kReadsBeyondLength && length(b) < p.seq_k) {
      for (int64_t c = 0; c < p.dim_v; ++c) o[c] += 0 * v.row(b, g, length(b))[c];
    }
    if (flaw == Flaw::kNanLeaksBatch && b > 0) {
      for (int64_t c = 0; c < p.dim_v; ++c) o[c] += 0 * v.row(b - 1, g, keys[0])[c];
    }
    *lse = largest + std::log(sum);
    if (flaw == Flaw::kPartialLseWrong && split == plan.num_splits - 1) *lse += 0.25f;
  }
};

template <class Visit>
void each_row(const attn_problem& p, const Visit& visit) {
  int64_t row = 0;
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t h = 0; h < p.heads_q; ++h) {
      for (int64_t i = 0; i < p.seq_q; ++i) visit(row++, b, h, i);
    }
  }
}

}  // namespace

void fake_partial(Flaw flaw, const attn_problem& p, const attn_tensors& t, const attn_plan& plan) {
  const Kernel kernel(flaw, p, t, plan);
  const int64_t rows = p.batch * p.heads_q * p.seq_q;
  auto* o = static_cast<float*>(t.workspace);
  auto* lse = reinterpret_cast<float*>(static_cast<char*>(t.workspace) + fake_lse_offset(p, plan.num_splits));
  for (int64_t split = 0; split < plan.num_splits; ++split) {
    each_row(p, [&](int64_t row, int64_t b, int64_t h, int64_t i) {
      const int64_t n = split * rows + row;
      kernel.partial(split, b, h, i, o + n * p.dim_v, lse + n);
    });
  }
}

void fake_reduce(Flaw flaw, const attn_problem& p, const attn_tensors& t, const attn_plan& plan) {
  const int64_t rows = p.batch * p.heads_q * p.seq_q, splits = plan.num_splits;
  const auto* partial_o = static_cast<const float*>(t.workspace);
  const auto* partial_lse =
      reinterpret_cast<const float*>(static_cast<const char*>(t.workspace) + fake_lse_offset(p, splits));
  std::vector<float> o(static_cast<size_t>(p.dim_v));
  bool dead_above = false;
  each_row(p, [&](int64_t row, int64_t b, int64_t h, int64_t i) {
    float largest = -kInf;
    for (int64_t s = 0; s < splits; ++s) {
      float x = partial_lse[s * rows + row];
      if (flaw == Flaw::kPartialLseWrong && s == splits - 1) x -= 0.25f;
      largest = x > largest || std::isnan(x) ? x : largest;
      if (flaw == Flaw::kReductionTrustsFirst) break;
    }
    std::fill(o.begin(), o.end(), 0.0f);
    float sum = 0;
    for (int64_t s = 0; s < splits; ++s) {
      float x = partial_lse[s * rows + row];
      if (x == -kInf) continue;
      if (flaw == Flaw::kPartialLseWrong && s == splits - 1) x -= 0.25f;
      float weight = std::exp(x - largest);
      if (flaw == Flaw::kReductionTrustsFirst) weight = std::min(weight, 1.0f);
      sum += weight;
      const float again = flaw == Flaw::kReductionCountsTwice && splits > 1 ? 1.5f
                          : flaw == Flaw::kSplitsWeighed && s > 0           ? 1.12f
                                                                            : 1.0f;
      for (int64_t c = 0; c < p.dim_v; ++c) o[c] += weight * again * partial_o[(s * rows + row) * p.dim_v + c];
    }
    const bool dead = sum == 0;
    float result = dead ? -kInf : largest + std::log(sum);
    if (flaw == Flaw::kLseBase && !dead) result *= 1.44269504f;
    if (flaw == Flaw::kDeadRowDisturbs && !dead && dead_above) result = std::nextafter(result, kInf);
    if (t.lse.data && !(flaw == Flaw::kSkipsLse && row == rows - 1)) {
      static_cast<float*>(t.lse.data)[at(t.lse, b, h, i, 0)] = result;
    }
    if (flaw == Flaw::kSkipsLastRow && row == rows - 1) return;
    for (int64_t c = 0; c < p.dim_v; ++c) {
      float x = dead ? 0.0f : o[c] / sum;
      if (dead && flaw == Flaw::kNanOnDeadRow) x = std::numeric_limits<float>::quiet_NaN();
      if (!dead && flaw == Flaw::kConstantAdded) x += 0x1p-6f;
      const int64_t to = at(t.o, b, h, i, c);
      if (p.dtype == ATTN_F32)
        static_cast<float*>(t.o.data)[to] = x;
      else
        static_cast<uint16_t*>(t.o.data)[to] = encode16(p.dtype, x);
    }
    dead_above = dead && i + 1 < p.seq_q;
  });
}

}  // namespace attnfuzz
