// CUDA's mathematical device functions. Fast functions (__expf, ...) call the platform's accurate functions; on
// a GPU their errors are larger.
#pragma once

#include <math.h>

#include <bit>
#include <limits>
#include <type_traits>

#include "kernels/executor/arithmetic/libm.h"
#include "kernels/executor/cuda_words.h"

inline float __expf(float x) { return expf(x); }
inline float __exp10f(float x) { return powf(10.0f, x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fmaf_rn(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }

inline float rsqrt(float x) { return rsqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float rcbrtf(float x) { return 1.0f / cbrtf(x); }
inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __frsqrt_rn(float x) { return rsqrtf(x); }
inline float __log10f(float x) { return log10f(x); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __tanf(float x) { return tanf(x); }
#define CUDART_INF_F (__builtin_inff())
#define CUDART_NAN_F (__builtin_nanf(""))
#define CUDART_MAX_NORMAL_F (0x1.fffffep127f)
#define CUDART_L2E_F 1.442695041F
#define CUDART_LN2_F 0.693147181F
#define CUDART_PI_F 3.141592654F
#define CUDART_INF (__builtin_inf())

namespace simt {

// cvt.rna.tf32.f32: to 10 bits of mantissa, ties away from 0. Infinities stay, and each NaN becomes the same
// one. There is no branch, because MemorySanitizer reports branches on undefined values.
inline unsigned round_to_tf32(unsigned bits) {
  const unsigned is_nan = -static_cast<unsigned>((bits & 0x7FFFFFFFu) > 0x7F800000u);
  return (((bits + 0x1000u) & 0xFFFFE000u) & ~is_nan) | (0x7FFFFFFFu & is_nan);
}

// A tensor core ignores the low 13 bits of a factor in TF32, so it truncates a number that was not rounded.
// This returns the number that it reads.
inline float as_tf32(float x) {
  const unsigned bits = __builtin_bit_cast(unsigned, x);
  const unsigned is_nan = -static_cast<unsigned>((bits & 0x7FFFFFFFu) > 0x7F800000u);
  return __builtin_bit_cast(float, (bits & 0xFFFFE000u) | (0x400000u & is_nan));
}

// Converts a whole number to 32 bits as a GPU does: what I cannot hold becomes the nearest number that it can,
// and NaN 0. A cast in C++ is undefined there. There is no branch, as in round_to_tf32().
template <class I>
inline I to_integer(float whole) {
  constexpr double kLeast = std::numeric_limits<I>::min(), kMost = std::numeric_limits<I>::max();
  const auto held = static_cast<long long>(fmin(fmax(static_cast<double>(whole), kLeast), kMost));
  return static_cast<I>(held & -static_cast<long long>(whole == whole));
}

}  // namespace simt

inline int __float2int_rn(float x) { return simt::to_integer<int>(rintf(x)); }
inline int __float2int_rz(float x) { return simt::to_integer<int>(truncf(x)); }
inline int __float2int_rd(float x) { return simt::to_integer<int>(floorf(x)); }
inline int __float2int_ru(float x) { return simt::to_integer<int>(ceilf(x)); }
inline unsigned __float2uint_rn(float x) { return simt::to_integer<unsigned>(rintf(x)); }
inline unsigned __float2uint_rz(float x) { return simt::to_integer<unsigned>(truncf(x)); }
inline unsigned __float2uint_rd(float x) { return simt::to_integer<unsigned>(floorf(x)); }
inline unsigned __float2uint_ru(float x) { return simt::to_integer<unsigned>(ceilf(x)); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
inline float __double2float_rn(double x) { return static_cast<float>(x); }
inline double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }
inline long long __double_as_longlong(double x) { return __builtin_bit_cast(long long, x); }

inline int __mulhi(int a, int b) { return static_cast<int>(static_cast<long long>(a) * b >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32);
}
inline int __mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
inline unsigned __umul24(unsigned a, unsigned b) { return (a & 0xFFFFFFu) * (b & 0xFFFFFFu); }
// The sums of four products of bytes, signed or not.
inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 32; i += 8) c += static_cast<signed char>(a >> i) * static_cast<signed char>(b >> i);
  return c;
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  for (int i = 0; i < 32; i += 8) c += (a >> i & 0xFF) * (b >> i & 0xFF);
  return c;
}
// Byte i of the result is the byte of {b, a} that nibble i of `selector` names, or, with 8 added, its sign.
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const unsigned long long both = static_cast<unsigned long long>(b) << 32 | a;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned nibble = selector >> 4 * i & 0xF;
    unsigned byte = static_cast<unsigned>(both >> 8 * (nibble & 7)) & 0xFF;
    if (nibble & 8) byte = byte & 0x80 ? 0xFF : 0;
    result |= byte << 8 * i;
  }
  return result;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
  return static_cast<unsigned>(((static_cast<unsigned long long>(high) << 32 | low) << (by & 31)) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
  return static_cast<unsigned>((static_cast<unsigned long long>(high) << 32 | low) >> (by & 31));
}

inline int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
inline unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
inline float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
inline float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }

