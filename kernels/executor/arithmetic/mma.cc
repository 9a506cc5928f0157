#include "kernels/executor/arithmetic/mma.h"

#include <string.h>

#include "kernels/executor/arithmetic/arithmetic.h"
#include "kernels/executor/arithmetic/mma_columns.h"

namespace simt {
namespace {

typedef double Double4 __attribute__((vector_size(32)));
typedef uint64_t Long4 __attribute__((vector_size(32)));

Float8 load8(const float* from) {
  Float8 value;
  memcpy(&value, from, sizeof value);
  return value;
}

// Accumulators of four columns, with rows 0-7 and 8-15 in a vector each, in the layout of the lanes: [lane
// t][register].
using Accumulators = Float8[2][4];

void load(float* const (&c)[32], int t, Accumulators& sum) {
  for (int i = 0; i < 2; ++i) {
    Float4 lanes[8];
    for (int g = 0; g < 8; ++g) memcpy(&lanes[g], c[4 * g + t + i], sizeof lanes[g]);
    transpose_8x4(lanes, sum[i]);
  }
}

void store(float* const (&c)[32], int t, const Accumulators& sum) {
  for (int i = 0; i < 2; ++i) {
    Float4 lanes[8];
    transpose_4x8(sum[i], lanes);
    for (int g = 0; g < 8; ++g) memcpy(c[4 * g + t + i], &lanes[g], sizeof lanes[g]);
  }
}

void multiply_nearest(Accumulators& sum, const float* a, const float* b, int b_k, int b_n, int k) {
  // Named variables stay in registers; an array of vectors would be kept in memory.
  Float8 s00 = sum[0][0], s01 = sum[0][1], s02 = sum[0][2], s03 = sum[0][3];
  Float8 s10 = sum[1][0], s11 = sum[1][1], s12 = sum[1][2], s13 = sum[1][3];
  for (int i = 0; i < k; ++i, a += 16, b += b_k) {
    const Float8 low = load8(a), high = load8(a + 8);
    const Float8 b0 = b[0] - Float8{}, b1 = b[b_n] - Float8{}, b2 = b[2 * b_n] - Float8{},
                 b3 = b[3 * b_n] - Float8{};
    s00 = __builtin_elementwise_fma(low, b0, s00);
    s02 = __builtin_elementwise_fma(high, b0, s02);
    s01 = __builtin_elementwise_fma(low, b1, s01);
    s03 = __builtin_elementwise_fma(high, b1, s03);
    s10 = __builtin_elementwise_fma(low, b2, s10);
    s12 = __builtin_elementwise_fma(high, b2, s12);
    s11 = __builtin_elementwise_fma(low, b3, s11);
    s13 = __builtin_elementwise_fma(high, b3, s13);
  }
  sum[0][0] = s00, sum[0][1] = s01, sum[0][2] = s02, sum[0][3] = s03;
  sum[1][0] = s10, sum[1][1] = s11, sum[1][2] = s12, sum[1][3] = s13;
}

// Truncates to the 24 bits of fp32. A NaN stays a NaN, because its first fraction bit is kept.
Float4 truncate(Double4 value) {
  Long4 bits;
  memcpy(&bits, &value, sizeof bits);
  bits &= ~((uint64_t{1} << 29) - 1);
  memcpy(&value, &bits, sizeof value);
  return __builtin_convertvector(value, Float4);
}

Double4 widen_low(Float8 value) {
  return __builtin_convertvector(__builtin_shufflevector(value, value, 0, 1, 2, 3), Double4);
}

Double4 widen_high(Float8 value) {
  return __builtin_convertvector(__builtin_shufflevector(value, value, 4, 5, 6, 7), Double4);
}

Float8 narrow(Double4 low, Double4 high) {
  return __builtin_shufflevector(truncate(low), truncate(high), 0, 1, 2, 3, 4, 5, 6, 7);
}

void multiply_truncating(Accumulators& sum, const float* a, const float* b, int b_k, int b_n, int k) {
  for (int block = 0; block < k; block += 16, a += 16 * 16, b += 16 * b_k) {
    Double4 rows[16][4];
    for (int i = 0; i < 16; ++i) {
      const Float8 low = load8(a + 16 * i), high = load8(a + 16 * i + 8);
      rows[i][0] = widen_low(low), rows[i][1] = widen_high(low);
      rows[i][2] = widen_low(high), rows[i][3] = widen_high(high);
    }
    for (int t = 0; t < 2; ++t) {
      Float8(&lane)[4] = sum[t];
      Double4 s00 = widen_low(lane[0]), s01 = widen_high(lane[0]), s02 = widen_low(lane[2]);
      Double4 s03 = widen_high(lane[2]), s10 = widen_low(lane[1]), s11 = widen_high(lane[1]);
      Double4 s12 = widen_low(lane[3]), s13 = widen_high(lane[3]);
      for (int i = 0; i < 16; ++i) {
        const float* factors = b + i * b_k + 2 * t * b_n;
        const Double4 b0 = static_cast<double>(factors[0]) - Double4{};
        const Double4 b1 = static_cast<double>(factors[b_n]) - Double4{};
        s00 = __builtin_elementwise_fma(rows[i][0], b0, s00);
        s01 = __builtin_elementwise_fma(rows[i][1], b0, s01);
        s02 = __builtin_elementwise_fma(rows[i][2], b0, s02);
        s03 = __builtin_elementwise_fma(rows[i][3], b0, s03);
        s10 = __builtin_elementwise_fma(rows[i][0], b1, s10);
        s11 = __builtin_elementwise_fma(rows[i][1], b1, s11);
        s12 = __builtin_elementwise_fma(rows[i][2], b1, s12);
        s13 = __builtin_elementwise_fma(rows[i][3], b1, s13);
      }
      lane[0] = narrow(s00, s01), lane[2] = narrow(s02, s03);
      lane[1] = narrow(s10, s11), lane[3] = narrow(s12, s13);
    }
  }
}

// The exponents of all factors, computed once because each factor is used in many sums.
class Exponents {
 public:
  static constexpr int kMost = 256;  // of k

