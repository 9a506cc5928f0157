// A small attention problem with its memory and its plan, for tests of the oracle.
//
//   Case c({.seq_q = 5, .seq_k = 9, .causal = true});
//   c.fill(Regime::kGaussian, 1);
//   Reference r = evaluate(c.problem, c.tensors(), c.plan, documented());
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/attention.h"
#include "reference/oracle.h"
#include "tests/reference/random.h"

namespace attnfuzz {

inline constexpr float kInf = std::numeric_limits<float>::infinity(),
                       kNaN = std::numeric_limits<float>::quiet_NaN();

enum class Regime {
  kGaussian,
  kUniform,    // [0, 1): nearly equal weights, V of one sign
  kPeaked,     // Gaussian times 16 in Q and K
  kZeroQuery,  // every row is the mean of the visible V
  kNegative,   // logits near -6e4
  kEqualMax,   // several keys tie for the maximum, V of one sign
  kConstantV,
  kNegativeConstantV,  // logits near -6e4: errors of LSE show, the weights' own do not
  kTiny,               // some numbers are subnormal: in fp16, or below 2^-126 in bf16
  kWide                // exponents spread over many powers of two
};
inline constexpr Regime kRegimes[] = {Regime::kGaussian,  Regime::kUniform,           Regime::kPeaked,
                                      Regime::kZeroQuery, Regime::kNegative,          Regime::kEqualMax,
                                      Regime::kConstantV, Regime::kNegativeConstantV, Regime::kTiny,
                                      Regime::kWide};
const char* name_of(Regime regime);

struct Shape {
  int32_t dtype = ATTN_F16;
  int64_t batch = 1, heads_q = 1, heads_kv = 1, seq_q = 8, seq_k = 8, dim_qk = 16, dim_v = 16;
  bool causal = false;
  int32_t align = ATTN_TOP_LEFT;
  int64_t window_left = -1, window_right = -1;
  float softcap = 0;
  int32_t bias_dtype = ATTN_NONE;
  bool mask = false;
  int64_t tile_q = 16, tile_k = 16, num_splits = 1;
};

struct Case {
  explicit Case(const Shape& shape);

  attn_problem problem{};
  attn_plan plan{};  // fused scale, ex2.approx, 16-bit P divided at the end, fp32 partials, tensor cores
  std::vector<uint16_t> q, k, v;
  std::vector<float> bias;
  std::vector<uint8_t> mask;
  std::vector<int64_t> key_lengths;

  // Dense layouts, as the shape says; bias and mask are (batch, heads_q, seq_q, seq_k).
  attn_tensors tensors();
  void fill(Regime regime, uint64_t seed);
  void use_key_lengths(std::vector<int64_t> lengths);

  void set_q(int64_t b, int64_t h, int64_t i, int64_t t, float value);
  void set_k(int64_t b, int64_t g, int64_t j, int64_t t, float value);
  void set_v(int64_t b, int64_t g, int64_t j, int64_t c, float value);
  Reference reference() { return evaluate(problem, tensors(), plan, documented()); }
};

}  // namespace attnfuzz
