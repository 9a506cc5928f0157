#include "reference/calibrate/mma_random.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "reference/calibrate/mma_run.h"

namespace attn {
namespace {

enum Regime { kAlike, kApart, kCancelling, kOneSign, kFalling, kRegimes };

struct Random : attnfuzz::SplitMix64 {
  uint64_t next() { return (*this)(); }
  int below(int n) { return static_cast<int>(SplitMix64::below(n)); }
};

// A random fraction at 2^exponent; with any_sign, negative half the time.
uint16_t value(Format16 format, int exponent, bool any_sign, Random& random) {
  const uint64_t bits = random.next();
  const int biased = std::clamp(exponent + format.bias(), 1, 2 * format.bias());
  const uint16_t fraction = static_cast<uint16_t>(bits & ((1u << format.fraction()) - 1));
  return static_cast<uint16_t>(biased << format.fraction() | fraction | (any_sign && bits >> 63 ? 0x8000 : 0));
}

void add_mma(Format16 format, Regime regime, MmaBatch& batch, Random& random) {
  const int reach = format.bf16 ? 20 : 7;
  const bool any_sign = regime != kOneSign;
  const auto exponent = [&](int k) {
    switch (regime) {
      case kApart:
        return random.below(2 * reach) - reach;
      case kFalling:
        return -k / 2;
      default:
        return random.below(2);
    }
  };
  for (int row = 0; row < 16; ++row) {
    for (int k = 0; k < 16; ++k) batch.a.push_back(value(format, exponent(k), any_sign, random));
  }
  for (int column = 0; column < 8; ++column) {
    for (int k = 0; k < 16; ++k) batch.b.push_back(value(format, exponent(k), any_sign, random));
  }
  if (regime == kCancelling) {
    // Product k + 8 cancels product k, except for the last bits of one factor.
    uint16_t *a = batch.a.data() + batch.a.size() - 256, *b = batch.b.data() + batch.b.size() - 128;
    for (int row = 0; row < 16; ++row) {
      for (int k = 0; k < 8; ++k)
        a[row * 16 + k + 8] = (a[row * 16 + k] ^ 0x8000) ^ static_cast<uint16_t>(random.below(4));
    }
    for (int column = 0; column < 8; ++column) std::copy_n(b + column * 16, 8, b + column * 16 + 8);
  }
  for (int i = 0; i < 128; ++i) {
    const float fraction = 1 + static_cast<float>(random.next() >> 41) * 0x1p-23f;
    const float size = std::ldexp(fraction, regime == kCancelling ? -8 : 2 * exponent(0));
    batch.c.push_back(any_sign && random.next() >> 63 ? -size : size);
  }
}

}  // namespace

void compare_random(Format16 format, const attn_env& env, int count, MmaFindings& findings) {
  Random random{20};
  MmaBatch batch;
  for (int n = 0; n < count; ++n) add_mma(format, static_cast<Regime>(n % kRegimes), batch, random);
  const std::vector<float> got = run_mma(batch, format.bf16, env);

  const double allowed = (16 + 2.0 * 16 / findings.charged_block()) * findings.unit() * 0x1p-24;
  double bias = 0;
  uint64_t of_one_sign = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const size_t n = i / 128, row = i % 128 / 8, column = i % 8;
    double exact = batch.c[i], sum = std::fabs(exact), largest = sum;
    for (size_t k = 0; k < 16; ++k) {
      const double product =
          format.decode(batch.a[n * 256 + row * 16 + k]) * format.decode(batch.b[n * 128 + column * 16 + k]);
      exact += product;
      sum += std::fabs(product);
      largest = std::max(largest, std::fabs(product));
    }
    const double error = got[i] - exact;
    findings.worst = std::max(findings.worst, std::fabs(error) / largest * 0x1p24);
    // Written so that a NaN counts as the worst.
    const double ratio = std::fabs(error) / (allowed * sum);
    if (!(ratio <= findings.worst_ratio)) findings.worst_ratio = std::isnan(ratio) ? INFINITY : ratio;
    if (n % kRegimes == kOneSign) bias += error / exact, ++of_one_sign;
  }
  findings.bias = of_one_sign > 0 ? bias / static_cast<double>(of_one_sign) * 0x1p24 : 0;
  findings.products = got.size();
}

}  // namespace attn
