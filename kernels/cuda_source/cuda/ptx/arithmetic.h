// Inline PTX that computes: arithmetic, bits, comparisons and conversions.
#pragma once

#include <math.h>

#include <string_view>

#include "kernels/cuda_source/cuda/ptx/step.h"
#include "kernels/primitives/math.h"
#include "kernels/primitives/types.h"

namespace simt::ptx {

// The comparison of setp by its name; lo, ls, hi and hs are the unsigned comparisons.
template <class T>
constexpr bool compare(std::string_view how, T a, T b) {
  if (how == "eq") return a == b;
  if (how == "ne") return a != b;
  if (how == "lt" || how == "lo") return a < b;
  if (how == "le" || how == "ls") return a <= b;
  if (how == "gt" || how == "hi") return a > b;
  return a >= b;
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

inline constexpr auto kFunctions = Table{
    row(Exactly{"ex2.approx.ftz.f32", "ex2.approx.f32"}, [](auto s) { s.put(attn::ex2(s.f(1))); }),
    row(Exactly{"ex2.approx.f16x2"},
        [](auto s) {
          const half2 v = pair_of<HalfFormat>(s.u(1));
          s.put(half2(attn::ex2(v.x), attn::ex2(v.y)));
        }),
    row(Exactly{"ex2.approx.f16"}, [](auto s) { s.put(half(attn::ex2(s.template in<half>(1)))); }),
    row(Named{"lg2.approx", "f32"}, [](auto s) { s.put(attn::lg2(s.f(1))); }),
    row(Named{"rcp.approx", "f32"}, [](auto s) { s.put(attn::rcp(s.f(1))); }),
    row(Named{"rcp.rn", "f32"}, [](auto s) { s.put(1.0f / s.f(1)); }),
    row(Named{"rsqrt.approx", "f32"}, [](auto s) { s.put(attn::rsqrt(s.f(1))); }),
    row(Named{"sqrt.approx", "f32"}, [](auto s) { s.put(sqrtf(s.f(1))); }),
    row(Named{"sqrt.rn", "f32"}, [](auto s) { s.put(sqrtf(s.f(1))); }),
    row(Named{"tanh.approx", "f32"}, [](auto s) { s.put(tanhf(s.f(1))); }),
};

inline constexpr auto kArithmetic = Table{
    row(Named{"div", "f32"}, [](auto s) { s.put(s.f(1) / s.f(2)); }),
    row(Named{"fma.rn", "f32"}, [](auto s) { s.put(fmaf(s.f(1), s.f(2), s.f(3))); }),
    row(Named{"fma.rz", "f32"}, [](auto s) { s.put(fmaf(s.f(1), s.f(2), s.f(3))); }),
    row(Exactly{"mad.rn.f32"}, [](auto s) { s.put(fmaf(s.f(1), s.f(2), s.f(3))); }),
    // A product of two 16-bit numbers is exact in fp32.
    row(Named{"fma.rn"}, [](auto s) { s.arithmetic([](auto a, auto b, auto d) { return a * b + d; }); }),
    row(Named{"mad.lo"}, [](auto s) { s.arithmetic([](auto a, auto b, auto d) { return a * b + d; }); }),
    row(Named{"mul.wide"},
        [](auto s) {
          static_assert(s.kType == "s32" || s.kType == "u32", "inline PTX: mul.wide takes only 32 bits");
          if constexpr (s.kType == "s32") {
            s.put(int64_t{s.template in<int32_t>(1)} * s.template in<int32_t>(2));
          } else {
            s.put(uint64_t{s.u(1)} * s.u(2));
          }
        }),
    row(Named{"mul"}, [](auto s) { s.arithmetic([](auto a, auto b, auto) { return a * b; }); }),
    row(Named{"add"}, [](auto s) { s.arithmetic([](auto a, auto b, auto) { return a + b; }); }),
    row(Named{"sub"}, [](auto s) { s.arithmetic([](auto a, auto b, auto) { return a - b; }); }),
    row(Named{"max"},
        [](auto s) {
          s.arithmetic([](auto a, auto b, auto) { return larger(has(decltype(s)::kOp, "NaN"), a, b); });
        }),
    row(Named{"min"},
        [](auto s) {
          s.arithmetic([](auto a, auto b, auto) { return smaller(has(decltype(s)::kOp, "NaN"), a, b); });
        }),
    row(Named{"neg"}, [](auto s) { s.arithmetic([](auto a, auto, auto) { return -a; }); }),
    row(Named{"abs"}, [](auto s) { s.arithmetic([](auto a, auto, auto) { return a < 0 ? -a : a; }); }),
};

inline constexpr auto kBits = Table{
    row(Named{"and", "int"}, [](auto s) { s.put(s.template in<uint64_t>(1) & s.template in<uint64_t>(2)); }),
    row(Named{"or", "int"}, [](auto s) { s.put(s.template in<uint64_t>(1) | s.template in<uint64_t>(2)); }),
    row(Named{"xor", "int"}, [](auto s) { s.put(s.template in<uint64_t>(1) ^ s.template in<uint64_t>(2)); }),
    row(Exactly{"not.b32"}, [](auto s) { s.put(~s.u(1)); }),
    row(Exactly{"shl.b32"}, [](auto s) { s.put(s.u(2) > 31 ? 0u : s.u(1) << s.u(2)); }),
    row(Exactly{"shr.u32", "shr.b32"}, [](auto s) { s.put(s.u(2) > 31 ? 0u : s.u(1) >> s.u(2)); }),
    row(Exactly{"shr.s32"}, [](auto s) { s.put(s.template in<int32_t>(1) >> (s.u(2) > 31 ? 31 : s.u(2))); }),
    row(Exactly{"shf.l.wrap.b32"}, [](auto s) { s.put(__funnelshift_l(s.u(1), s.u(2), s.u(3))); }),
    row(Exactly{"shf.r.wrap.b32"}, [](auto s) { s.put(__funnelshift_r(s.u(1), s.u(2), s.u(3))); }),
    row(Exactly{"lop3.b32"}, [](auto s) { s.put(lop3(s.u(1), s.u(2), s.u(3), s.u(4))); }),
    row(Exactly{"prmt.b32"}, [](auto s) { s.put(__byte_perm(s.u(1), s.u(2), s.u(3))); }),
    row(Exactly{"bfe.u32", "bfe.s32"},
        [](auto s) { s.put(extract_bits(s.u(1), s.u(2) & 0xFF, s.u(3) & 0xFF, s.kType == "s32")); }),
    row(Exactly{"bfi.b32"}, [](auto s) { s.put(insert_bits(s.u(1), s.u(2), s.u(3) & 0xFF, s.u(4) & 0xFF)); }),
    row(Exactly{"popc.b32"}, [](auto s) { s.put(static_cast<uint32_t>(__popc(s.u(1)))); }),
    row(Exactly{"clz.b32"}, [](auto s) { s.put(static_cast<uint32_t>(__clz(s.template in<int>(1)))); }),
    row(Exactly{"brev.b32"}, [](auto s) { s.put(__brev(s.u(1))); }),
};

inline constexpr auto kSelections = Table{
    row(Named{"selp"},
        [](auto s) {
          static_assert(bytes_of(s.kType) >= 4, "inline PTX: selp takes only 32 or 64 bits");
          const int chosen = s.template in<bool>(3) ? 1 : 2;
          if constexpr (bytes_of(s.kType) == 4) s.put(s.u(chosen));
          if constexpr (bytes_of(s.kType) == 8) s.put(s.template in<uint64_t>(chosen));
        }),
    row(Named{"setp"},
        [](auto s) {
          static_assert(s.kType == "f32" || is_integer(s.kType),
                        "inline PTX: a comparison of a type that the executor does not know");
          constexpr std::string_view kHow = s.kOp.substr(5, s.kOp.find('.', 5) - 5);
          if constexpr (s.kType == "f32") {
            s.put(compare(kHow, s.f(1), s.f(2)));
          } else {
            using I = Integer<bytes_of(s.kType), s.kType[0] == 's'>;
            s.put(compare(kHow, s.template in<I>(1), s.template in<I>(2)));
          }
        }),
};

// The high half of a pair is the first source operand.
inline constexpr auto kConversions = Table{
    row(Named{"cvt.rn.f16x2.f32"}, [](auto s) { s.put(attn::pack2<attn::F16>(s.f(2), s.f(1))); }),
    row(Named{"cvt.rn.relu.f16x2.f32"}, [](auto s) { s.put(attn::pack2<attn::F16>(s.f(2), s.f(1))); }),
    row(Named{"cvt.rn.bf16x2.f32"}, [](auto s) { s.put(attn::pack2<attn::BF16>(s.f(2), s.f(1))); }),
    row(Exactly{"cvt.rn.f16.f32"}, [](auto s) { s.put(half(s.f(1))); }),
    row(Exactly{"cvt.rn.bf16.f32"}, [](auto s) { s.put(__nv_bfloat16(s.f(1))); }),
    row(Exactly{"cvt.f32.f16"}, [](auto s) { s.put(float(s.template in<half>(1))); }),
    row(Exactly{"cvt.f32.bf16"}, [](auto s) { s.put(float(s.template in<__nv_bfloat16>(1))); }),
    row(Named{"cvt.rna.tf32.f32"}, [](auto s) { s.put((s.u(1) + 0x1000u) & 0xFFFFE000u); }),
    row(Exactly{"cvt.u32.u64"}, [](auto s) { s.put(s.u(1)); }),
    row(Exactly{"cvt.u32.u16"}, [](auto s) { s.put(uint32_t{s.template in<uint16_t>(1)}); }),
    row(Exactly{"cvt.u64.u32"}, [](auto s) { s.put(uint64_t{s.u(1)}); }),
    row(Exactly{"cvt.u16.u32"}, [](auto s) { s.put(s.template in<uint16_t>(1)); }),
    row(Named{"cvt.rn.f32", "s32"}, [](auto s) { s.put(static_cast<float>(s.template in<int32_t>(1))); }),
    row(Named{"cvt.rn.f32", "u32"}, [](auto s) { s.put(static_cast<float>(s.u(1))); }),
};

}  // namespace simt::ptx
