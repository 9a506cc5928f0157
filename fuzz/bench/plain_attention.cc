#include "fuzz/bench/plain_attention.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace attnfuzz {
namespace {

constexpr int kTile = 64;  // queries, and keys, of a tile
constexpr int kLanes = 8;  // lanes of a vector register; a reduction has this many independent chains
constexpr float kLog2e = 1.44269504088896340736f;
constexpr float kLn2 = 0.69314718055994530942f;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct F16 {
  static float widen(uint16_t bits) { return static_cast<float>(std::bit_cast<_Float16>(bits)); }
  static uint16_t narrow(float value) { return std::bit_cast<uint16_t>(static_cast<_Float16>(value)); }
};

struct BF16 {
  static float widen(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
  static uint16_t narrow(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
  }
};

// The head that is being computed.
struct Head {
  const uint16_t *q, *k, *v;
  uint16_t* o;
  float* lse;  // or nullptr
  int64_t q_stride, k_stride, v_stride, o_stride, lse_stride;
  int64_t seq_q, seq_k;
  bool causal;
  float sigma;  // scale log2 e
};

template <int D>
struct Tiles {
  alignas(64) float q[kTile][D];
  alignas(64) float rows[kTile][D];   // of K, then of V
  alignas(64) float keys[D][kTile];   // K transposed
  alignas(64) float s[kTile][kTile];  // scores, then probabilities
  alignas(64) float o[kTile][D];
  float mu[kTile], sum[kTile];
};

template <class T, int D>
void load(const uint16_t* from, int64_t stride, int64_t first, int64_t rows, float (&to)[kTile][D]) {
  for (int r = 0; r < kTile; ++r) {
    if (first + r < rows) {
      const uint16_t* row = from + (first + r) * stride;
      for (int d = 0; d < D; ++d) to[r][d] = T::widen(row[d]);
    } else {
      std::fill(to[r], to[r] + D, 0.0f);
    }
  }
}

template <int D>
void transpose(const float (&from)[kTile][D], float (&to)[D][kTile]) {
  for (int r = 0; r < kTile; r += kLanes) {
    for (int d = 0; d < D; ++d) {
      for (int i = 0; i < kLanes; ++i) to[d][r + i] = from[r + i][d];
    }
  }
}

// s = q keys, one row of sums at a time, in eight vectors of accumulators.
template <int D>
void multiply_keys(Tiles<D>& t) {
  for (int i = 0; i < kTile; ++i) {
    float sum[kTile] = {};
    for (int d = 0; d < D; ++d) {
      const float q = t.q[i][d];
      for (int j = 0; j < kTile; ++j) sum[j] = std::fma(q, t.keys[d][j], sum[j]);
    }
    std::copy(sum, sum + kTile, t.s[i]);
  }
}

// o += s v, 64 columns at a time, which also fit into eight vectors.
template <int D>
void multiply_values(Tiles<D>& t) {
  for (int i = 0; i < kTile; ++i) {
    for (int first = 0; first < D; first += kTile) {
      float sum[kTile];
      std::copy(t.o[i] + first, t.o[i] + first + kTile, sum);
      for (int j = 0; j < kTile; ++j) {
        const float p = t.s[i][j];
        for (int c = 0; c < kTile; ++c) sum[c] = std::fma(p, t.rows[j][first + c], sum[c]);
      }
      std::copy(sum, sum + kTile, t.o[i] + first);
    }
  }
}

template <int D>
void mask(const Head& head, int64_t first_query, int64_t first_key, Tiles<D>& t) {
  for (int i = 0; i < kTile; ++i) {
    const int64_t end = head.causal ? std::min(first_query + i + 1, head.seq_k) : head.seq_k;
    for (int j = 0; j < kTile; ++j) {
      if (first_key + j >= end) t.s[i][j] = -kInfinity;
    }
  }
}

// 2^x for x <= 0 to about 2^-22, without a branch or a call.
float inline_exp2(float x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it leaves an integer in the low bits
  const float shifted = (x < -127.0f ? -127.0f : x) + kRound;
  const float f = (x < -127.0f ? -127.0f : x) - (shifted - kRound);
  // Taylor coefficients ln(2)^n / n!, enough for |f| <= 1/2.
  float p = 1.5403530e-4f;
  for (const float c : {1.3333558e-3f, 9.6181291e-3f, 5.5504109e-2f, 2.4022651e-1f, 6.9314718e-1f, 1.0f}) {
    p = std::fma(p, f, c);
  }
  const uint32_t n = std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kRound);
  return x < -126.0f ? 0.0f : std::bit_cast<float>(std::bit_cast<uint32_t>(p) + (n << 23));
}

template <Exp2 kExp2, int D>
void softmax(float sigma, Tiles<D>& t) {
  for (int i = 0; i < kTile; ++i) {
    float strand[kLanes];
    std::fill(strand, strand + kLanes, -kInfinity);
    for (int j = 0; j < kTile; j += kLanes) {
      for (int l = 0; l < kLanes; ++l) strand[l] = t.s[i][j + l] > strand[l] ? t.s[i][j + l] : strand[l];
    }
    const float mu = std::max(t.mu[i], *std::max_element(strand, strand + kLanes) * sigma);
    const float reference = mu == -kInfinity ? 0 : mu;
    const float alpha = exp2f(t.mu[i] - reference);
    t.mu[i] = mu;
    for (int j = 0; j < kTile; ++j) t.s[i][j] = std::fma(t.s[i][j], sigma, -reference);
    for (int j = 0; j < kTile; ++j) {
      t.s[i][j] = kExp2 == Exp2::kLibrary ? exp2f(t.s[i][j]) : inline_exp2(t.s[i][j]);
    }
    std::fill(strand, strand + kLanes, 0.0f);
    for (int j = 0; j < kTile; j += kLanes) {
      for (int l = 0; l < kLanes; ++l) strand[l] += t.s[i][j + l];
    }
    float sum = t.sum[i] * alpha;
    for (const float part : strand) sum += part;
    t.sum[i] = sum;
    for (int c = 0; c < D; ++c) t.o[i][c] *= alpha;
  }
}

template <class T, int D>
void store(const Head& head, int64_t first_query, const Tiles<D>& t) {
  for (int i = 0; i < kTile && first_query + i < head.seq_q; ++i) {
    const bool dead = t.sum[i] == 0;
    const float inverse = dead ? 0 : 1 / t.sum[i];
    uint16_t* row = head.o + (first_query + i) * head.o_stride;
    for (int c = 0; c < D; ++c) row[c] = T::narrow(t.o[i][c] * inverse);
    if (head.lse == nullptr) continue;
    head.lse[(first_query + i) * head.lse_stride] = dead ? -kInfinity : (t.mu[i] + log2f(t.sum[i])) * kLn2;
  }
}

template <class T, int D, Exp2 kExp2>
void attend(const Head& head, int64_t first_query, Tiles<D>& t) {
  load<T, D>(head.q, head.q_stride, first_query, head.seq_q, t.q);
  std::fill(t.o[0], t.o[0] + kTile * D, 0.0f);
  std::fill(t.mu, t.mu + kTile, -kInfinity);
  std::fill(t.sum, t.sum + kTile, 0.0f);
  const int64_t last_query = std::min(first_query + kTile, head.seq_q);
  const int64_t end = head.causal ? std::min(head.seq_k, last_query) : head.seq_k;
  for (int64_t first_key = 0; first_key < end; first_key += kTile) {
    load<T, D>(head.k, head.k_stride, first_key, head.seq_k, t.rows);
    transpose<D>(t.rows, t.keys);
    multiply_keys<D>(t);
    const bool whole = first_key + kTile <= (head.causal ? std::min(first_query, head.seq_k) : head.seq_k);
    if (!whole) mask<D>(head, first_query, first_key, t);
    softmax<kExp2>(head.sigma, t);
    load<T, D>(head.v, head.v_stride, first_key, head.seq_k, t.rows);
    multiply_values<D>(t);
  }
  store<T, D>(head, first_query, t);
}

template <class T, int D, Exp2 kExp2>
void run(const attn_problem& p, const attn_tensors& tensors) {
  Tiles<D> tiles;
  const auto at = [](const attn_tensor& tensor, int64_t b, int64_t h) {
    return static_cast<uint16_t*>(tensor.data) + b * tensor.stride[0] + h * tensor.stride[1];
  };
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t h = 0; h < p.heads_q; ++h) {
      const attn_tensor& lse = tensors.lse;
      Head head = {at(tensors.q, b, h),
                   at(tensors.k, b, h),
                   at(tensors.v, b, h),
                   at(tensors.o, b, h),
                   nullptr,
                   tensors.q.stride[2],
                   tensors.k.stride[2],
                   tensors.v.stride[2],
                   tensors.o.stride[2],
                   lse.stride[2],
                   p.seq_q,
                   p.seq_k,
                   p.causal != 0,
                   p.scale * kLog2e};
      if (lse.data) head.lse = static_cast<float*>(lse.data) + b * lse.stride[0] + h * lse.stride[1];
      for (int64_t first = 0; first < p.seq_q; first += kTile) attend<T, D, kExp2>(head, first, tiles);
    }
  }
}

}  // namespace