inline int __popc(unsigned x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) {
  x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
  x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
  x = (x >> 4 & 0x0F0F0F0Fu) | (x & 0x0F0F0F0Fu) << 4;
  return __builtin_bswap32(x);
}

inline int min(int a, int b) { return b < a ? b : a; }
inline int max(int a, int b) { return a < b ? b : a; }
inline unsigned min(unsigned a, unsigned b) { return b < a ? b : a; }
inline unsigned max(unsigned a, unsigned b) { return a < b ? b : a; }
inline long long min(long long a, long long b) { return b < a ? b : a; }
inline long long max(long long a, long long b) { return a < b ? b : a; }
inline unsigned long long min(unsigned long long a, unsigned long long b) { return b < a ? b : a; }
inline unsigned long long max(unsigned long long a, unsigned long long b) { return a < b ? b : a; }
inline long min(long a, long b) { return b < a ? b : a; }
inline long max(long a, long b) { return a < b ? b : a; }
inline unsigned long min(unsigned long a, unsigned long b) { return b < a ? b : a; }
inline unsigned long max(unsigned long a, unsigned long b) { return a < b ? b : a; }
// CUDA's overloads for a signed and an unsigned argument.
template <class A, class B>
  requires(std::is_integral_v<A> && std::is_integral_v<B> && !std::is_same_v<A, B>)
inline std::common_type_t<A, B> min(A a, B b) {
  const std::common_type_t<A, B> x = a, y = b;
  return y < x ? y : x;
}
template <class A, class B>
  requires(std::is_integral_v<A> && std::is_integral_v<B> && !std::is_same_v<A, B>)
inline std::common_type_t<A, B> max(A a, B b) {
  const std::common_type_t<A, B> x = a, y = b;
  return x < y ? y : x;
}
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return ::fmin(a, b); }
inline double max(double a, double b) { return ::fmax(a, b); }

// Loads and stores whose cache hints are ignored here.
#define ATTN_SIMT_LOAD(name)        \
  template <class T>                \
  inline T name(const T* address) { \
    return *address;                \
  }
ATTN_SIMT_LOAD(__ldg)
ATTN_SIMT_LOAD(__ldca)
ATTN_SIMT_LOAD(__ldcg)
ATTN_SIMT_LOAD(__ldcs)
ATTN_SIMT_LOAD(__ldcv)
ATTN_SIMT_LOAD(__ldlu)
#undef ATTN_SIMT_LOAD
#define ATTN_SIMT_STORE(name)                                   \
  template <class T>                                            \
  inline void name(T* address, std::type_identity_t<T> value) { \
    *address = value;                                           \
  }
ATTN_SIMT_STORE(__stwb)
ATTN_SIMT_STORE(__stcg)
ATTN_SIMT_STORE(__stcs)
ATTN_SIMT_STORE(__stwt)
#undef ATTN_SIMT_STORE

// Conversions between generic addresses and addresses of one space, for inline PTX.
inline size_t __cvta_generic_to_shared(const void* pointer, simt::Place here = simt::Place::now()) {
  return simt::shared_offset(pointer, here);
}
inline void* __cvta_shared_to_generic(size_t offset, simt::Place here = simt::Place::now()) {
  return simt::shared_pointer(static_cast<uint32_t>(offset), here);
}
inline size_t __cvta_generic_to_global(const void* pointer) { return reinterpret_cast<size_t>(pointer); }
inline bool __isGlobal(const void*) { return true; }

[[noreturn]] inline void __trap(simt::Place here = simt::Place::now()) {
  simt::fault(ATTN_REPORT_DEVICE, simt::current, here, "__trap()");
}
inline void __brkpt() {}
// The executor does not measure time, so this counts calls.
inline long long clock64() {
  static long long calls = 0;
  return ++calls;
}