  Exponents(const float* a, const float* b, int b_k, int b_n, int k, int least)
      : step_(b_k == 1 ? 1 : 8), across_(b_k == 1 ? k : 1) {
    for (int i = 0; i < k; ++i) a_[i] = device::exponents(a + 16 * i, least);
    for (int i = 0; i < k / 2; ++i) {
      // 16 values of k of one column, or eight columns at two values of k.
      const float* at = b_k == 1 ? b + i % 8 * b_n + i / 8 * 16 : b + 2 * i * b_k;
      const device::Short16 e = device::exponents(load8(at), load8(at + (b_k == 1 ? 8 : b_k)), least);
      memcpy(b_ + (b_k == 1 ? i % 8 * k + i / 8 * 16 : 16 * i), &e, sizeof e);
    }
  }

  device::Factors factors(const float* a, const float* b, int b_k, int b_n, int k, int n, int least) const {
    return {least, a + 16 * k, a_ + k, b + k * b_k + n * b_n, b_k, b_ + k * step_ + n * across_, step_};
  }

 private:
  int step_, across_;
  device::Short16 a_[kMost];
  int16_t b_[8 * kMost];
};

void multiply_as(const device::Products& p, float* const (&c)[32], const float* a, const float* b, int b_k,
                 int b_n, int k, int least) {
  for (int done = 0; done < k; done += Exponents::kMost) {
    const int some = k - done < Exponents::kMost ? k - done : Exponents::kMost;
    const float *const some_a = a + 16 * done, *const some_b = b + b_k * done;
    const Exponents exponents(some_a, some_b, b_k, b_n, some, least);
    for (int t = 0; t < 4; t += 2) {
      Accumulators sum;
      load(c, t, sum);
      for (int i = 0; i < some; i += p.block) {
        for (int n = 0; n < 4; ++n) {
          device::add_column(p, exponents.factors(some_a, some_b, b_k, b_n, i, 2 * t + n, least),
                             sum[n / 2][n % 2], sum[n / 2][2 + n % 2]);
        }
      }
      store(c, t, sum);
    }
  }
}

template <class Rounding>
inline __attribute__((always_inline)) void by_stride(const float* b, int b_k, int b_n, Rounding rounding) {
  // In each call one of the two strides is a compile-time constant.
  if (b_k == 1) {
    rounding(b, 1, b_n);
  } else {
    rounding(b, b_k, 1);
  }
}

}  // namespace

void mma_columns(float* const (&c)[32], const float* a, const float* b, int b_k, int b_n, int k, Format format,
                 bool truncates) {
  if (arithmetic) {
    const device::Products& p = arithmetic->products;
    return multiply_as(p, c, a, b, b_k, b_n, k, format == Format::kF16 ? p.least_f16 : p.least_bf16);
  }
  for (int t = 0; t < 4; t += 2) {
    Accumulators sum;
    load(c, t, sum);
    by_stride(b + 2 * t * b_n, b_k, b_n,
              [&](const float* columns, int step, int across) __attribute__((always_inline)) {
                if (truncates) {
                  multiply_truncating(sum, a, columns, step, across, k);
                } else {
                  multiply_nearest(sum, a, columns, step, across, k);
                }
              });
    store(c, t, sum);
  }
}

}  // namespace simt
