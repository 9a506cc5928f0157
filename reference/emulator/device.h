// Single steps of a device's arithmetic: its special functions, one block of products of its tensor core,
// and the rounding of fp32 to fewer bits.
//
//   const Device device = device_of(ATTN_ARITHMETIC_H200);
//   c = device.add_products(format, a, b, 1, c);   // 16 of each
//   p = round16(ATTN_F16, device.ex2(x));
//
// The functions and the block are the model in kernels/executor/arithmetic/device/, number by number.
// Nothing here uses the executor built on that model, so that each side reveals mistakes of the
// other.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/attention.h"
#include "kernels/executor/arithmetic/device/models.h"

namespace attnfuzz::emulator {

inline constexpr float kLog2e = 1.44269504088896340736f, kLn2 = 0.69314718055994530942f;

struct Device : simt::device::Model {
  float ex2(float x) const { return of(simt::device::ex2, x); }
  float lg2(float x) const { return of(simt::device::lg2, x); }
  float rcp(float x) const { return of(simt::device::rcp, x); }
  // Computes tanh by two ex2 and rcp, as ATTN_TANH_IN_TWO defines it.
  float tanh(float x) const;

  // c + sum of a[k] b[k * step] over the products of one block, in fp32 bits. `dtype`: of the factors.
  uint32_t add_products(int32_t dtype, const uint32_t* a, const uint32_t* b, int step, uint32_t c) const {
    const int least = dtype == ATTN_F16 ? products.least_f16 : products.least_bf16;
    return simt::device::add_block(products, least, a, b, step, c, products.block);
  }

 private:
  float of(uint32_t (*function)(const simt::device::Functions&, uint32_t), float x) const {
    return std::bit_cast<float>(function(functions, std::bit_cast<uint32_t>(x)));
  }
};

// The device of an arithmetic that has a model.
inline Device device_of(int32_t arithmetic) { return {*simt::device::model_of(arithmetic)}; }

// The nearest number of a 16-bit format, ties to even.
float round16(int32_t dtype, float x);

// The larger number; if one is NaN, the other.
inline float larger(float a, float b) { return a != a || b > a ? b : a; }

}  // namespace attnfuzz::emulator
