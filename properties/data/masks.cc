// Patterns and biases: the fills.h functions of (query, key) pairs.
#include <bit>
#include <cmath>
#include <limits>

#include "properties/data/bits16.h"
#include "properties/data/fills.h"

namespace attnfuzz {
namespace {

// Keeps the hashes of patterns and biases apart from those of values that
// happen to have the same seed.
constexpr uint64_t kPatternSalt = 0x70617474;
constexpr uint64_t kBiasSalt = 0x62696173;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float rounded(int32_t dtype, float value) {
  return dtype == ATTN_F32 ? value : to_float(dtype, from_float(dtype, value));
}

// As fills.cc has it: 64 coins and a uniform step, deviation 1.
float gaussian(uint64_t hash) {
  const int32_t step = static_cast<int32_t>((hash * 0x9e3779b97f4a7c15) >> 48) - 32768;
  return static_cast<float>((std::popcount(hash) - 32) * 65536 + step) * exp2f_exact(-18);
}

float lowest(int32_t dtype) {
  if (dtype == ATTN_F32) return std::numeric_limits<float>::lowest();
  return -to_float(dtype, format16(dtype).largest);
}

// The finite value at (b,h,i,j), broadcasting done.
float finite_bias(const Bias& bias, int64_t b, int64_t h, int64_t i, int64_t j) {
  const uint64_t seed = bias.seed ^ kBiasSalt;
  switch (bias.kind) {
    case BiasKind::kZero:
    case BiasKind::kMasking:
      return 0;
    case BiasKind::kRowConstant:
      return rounded(bias.dtype, gaussian(mix(seed, b, h, i, 0)));
    case BiasKind::kGaussian:
      return rounded(bias.dtype, gaussian(mix(seed, b, h, i, j)));
    case BiasKind::kAlibi: {
      const float distance = static_cast<float>(i > j ? i - j : j - i);
      return rounded(bias.dtype, -distance * exp2f_exact(-1 - static_cast<int>(h % 8)));
    }
    case BiasKind::kVeryNegative: {
      const float choice[3] = {-1e4f, -5e4f, lowest(bias.dtype)};
      return rounded(bias.dtype, choice[mix(seed, b, h, i, 0) % 3]);
    }
  }
  return 0;
}

}  // namespace

bool visible(const Pattern& pattern, int64_t b, int64_t h, int64_t i, int64_t j, int64_t, int64_t seq_k) {
  const int64_t n = pattern.parameter;
  const uint64_t seed = pattern.seed ^ kPatternSalt;
  switch (pattern.kind) {
    case PatternKind::kAll:
      return true;
    case PatternKind::kNothing:
      return false;
    case PatternKind::kFirstKey:
      return j == 0;
    case PatternKind::kLastKey:
      return j == seq_k - 1;
    case PatternKind::kPrefix:
      return j < n || j <= i;
    case PatternKind::kDocuments:
      return i / n == j / n;
    case PatternKind::kDeadRows:
      return i % n != n - 1;
    case PatternKind::kDeadTiles:
      return (mix(seed, b, h, i, j / n) & 1) == 0;
    case PatternKind::kStripes:
      return j % n != 0;
    case PatternKind::kRandom:
      return static_cast<int64_t>(mix(seed, b, h, i, j) & 15) >= n;
  }
  return true;
}

void visible_row(const Pattern& pattern, int64_t b, int64_t h, int64_t i, int64_t seq_q, int64_t seq_k,
                 uint8_t* out) {
  for (int64_t j = 0; j < seq_k; ++j) out[j] = visible(pattern, b, h, i, j, seq_q, seq_k);
}

bool visible(const Mask& mask, int64_t b, int64_t h, int64_t i, int64_t j, int64_t seq_q, int64_t seq_k) {
  const Broadcast& all = mask.broadcast;
  return visible(mask.visible, all.batch ? 0 : b, all.head ? 0 : h, all.query ? 0 : i, j, seq_q, seq_k);
}

float bias_value(const Bias& bias, int64_t b, int64_t h, int64_t i, int64_t j, int64_t seq_q, int64_t seq_k) {
  const Broadcast& all = bias.broadcast;
  if (all.batch) b = 0;
  if (all.head) h = 0;
  if (all.query) i = 0;
  if (visible(bias.finite, b, h, i, j, seq_q, seq_k)) return finite_bias(bias, b, h, i, j);
  return bias.kind == BiasKind::kMasking ? lowest(bias.dtype) : -kInfinity;
}

void bias_row(const Bias& bias, int64_t b, int64_t h, int64_t i, int64_t seq_q, int64_t seq_k, float* out) {
  for (int64_t j = 0; j < seq_k; ++j) out[j] = bias_value(bias, b, h, i, j, seq_q, seq_k);
}

}  // namespace attnfuzz
