// products.h on vectors: 16 rows of one column at a time. If the exponents are in an ordinary range, each term
// is exact as an fp32 product scaled by a power of two, and its conversion to an integer truncates it.
// add_block() computes all other cases, infinities and NaNs included.
#pragma once

#include <string.h>

#include "kernels/executor/arithmetic/device/products.h"
#include "kernels/executor/arithmetic/mma.h"

namespace simt::device {

typedef int16_t Short16 __attribute__((vector_size(32)));
typedef int32_t Int8 __attribute__((vector_size(32)));
typedef int32_t Int16 __attribute__((vector_size(64)));

// Exponents that stand for zero and for infinities and NaNs. They are so far from all others that a sum of two
// exponents still shows them.
inline constexpr int kOfZero = -10000, kOfNotFinite = 12000;

// e(x) of eight numbers.
__attribute__((always_inline)) inline Int8 exponents(Float8 x, int least) {
  const Int8 bits = __builtin_bit_cast(Int8, x) & 0x7FFFFFFF;
  const Int8 field = (bits >> 23) - 127;
  Int8 e = __builtin_elementwise_max(field, Int8{} + least);
  e = bits == 0 ? Int8{} + kOfZero : e;
  return bits >= 0x7F800000 ? Int8{} + kOfNotFinite : e;
}
__attribute__((always_inline)) inline Short16 exponents(Float8 low, Float8 high, int least) {
  const Int8 e[2] = {exponents(low, least), exponents(high, least)};
  return __builtin_convertvector(__builtin_bit_cast(Int16, e), Short16);
}
// The exponents of 16 adjacent numbers.
inline Short16 exponents(const float* x, int least) {
  Float8 halves[2];
  memcpy(halves, x, sizeof halves);
  return exponents(halves[0], halves[1], least);
}

// A block's factors: a as [k][16] with its exponents by k, and b with its exponents by k, each with its step.
struct Factors {
  int least;
  const float* a;
  const Short16* a_exponents;
  const float* b;
  int b_step;
  const int16_t* b_exponents;
  int b_exponents_step;
};

// Adds a block to eight rows from `row` on. `top` has the rows' exponents E.
inline Float8 add_eight(const Products& p, const Factors& f, int row, Float8 c, Int8 top) {
  // Beyond these, the scale, a sum, or a product that does not truncate to 0 would not be a normal number.
  constexpr int kLowest = -100, kHighest = 126;
  const Int8 nothing = top <= kOfZero / 2;
  top = nothing ? Int8{} : top;
  const Int8 ordinary = (top >= kLowest) & (top <= kHighest);
  if (__builtin_reduce_and(ordinary) == 0) {
    for (int i = 0; i < 8; ++i) {
      uint32_t a[16], b[16];
      for (int k = 0; k < p.block; ++k) {
        a[k] = __builtin_bit_cast(uint32_t, f.a[16 * k + row + i]);
        b[k] = __builtin_bit_cast(uint32_t, f.b[k * f.b_step]);
      }
      const float start = c[i];  // a copy, because clang's bit cast of a vector element takes element 0
      c[i] = __builtin_bit_cast(float,
                                add_block(p, f.least, a, b, 1, __builtin_bit_cast(uint32_t, start), p.block));
    }
    return c;
  }
  const Float8 scale = __builtin_bit_cast(Float8, (p.fraction + 127 - top) << 23);
  // Each of the two sums stays below 2^31.
  Int8 sums[2] = {__builtin_convertvector(c * scale, Int8), Int8{}};
  for (int half = 0; half < 2; ++half) {
    for (int k = half * p.block / 2; k < (half + 1) * p.block / 2; ++k) {
      Float8 a;
      memcpy(&a, f.a + 16 * k + row, sizeof a);
      sums[half] += __builtin_convertvector(a * f.b[k * f.b_step] * scale, Int8);
    }
  }
  Float4 parts[2];
  for (int half = 0; half < 2; ++half) {
    typedef int32_t Int4 __attribute__((vector_size(16)));
    typedef double Double4 __attribute__((vector_size(32)));
    typedef uint64_t Long4 __attribute__((vector_size(32)));
    Int4 low, high;
    memcpy(&low, reinterpret_cast<const char*>(&sums[0]) + 16 * half, sizeof low);
    memcpy(&high, reinterpret_cast<const char*>(&sums[1]) + 16 * half, sizeof high);
    const Double4 exact = __builtin_convertvector(low, Double4) + __builtin_convertvector(high, Double4);
    const Long4 cut = __builtin_bit_cast(Long4, exact) & ~((uint64_t{1} << 29) - 1);
    parts[half] = __builtin_convertvector(__builtin_bit_cast(Double4, cut), Float4);
  }
  return __builtin_shufflevector(parts[0], parts[1], 0, 1, 2, 3, 4, 5, 6, 7) *
         __builtin_bit_cast(Float8, (top + (127 - p.fraction)) << 23);
}

// C += A B for one block: rows 0-7 and 8-15 of one column.
inline void add_column(const Products& p, const Factors& f, Float8& low, Float8& high) {
  Short16 top = exponents(low, high, p.least_c);
  for (int k = 0; k < p.block; ++k)
    top = __builtin_elementwise_max(top, f.a_exponents[k] + f.b_exponents[k * f.b_exponents_step]);
  const Int16 tops = __builtin_convertvector(top, Int16);
  low = add_eight(p, f, 0, low, __builtin_shufflevector(tops, tops, 0, 1, 2, 3, 4, 5, 6, 7));
  high = add_eight(p, f, 8, high, __builtin_shufflevector(tops, tops, 8, 9, 10, 11, 12, 13, 14, 15));
}

}  // namespace simt::device
