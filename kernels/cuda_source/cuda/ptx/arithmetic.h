// Inline PTX that computes: arithmetic, bits, comparisons and conversions.
#pragma once

#include <math.h>

#include <string_view>

#include "kernels/cuda_source/cuda/ptx/step.h"
#include "kernels/primitives/math.h"
#include "kernels/primitives/types.h"

namespace simt::ptx {

// The comparison of setp by its name: lo, ls, hi and hs are unsigned, and a name that ends in u is true for
// NaN.
template <class T>
constexpr bool compare(std::string_view how, T a, T b) {
  const bool unordered = a != a || b != b;
  if (how == "num") return !unordered;
  if (how == "nan") return unordered;
  if (how.size() == 3 && unordered) return true;
  how = how.substr(0, 2);
  if (how == "eq") return a == b;
  if (how == "ne") return !unordered && a != b;
  if (how == "lt" || how == "lo") return a < b;
  if (how == "le" || how == "ls") return a <= b;
  if (how == "gt" || how == "hi") return a > b;
  return a >= b;  // ge, hs
}

// If one operand is NaN, the result is the other one, unless the instruction says .NaN.
template <class T>
constexpr T larger(bool keeps_nan, T a, T b) {
  if (keeps_nan && (a != a || b != b)) return a != a ? a : b;
  return a != a ? b : b != b ? a : a < b ? b : a;
}
template <class T>
constexpr T smaller(bool keeps_nan, T a, T b) {
  if (keeps_nan && (a != a || b != b)) return a != a ? a : b;
  return a != a ? b : b != b ? a : b < a ? b : a;
}

// Bit (a, b, d) of `table` for each bit of the three words.
inline uint32_t lop3(uint32_t a, uint32_t b, uint32_t d, uint32_t table) {
  uint32_t result = 0;
  for (uint32_t row = 0; row < 8; ++row) {
    if (table >> row & 1) result |= (row & 4 ? a : ~a) & (row & 2 ? b : ~b) & (row & 1 ? d : ~d);
  }
  return result;
}

// `length` bits of `value` from bit `at` on. If the value is signed, the highest of these bits fills the rest.
inline uint32_t extract_bits(uint32_t value, uint32_t at, uint32_t length, bool is_signed) {
  uint32_t result = at > 31 ? 0 : value >> at;
  if (length < 32) result &= (1u << length) - 1;
  if (is_signed && length > 0) {
    const uint32_t last = at + length - 1 > 31 ? 31 : at + length - 1;
    if (value >> last & 1 && length < 32) result |= ~((1u << (last - (at > 31 ? 31 : at) + 1)) - 1);
  }
  return result;
}

// `into` after its bits `at`, at + 1, ... are replaced by the low `length` bits of `bits`.
inline uint32_t insert_bits(uint32_t bits, uint32_t into, uint32_t at, uint32_t length) {
  const uint32_t mask = at > 31 ? 0 : (length > 31 ? ~0u : (1u << length) - 1) << at;
  return (into & ~mask) | ((at > 31 ? 0 : bits << at) & mask);
}

// The high half of the product of two numbers of the same type.
template <class I>
constexpr I high_product(I a, I b) {
  using Whole = std::conditional_t<std::is_signed_v<I>, __int128, Wide>;
  return static_cast<I>((static_cast<Whole>(a) * static_cast<Whole>(b)) >> (8 * sizeof(I)));
}

template <class T>
constexpr T magnitude(T a) {
  if constexpr (std::is_floating_point_v<T>) {
    return fabs(a);
  } else {
    return a < 0 ? -a : a;
  }
}

// .relu: negative numbers become 0, and NaN stays. There is no branch, as in flushed().
inline float relu(float x) {
  const auto bits = __builtin_bit_cast(uint32_t, x);
  const uint32_t is_negative = -(bits >> 31),
                 is_nan = -static_cast<uint32_t>((bits & 0x7FFFFFFFu) > 0x7F800000u);
  return __builtin_bit_cast(float, bits & (~is_negative | is_nan));
}

inline constexpr auto kFunctions = Table{
    row(Named{"ex2.approx", "f32", "ftz"}, 2, [](auto s) { s.put(attn::ex2(s.f(1))); }),
    row(Exactly{"ex2.approx.f16x2"}, 2,
        [](auto s) {
          const half2 v = pair_of<HalfFormat>(s.u(1));
          s.put(half2(attn::ex2(v.x), attn::ex2(v.y)));
        }),
    row(Exactly{"ex2.approx.f16"}, 2, [](auto s) { s.put(half(attn::ex2(s.template in<half>(1)))); }),
    row(Named{"lg2.approx", "f32", "ftz"}, 2, [](auto s) { s.put(attn::lg2(s.f(1))); }),
    row(Named{"rcp.approx", "f32", "ftz"}, 2, [](auto s) { s.put(attn::rcp(s.f(1))); }),
    row(Named{"rcp.rn", "f32", "ftz"}, 2, [](auto s) { s.put(1.0f / s.f(1)); }),
    row(Named{"rsqrt.approx", "f32", "ftz"}, 2, [](auto s) { s.put(attn::rsqrt(s.f(1))); }),
    row(Named{"sqrt.approx", "f32", "ftz"}, 2, [](auto s) { s.put(sqrtf(s.f(1))); }),
    row(Named{"sqrt.rn", "f32", "ftz"}, 2, [](auto s) { s.put(sqrtf(s.f(1))); }),
    row(Exactly{"tanh.approx.f32"}, 2, [](auto s) { s.put(tanhf(s.f(1))); }),
};

// Types of numbers whose arithmetic rounds to nearest, with or without .rn.
inline constexpr std::string_view kRounded = "f64 f16 bf16 f16x2 bf16x2";

inline constexpr auto kArithmetic = Table{
    row(Named{"div.rn", "f32", "ftz"}, 3, [](auto s) { s.put(s.f(1) / s.f(2)); }),
    row(Named{"div.approx", "f32", "ftz"}, 3, [](auto s) { s.put(s.f(1) / s.f(2)); }),
    row(Named{"div.full", "f32", "ftz"}, 3, [](auto s) { s.put(s.f(1) / s.f(2)); }),
    row(Named{"fma.rn", "f32", "ftz"}, 4, [](auto s) { s.put(fmaf(s.f(1), s.f(2), s.f(3))); }),
    row(Named{"mad.rn", "f32", "ftz"}, 4, [](auto s) { s.put(fmaf(s.f(1), s.f(2), s.f(3))); }),
    row(Exactly{"fma.rn.f64"}, 4,
        [](auto s) {
          s.put(fma(s.template in<double>(1), s.template in<double>(2), s.template in<double>(3)));
        }),
    // A product of two 16-bit numbers is exact in fp32.
    row(Named{"fma.rn", "f16 bf16 f16x2 bf16x2"}, 4,
        [](auto s) { s.arithmetic([](auto a, auto b, auto d) { return a * b + d; }); }),
    row(Named{"mad.lo", "int"}, 4,
        [](auto s) { s.arithmetic([](auto a, auto b, auto d) { return a * b + d; }); }),
    row(Named{"mul.wide", "s32 u32"}, 3,
        [](auto s) {
          if constexpr (s.kType == "s32") {
            s.put(int64_t{s.template in<int32_t>(1)} * s.template in<int32_t>(2));
          } else {
            s.put(uint64_t{s.u(1)} * s.u(2));
          }
        }),
    row(Named{"mul.hi", "int"}, 3,
        [](auto s) { s.arithmetic([](auto a, auto b, auto) { return high_product(a, b); }); }),
    row(Named{"mul.lo", "int"}, 3, [](auto s) { s.arithmetic([](auto a, auto b, auto) { return a * b; }); }),
    row(Named{"mul", "f32", "rn ftz"}, 3, [](auto s) { s.put(s.f(1) * s.f(2)); }),
    row(Named{"mul", kRounded, "rn"}, 3,
        [](auto s) { s.arithmetic([](auto a, auto b, auto) { return a * b; }); }),
    row(Named{"add", "f32", "rn ftz"}, 3, [](auto s) { s.put(s.f(1) + s.f(2)); }),
    row(Named{"add", "int"}, 3, [](auto s) { s.arithmetic([](auto a, auto b, auto) { return a + b; }); }),
    row(Named{"add", kRounded, "rn"}, 3,
        [](auto s) { s.arithmetic([](auto a, auto b, auto) { return a + b; }); }),
    row(Named{"sub", "f32", "rn ftz"}, 3, [](auto s) { s.put(s.f(1) - s.f(2)); }),
    row(Named{"sub", "int"}, 3, [](auto s) { s.arithmetic([](auto a, auto b, auto) { return a - b; }); }),
    row(Named{"sub", kRounded, "rn"}, 3,
        [](auto s) { s.arithmetic([](auto a, auto b, auto) { return a - b; }); }),
    row(Named{"max", "f64 f16 bf16 f16x2 bf16x2 int", "NaN"}, 3,
        [](auto s) {
          s.arithmetic([](auto a, auto b, auto) { return larger(has(decltype(s)::kOp, "NaN"), a, b); });
        }),
    row(Named{"min", "f64 f16 bf16 f16x2 bf16x2 int", "NaN"}, 3,
        [](auto s) {
          s.arithmetic([](auto a, auto b, auto) { return smaller(has(decltype(s)::kOp, "NaN"), a, b); });
        }),
    row(Named{"max", "f32", "NaN ftz"}, 3,
        [](auto s) { s.put(larger(has(decltype(s)::kOp, "NaN"), s.f(1), s.f(2))); }),
    row(Named{"min", "f32", "NaN ftz"}, 3,
        [](auto s) { s.put(smaller(has(decltype(s)::kOp, "NaN"), s.f(1), s.f(2))); }),
    row(Named{"neg", "f32", "ftz"}, 2, [](auto s) { s.put(-s.f(1)); }),
    row(Named{"neg", "f64 f16 bf16 f16x2 bf16x2 int"}, 2,
        [](auto s) { s.arithmetic([](auto a, auto, auto) { return -a; }); }),
    row(Named{"abs", "f32", "ftz"}, 2, [](auto s) { s.put(fabsf(s.f(1))); }),
    row(Named{"abs", "f64 f16 bf16 f16x2 bf16x2 int"}, 2,
        [](auto s) { s.arithmetic([](auto a, auto, auto) { return magnitude(a); }); }),
};

inline constexpr auto kBits = Table{
    row(Named{"and", "int"}, 3, [](auto s) { s.put(s.template in<uint64_t>(1) & s.template in<uint64_t>(2)); }),
    row(Named{"or", "int"}, 3, [](auto s) { s.put(s.template in<uint64_t>(1) | s.template in<uint64_t>(2)); }),
    row(Named{"xor", "int"}, 3, [](auto s) { s.put(s.template in<uint64_t>(1) ^ s.template in<uint64_t>(2)); }),
    row(Exactly{"not.b32"}, 2, [](auto s) { s.put(~s.u(1)); }),
    row(Exactly{"shl.b32"}, 3, [](auto s) { s.put(s.u(2) > 31 ? 0u : s.u(1) << s.u(2)); }),
    row(Exactly{"shr.u32", "shr.b32"}, 3, [](auto s) { s.put(s.u(2) > 31 ? 0u : s.u(1) >> s.u(2)); }),
    row(Exactly{"shr.s32"}, 3, [](auto s) { s.put(s.template in<int32_t>(1) >> (s.u(2) > 31 ? 31 : s.u(2))); }),
    row(Exactly{"shf.l.wrap.b32"}, 4, [](auto s) { s.put(__funnelshift_l(s.u(1), s.u(2), s.u(3))); }),
    row(Exactly{"shf.r.wrap.b32"}, 4, [](auto s) { s.put(__funnelshift_r(s.u(1), s.u(2), s.u(3))); }),
    row(Exactly{"lop3.b32"}, 5, [](auto s) { s.put(lop3(s.u(1), s.u(2), s.u(3), s.u(4))); }),
    row(Exactly{"prmt.b32"}, 4, [](auto s) { s.put(__byte_perm(s.u(1), s.u(2), s.u(3))); }),
    row(Exactly{"bfe.u32", "bfe.s32"}, 4,
        [](auto s) { s.put(extract_bits(s.u(1), s.u(2) & 0xFF, s.u(3) & 0xFF, s.kType == "s32")); }),
    row(Exactly{"bfi.b32"}, 5,
        [](auto s) { s.put(insert_bits(s.u(1), s.u(2), s.u(3) & 0xFF, s.u(4) & 0xFF)); }),
    row(Exactly{"popc.b32"}, 2, [](auto s) { s.put(static_cast<uint32_t>(__popc(s.u(1)))); }),
    row(Exactly{"clz.b32"}, 2, [](auto s) { s.put(static_cast<uint32_t>(__clz(s.template in<int>(1)))); }),
    row(Exactly{"brev.b32"}, 2, [](auto s) { s.put(__brev(s.u(1))); }),
};

constexpr bool compares_reals(const Instruction& now) {
  constexpr std::string_view kHow = "eq ne lt le gt ge equ neu ltu leu gtu geu num nan";
  const std::string_view rest = now.op.substr(now.op.find('.') + 1), how = rest.substr(0, rest.find('.'));
  return begins(now.op, "setp") && is_one_of(how, kHow) && is_one_of(rest.substr(how.size()), ".f32 .ftz.f32");
}
constexpr bool compares_integers(const Instruction& now) {
  const std::string_view rest = now.op.substr(now.op.find('.') + 1), how = rest.substr(0, rest.find('.'));
  const std::string_view type = last_part(now.op);
  return begins(now.op, "setp") && is_one_of(how, "eq ne lt le gt ge lo ls hi hs") && is_integer(type) &&
         rest.size() == how.size() + 1 + type.size();
}

inline constexpr auto kSelections = Table{
    row(Named{"selp", "f32 f64 b32 u32 s32 b64 u64 s64"}, 4,
        [](auto s) {
          const int chosen = s.template in<bool>(3) ? 1 : 2;
          if constexpr (bytes_of(s.kType) == 4) s.put(s.u(chosen));
          if constexpr (bytes_of(s.kType) == 8) s.put(s.template in<uint64_t>(chosen));
        }),
    row(compares_reals, 3, [](auto s) { s.put(compare(s.comparison(), s.f(1), s.f(2))); }),
    row(compares_integers, 3,
        [](auto s) {
          using I = Integer<bytes_of(s.kType), s.kType[0] == 's'>;
          s.put(compare(s.comparison(), s.template in<I>(1), s.template in<I>(2)));
        }),
};

// The high half of a pair is the first source operand.
inline constexpr auto kConversions = Table{
    row(Exactly{"cvt.rn.f16x2.f32"}, 3, [](auto s) { s.put(attn::pack2<attn::F16>(s.f(2), s.f(1))); }),
    row(Exactly{"cvt.rn.relu.f16x2.f32"}, 3,
        [](auto s) { s.put(attn::pack2<attn::F16>(relu(s.f(2)), relu(s.f(1)))); }),
    row(Exactly{"cvt.rn.bf16x2.f32"}, 3, [](auto s) { s.put(attn::pack2<attn::BF16>(s.f(2), s.f(1))); }),
    row(Exactly{"cvt.rn.relu.bf16x2.f32"}, 3,
        [](auto s) { s.put(attn::pack2<attn::BF16>(relu(s.f(2)), relu(s.f(1)))); }),
    row(Exactly{"cvt.rn.f16.f32"}, 2, [](auto s) { s.put(half(s.f(1))); }),
    row(Exactly{"cvt.rn.bf16.f32"}, 2, [](auto s) { s.put(__nv_bfloat16(s.f(1))); }),
    row(Exactly{"cvt.f32.f16"}, 2, [](auto s) { s.put(float(s.template in<half>(1))); }),
    row(Exactly{"cvt.f32.bf16"}, 2, [](auto s) { s.put(float(s.template in<__nv_bfloat16>(1))); }),
    row(Exactly{"cvt.rna.tf32.f32"}, 2, [](auto s) { s.put(round_to_tf32(s.u(1))); }),
    row(Exactly{"cvt.u32.u64"}, 2, [](auto s) { s.put(s.u(1)); }),
    row(Exactly{"cvt.u32.u16"}, 2, [](auto s) { s.put(uint32_t{s.template in<uint16_t>(1)}); }),
    row(Exactly{"cvt.u64.u32"}, 2, [](auto s) { s.put(uint64_t{s.u(1)}); }),
    row(Exactly{"cvt.u16.u32"}, 2, [](auto s) { s.put(s.template in<uint16_t>(1)); }),
    row(Exactly{"cvt.rn.f32.s32"}, 2, [](auto s) { s.put(static_cast<float>(s.template in<int32_t>(1))); }),
    row(Exactly{"cvt.rn.f32.u32"}, 2, [](auto s) { s.put(static_cast<float>(s.u(1))); }),
};

}  // namespace simt::ptx