bool plain_attention_does(const attn_problem& p, const attn_tensors& t) {
  const bool dense = t.q.stride[3] == 1 && t.k.stride[3] == 1 && t.v.stride[3] == 1 && t.o.stride[3] == 1;
  const bool plain = p.heads_q == p.heads_kv && p.softcap == 0 && p.window_left < 0 && p.window_right < 0 &&
                     !p.has_key_lengths && p.bias_dtype == ATTN_NONE && !p.has_mask && p.scale > 0;
  return dense && plain && (p.dim_qk == 64 || p.dim_qk == 128) && p.dim_v == p.dim_qk &&
         (!p.causal || p.align == ATTN_TOP_LEFT);
}

void plain_attention(const attn_problem& p, const attn_tensors& tensors, Exp2 exp2) {
  using Run = void (*)(const attn_problem&, const attn_tensors&);
  constexpr auto kLibrary = Exp2::kLibrary, kInline = Exp2::kInline;
  // By format, dimension and exp2.
  constexpr Run kRuns[2][2][2] = {
      {{run<F16, 64, kLibrary>, run<F16, 64, kInline>},  //
       {run<F16, 128, kLibrary>, run<F16, 128, kInline>}},
      {{run<BF16, 64, kLibrary>, run<BF16, 64, kInline>}, {run<BF16, 128, kLibrary>, run<BF16, 128, kInline>}}};
  kRuns[p.dtype == ATTN_BF16][p.dim_qk == 128][exp2 == kInline](p, tensors);
}

}  // namespace attnfuzz
