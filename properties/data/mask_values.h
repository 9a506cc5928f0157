// The visible pairs of a pattern and the values of a bias, one at a time, on a host and on a device. The
// rows of fills.h are computed from these.
//
//   pattern_shows({.kind = PatternKind::kDocuments, .parameter = 5}, b, h, i, j, seq_q, seq_k)
//   bias_bits(bias, b, h, i, j, seq_q, seq_k)      // in the bias's dtype
#pragma once

#include "properties/case/case.h"
#include "properties/data/fill_values.h"

namespace attnfuzz {
namespace mask_values {

// Separates the hashes of patterns and biases from those of values with the same seed.
inline constexpr uint64_t kPatternSalt = 0x70617474;
inline constexpr uint64_t kBiasSalt = 0x62696173;

// As FillKind::kGaussian: the number of set bits among 64, plus a uniform number below one bit, with
// deviation 1.
ATTN_BOTH inline float gaussian(uint64_t hash) {
  return static_cast<float>(fill_values::random_integer<FillKind::kGaussian>(hash, false)) * exp2f_exact(-18);
}

ATTN_BOTH inline float lowest(int32_t dtype) {
  if (dtype == ATTN_F32) return std::bit_cast<float>(uint32_t{0xff7fffff});
  return -static_cast<float>(fill_values::number_of_bits(dtype, format16(dtype).largest));
}

// The finite value at (b,h,i,j) after broadcasting, before rounding to the bias's dtype.
ATTN_BOTH inline float finite_bias(const Bias& bias, int64_t b, int64_t h, int64_t i, int64_t j) {
  const uint64_t seed = bias.seed ^ kBiasSalt;
  switch (bias.kind) {
    case BiasKind::kZero:
    case BiasKind::kMasking:
      return 0;
    case BiasKind::kRowConstant:
      return gaussian(mix(seed, b, h, i, 0));
    case BiasKind::kGaussian:
      return gaussian(mix(seed, b, h, i, j));
    case BiasKind::kWide: {
      const auto choice = static_cast<int>(mix(seed, b, h, i, ~uint64_t{0}) & 3);
      return gaussian(mix(seed, b, h, i, j)) * exp2f_exact(1 + 2 * choice);
    }
    case BiasKind::kAlibi: {
      const float distance = static_cast<float>(i > j ? i - j : j - i);
      return -distance * exp2f_exact(-1 - static_cast<int>(h % 8));
    }
    case BiasKind::kVeryNegative: {
      const uint64_t choice = mix(seed, b, h, i, 0) % 3;
      return choice == 0 ? -1e4f : choice == 1 ? -5e4f : lowest(bias.dtype);
    }
    case BiasKind::kFarBelow: {
      const uint64_t choice = mix(seed, b, h, i, 0) % 3;
      return choice == 0 ? -3e4f : choice == 1 ? -exp2f_exact(70) : lowest(bias.dtype);
    }
  }
  return 0;
}

// The number of nodes of a draft tree. Each group of so many positions is one tree, so that a walk to a root is
// short.
inline constexpr int64_t kTreeNodes = 64;

// True if node `above` is an ancestor of `node`, or `node` itself. A parent lies at most `reach` nodes before
// its child, and never after it; all heads of a batch entry have one tree.
ATTN_BOTH inline bool descends(uint64_t seed, int64_t b, int64_t node, int64_t above, int64_t reach) {
  if (above > node || above / kTreeNodes != node / kTreeNodes) return false;
  while (node > above) {
    const int64_t before = node % kTreeNodes, choices = before < reach ? before : reach;
    node -= 1 + static_cast<int64_t>(mix(seed, b, 0, node, 0) % static_cast<uint64_t>(choices));
  }
  return node == above;
}

}  // namespace mask_values

// True if `pattern` lets query i see key j.
ATTN_BOTH inline bool pattern_shows(const Pattern& pattern, int64_t b, int64_t h, int64_t i, int64_t j,
                                    int64_t seq_q, int64_t seq_k) {
  const int64_t n = pattern.parameter;
  const uint64_t seed = pattern.seed ^ mask_values::kPatternSalt;
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
    case PatternKind::kTree: {
      const int64_t prefix = seq_k > seq_q ? seq_k - seq_q : 0;
      return j < prefix || mask_values::descends(seed, b, i, j - prefix, n);
    }
    case PatternKind::kSinkWindow: {
      const int64_t own = i + seq_k - seq_q;
      return j <= own && (j > own - n || static_cast<uint64_t>(j) < pattern.seed);
    }
    case PatternKind::kBlockwise:
      return (mix(seed, b, h, i / block_queries(pattern), j / block_keys(pattern)) & 1) == 0;
  }
  return true;
}

// The value of a bias in the bits of its dtype. The caller passes index 0 for broadcast dimensions.
ATTN_BOTH inline uint32_t bias_bits(const Bias& bias, int64_t b, int64_t h, int64_t i, int64_t j, int64_t seq_q,
                                    int64_t seq_k) {
  const bool fp32 = bias.dtype == ATTN_F32;
  const auto bits = [&](float value) {
    return fp32 ? std::bit_cast<uint32_t>(value) : uint32_t{to_bits(bias.dtype, value)};
  };
  if (pattern_shows(bias.finite, b, h, i, j, seq_q, seq_k))
    return bits(mask_values::finite_bias(bias, b, h, i, j));
  if (bias.kind == BiasKind::kMasking) return bits(mask_values::lowest(bias.dtype));
  return fp32 ? 0xff800000 : format16(bias.dtype).infinity | 0x8000u;
}

}  // namespace attnfuzz
