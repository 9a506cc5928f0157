// Inline PTX on the executor. `asm volatile("..." : outputs : inputs)` is translated to
//
//   ptx::run<"...">(place, ptx::out(a), ptx::in(b), ...)           (kernels/cuda_source/translate)
//
// The text is read while the kernel is compiled: instructions between semicolons,
// registers that it declares (.reg), guards (@p), operands %0, {%0, %1}, [%2 + 16],
// numbers, %laneid and the like. What is not in the table below does not compile, and the
// compiler names the instruction, the file and the line. Meanings are those of the PTX
// manual; approximations (ex2.approx) are as accurate as kernels/primitives/math.h says.
// Modifiers of caches, of rounding to nearest and of memory order mean nothing here.
#pragma once

#include <string.h>

#include <string_view>

#include "kernels/primitives/copy.h"
#include "kernels/primitives/math.h"
#include "kernels/cuda_source/cuda/builtins.h"
#include "kernels/cuda_source/cuda/ptx/matrix.h"
#include "kernels/cuda_source/cuda/ptx/text.h"
#include "kernels/cuda_source/cuda/ptx/values.h"

namespace simt::ptx {

template <class F>
inline Float16Pair<F> pair_of(uint32_t bits) {
  return __builtin_bit_cast(Float16Pair<F>, bits);
}

template <class T>
inline bool compare(std::string_view how, T a, T b) {
  if (how == "eq") return a == b;
  if (how == "ne") return a != b;
  if (how == "lt" || how == "lo") return a < b;
  if (how == "le" || how == "ls") return a <= b;
  if (how == "gt" || how == "hi") return a > b;
  return a >= b;
}

// What is not in the table: the compiler prints this name, with the instruction in it.
template <Text kText, int kAt>
struct Unknown {
  static constexpr bool kKnown = false;
};

template <Text kText, int kAt>
inline void step(const Context& c) {
  static constexpr const Program& kProgram = Parsed<kText>::kProgram;
  static constexpr const Instruction& kNow = kProgram.instructions[kAt];
  static constexpr std::string_view kOp = kNow.op;
  static constexpr std::string_view kType = last_part(kOp);
  constexpr const auto& x = kNow.operands;
  const auto in = [&]<class T>(int i, T) { return c.read<T>(x[i].parts[0]); };
  const auto f = [&](int i) { return in(i, float{}); };
  const auto u = [&](int i) { return in(i, uint32_t{}); };
  const auto put = [&](auto value) { c.write(x[0].parts[0], value); };
  const auto unpack = [&](int i, uint32_t* to) {
    for (int part = 0; part < x[i].count; ++part) to[part] = c.read<uint32_t>(x[i].parts[part]);
  };
  // One arithmetic operation on any type: `apply(a, b, c)` with values of it.
  const auto arithmetic = [&](auto apply) {
    if constexpr (kType == "f32") {
      put(static_cast<float>(apply(f(1), f(2), f(3))));
    } else if constexpr (kType == "f64") {
      put(static_cast<double>(apply(in(1, double{}), in(2, double{}), in(3, double{}))));
    } else if constexpr (kType == "f16" || kType == "bf16") {
      using H = std::conditional_t<kType == "f16", half, __nv_bfloat16>;
      put(H(apply(float(in(1, H{})), float(in(2, H{})), float(in(3, H{})))));
    } else if constexpr (kType == "f16x2" || kType == "bf16x2") {
      using F = std::conditional_t<kType == "f16x2", HalfFormat, BFloatFormat>;
      const auto a = pair_of<F>(u(1)), b = pair_of<F>(u(2)), d = pair_of<F>(u(3));
      put(Float16Pair<F>(Float16Bits<F>(apply(float(a.x), float(b.x), float(d.x))),
                         Float16Bits<F>(apply(float(a.y), float(b.y), float(d.y)))));
    } else if constexpr (is_integer(kType)) {
      using I = Integer<bytes_of(kType), kType[0] == 's'>;
      using W = Integer<bytes_of(kType), false>;
      if constexpr (kType[0] == 's') {
        put(static_cast<I>(apply(in(1, I{}), in(2, I{}), in(3, I{}))));
      } else {
        put(static_cast<W>(apply(in(1, W{}), in(2, W{}), in(3, W{}))));
      }
    } else {
      static_assert(Unknown<kText, kAt>::kKnown, "inline PTX: a type that the executor does not know");
    }
  };
  if (!c.holds(kNow.guard)) return;

  if constexpr (begins(kOp, "mov") && kNow.count == 2 && (x[0].count > 1 || x[1].count > 1)) {
    // Packing and unpacking.
    const int parts = x[0].count > 1 ? x[0].count : x[1].count;
    const int bits = static_cast<int>(8 * bytes_of(kType)) / parts;
    if (x[1].count > 1) {
      Wide whole = 0;
      for (int i = 0; i < parts; ++i) {
        Wide part = c.read<uint64_t>(x[1].parts[i]);
        if (bits < 64) part &= (Wide{1} << bits) - 1;
        whole |= part << bits * i;
      }
      put(whole);
    } else {
      const Wide whole = in(1, Wide{});
      for (int i = 0; i < parts; ++i) {
        if (bits == 16) c.write(x[0].parts[i], static_cast<uint16_t>(whole >> bits * i));
        if (bits == 32) c.write(x[0].parts[i], static_cast<uint32_t>(whole >> bits * i));
        if (bits == 64) c.write(x[0].parts[i], static_cast<uint64_t>(whole >> bits * i));
      }
    }
  } else if constexpr (begins(kOp, "mov")) {
    if constexpr (x[1].parts[0].kind == Value::kSpecial)
      static_assert(known_special(x[1].parts[0].name),
                    "inline PTX: a special register that the executor does not know");
    if constexpr (bytes_of(kType) == 16) put(in(1, Wide{}));
    if constexpr (bytes_of(kType) == 8) put(in(1, uint64_t{}));
    if constexpr (bytes_of(kType) == 4) put(u(1));
    if constexpr (bytes_of(kType) == 2) put(in(1, uint16_t{}));
    if constexpr (kType == "pred") put(in(1, bool{}));
  } else if constexpr (begins(kOp, "cvta.to.shared")) {
    put(static_cast<uint64_t>(shared_offset(reinterpret_cast<const void*>(in(1, uint64_t{})), c.here)));
  } else if constexpr (begins(kOp, "cvta.to.global")) {
    put(in(1, uint64_t{}));
  } else if constexpr (begins(kOp, "cvta.shared")) {
    put(reinterpret_cast<uint64_t>(shared_pointer(u(1), c.here)));
  } else if constexpr (begins(kOp, "ldmatrix.sync.aligned") && has(kOp, "m8n8") && kType == "b16") {
    constexpr int kCount = x[0].count;
    static_assert(kCount == (has(kOp, "x4")   ? 4
                             : has(kOp, "x2") ? 2
                                              : 1),
                  "ldmatrix: as many registers as matrices");
    LoadMatrix<kCount, has(kOp, "trans")> load{};
    if (static_cast<int>(current->linear % 32) < 8 * kCount) load.row = address(x[1], c, has(kOp, "shared"));
    meet(load, kFullMask, c.here);
    for (int i = 0; i < kCount; ++i) c.write(x[0].parts[i], load.r[i]);
  } else if constexpr (begins(kOp, "stmatrix.sync.aligned") && has(kOp, "m8n8") && kType == "b16") {
    StoreMatrix<has(kOp, "trans")> store{};
    store.count = x[1].count;
    if (static_cast<int>(current->linear % 32) < 8 * store.count)
      store.row = address(x[0], c, has(kOp, "shared"));
    unpack(1, store.r);
    meet(store, kFullMask, c.here);
  } else if constexpr (begins(kOp, "mma.sync.aligned") && (has(kOp, "m16n8k16") || has(kOp, "m16n8k8")) &&
                       has(kOp, "row") && has(kOp, "col") && !has(kOp, "tf32") && !has(kOp, "s32")) {
    using T = std::conditional_t<has(kOp, "bf16"), attn::BF16, attn::F16>;
    constexpr bool kHalfSums = x[0].count == 2;  // sums in fp16, two a register
    uint32_t a[4] = {}, b[2] = {};
    float sum[4];
    unpack(1, a);
    unpack(2, b);
    if constexpr (kHalfSums) {
      for (int i = 0; i < 2; ++i)
        attn::unpack2<attn::F16>(c.read<uint32_t>(x[3].parts[i]), sum[2 * i], sum[2 * i + 1]);
    } else {
      for (int i = 0; i < 4; ++i) sum[i] = c.read<float>(x[3].parts[i]);
    }
    attn::mma16816<T>(sum, a, b, c.here);
    if constexpr (kHalfSums) {
      for (int i = 0; i < 2; ++i) c.write(x[0].parts[i], attn::pack2<attn::F16>(sum[2 * i], sum[2 * i + 1]));
    } else {
      for (int i = 0; i < 4; ++i) c.write(x[0].parts[i], sum[i]);
    }
  } else if constexpr (begins(kOp, "cp.async.commit_group")) {
    copy_commit();
  } else if constexpr (begins(kOp, "cp.async.wait_group")) {
    copy_wait(u(0));
  } else if constexpr (begins(kOp, "cp.async.wait_all")) {
    copy_commit();
    copy_wait(0);
  } else if constexpr ((begins(kOp, "cp.async.ca.shared") || begins(kOp, "cp.async.cg.shared")) &&
                       has(kOp, "global")) {
    const uint32_t bytes = u(2), given = kNow.count > 3 ? u(3) : bytes;
    const char* from = address(x[1], c, false);
#if __has_feature(address_sanitizer)
    for (uint32_t i = 0; i < given; ++i) (void)*static_cast<const volatile char*>(from + i);  // as in copy.h
#endif
    copy_async(address(x[0], c, true), from, bytes, given < bytes ? given : bytes, c.here);
  } else if constexpr (kOp == "ex2.approx.ftz.f32" || kOp == "ex2.approx.f32") {
    put(attn::ex2(f(1)));
  } else if constexpr (kOp == "ex2.approx.f16x2") {
    const half2 v = pair_of<HalfFormat>(u(1));
    put(half2(attn::ex2(v.x), attn::ex2(v.y)));
  } else if constexpr (kOp == "ex2.approx.f16") {
    put(half(attn::ex2(in(1, half{}))));
  } else if constexpr (begins(kOp, "lg2.approx") && kType == "f32") {
    put(attn::lg2(f(1)));
  } else if constexpr ((begins(kOp, "rcp.approx") || begins(kOp, "rcp.rn")) && kType == "f32") {
    put(has(kOp, "approx") ? attn::rcp(f(1)) : 1.0f / f(1));
  } else if constexpr (begins(kOp, "rsqrt.approx") && kType == "f32") {
    put(attn::rsqrt(f(1)));
  } else if constexpr ((begins(kOp, "sqrt.approx") || begins(kOp, "sqrt.rn")) && kType == "f32") {
    put(sqrtf(f(1)));
  } else if constexpr (begins(kOp, "tanh.approx") && kType == "f32") {
    put(tanhf(f(1)));
  } else if constexpr (begins(kOp, "div") && kType == "f32") {
    put(f(1) / f(2));
  } else if constexpr ((begins(kOp, "fma.rn") || begins(kOp, "fma.rz")) && kType == "f32") {
    put(fmaf(f(1), f(2), f(3)));
  } else if constexpr (begins(kOp, "fma.rn")) {
    arithmetic([](auto a, auto b, auto d) { return a * b + d; });  // of 16 bits exact in fp32
  } else if constexpr (begins(kOp, "mad.lo")) {
    arithmetic([](auto a, auto b, auto d) { return a * b + d; });
  } else if constexpr (begins(kOp, "mad.rn.f32")) {
    put(fmaf(f(1), f(2), f(3)));
  } else if constexpr (begins(kOp, "mul.wide")) {
    if constexpr (kType == "s32") put(static_cast<int64_t>(in(1, int32_t{})) * in(2, int32_t{}));
    if constexpr (kType == "u32") put(static_cast<uint64_t>(u(1)) * u(2));
    static_assert(kType == "s32" || kType == "u32", "inline PTX: mul.wide of 32 bits alone");
  } else if constexpr (begins(kOp, "mul")) {
    arithmetic([](auto a, auto b, auto) { return a * b; });
  } else if constexpr (begins(kOp, "add")) {
    arithmetic([](auto a, auto b, auto) { return a + b; });
  } else if constexpr (begins(kOp, "sub")) {
    arithmetic([](auto a, auto b, auto) { return a - b; });
  } else if constexpr (begins(kOp, "max")) {
    arithmetic([](auto a, auto b, auto) {
      if (has(kOp, "NaN") && (a != a || b != b)) return a != a ? a : b;
      return a != a ? b : b != b ? a : a < b ? b : a;
    });
  } else if constexpr (begins(kOp, "min")) {
    arithmetic([](auto a, auto b, auto) {
      if (has(kOp, "NaN") && (a != a || b != b)) return a != a ? a : b;
      return a != a ? b : b != b ? a : b < a ? b : a;
    });
  } else if constexpr (begins(kOp, "neg")) {
    arithmetic([](auto a, auto, auto) { return -a; });
  } else if constexpr (begins(kOp, "abs")) {
    arithmetic([](auto a, auto, auto) { return a < 0 ? -a : a; });
  } else if constexpr (begins(kOp, "and") && is_integer(kType)) {
    put(in(1, uint64_t{}) & in(2, uint64_t{}));
  } else if constexpr (begins(kOp, "or") && is_integer(kType)) {
    put(in(1, uint64_t{}) | in(2, uint64_t{}));
  } else if constexpr (begins(kOp, "xor") && is_integer(kType)) {
    put(in(1, uint64_t{}) ^ in(2, uint64_t{}));
  } else if constexpr (kOp == "not.b32") {
    put(~u(1));
  } else if constexpr (kOp == "shl.b32") {
    put(u(2) > 31 ? 0u : u(1) << u(2));
  } else if constexpr (kOp == "shr.u32" || kOp == "shr.b32") {
    put(u(2) > 31 ? 0u : u(1) >> u(2));
  } else if constexpr (kOp == "shr.s32") {
    put(in(1, int32_t{}) >> (u(2) > 31 ? 31 : u(2)));
  } else if constexpr (kOp == "shf.l.wrap.b32") {
    put(__funnelshift_l(u(1), u(2), u(3)));
  } else if constexpr (kOp == "shf.r.wrap.b32") {
    put(__funnelshift_r(u(1), u(2), u(3)));
  } else if constexpr (kOp == "lop3.b32") {
    const uint32_t a = u(1), b = u(2), d = u(3), table = u(4);
    uint32_t result = 0;
    for (uint32_t row = 0; row < 8; ++row) {
      if (table >> row & 1) result |= (row & 4 ? a : ~a) & (row & 2 ? b : ~b) & (row & 1 ? d : ~d);
    }
    put(result);
  } else if constexpr (kOp == "prmt.b32") {
    put(__byte_perm(u(1), u(2), u(3)));
  } else if constexpr (kOp == "bfe.u32" || kOp == "bfe.s32") {
    const uint32_t value = u(1), at = u(2) & 0xFF, length = u(3) & 0xFF;
    uint32_t result = at > 31 ? 0 : value >> at;
    if (length < 32) result &= (1u << length) - 1;
    if (kType == "s32" && length > 0) {
      const uint32_t last = at + length - 1 > 31 ? 31 : at + length - 1;
      if (value >> last & 1 && length < 32) result |= ~((1u << (last - (at > 31 ? 31 : at) + 1)) - 1);
    }
    put(result);
  } else if constexpr (kOp == "bfi.b32") {
    const uint32_t at = u(3) & 0xFF, length = u(4) & 0xFF;
    const uint32_t mask = at > 31 ? 0 : (length > 31 ? ~0u : (1u << length) - 1) << at;
    put((u(2) & ~mask) | ((at > 31 ? 0 : u(1) << at) & mask));
  } else if constexpr (kOp == "popc.b32") {
    put(static_cast<uint32_t>(__popc(u(1))));
  } else if constexpr (kOp == "clz.b32") {
    put(static_cast<uint32_t>(__clz(in(1, int{}))));
  } else if constexpr (kOp == "brev.b32") {
    put(__brev(u(1)));
  } else if constexpr (begins(kOp, "selp")) {
    const bool first = in(3, bool{});
    if constexpr (bytes_of(kType) == 4) put(first ? u(1) : u(2));
    if constexpr (bytes_of(kType) == 8) put(first ? in(1, uint64_t{}) : in(2, uint64_t{}));
    static_assert(bytes_of(kType) >= 4, "inline PTX: selp of 32 or 64 bits alone");
  } else if constexpr (begins(kOp, "setp")) {
    constexpr std::string_view kHow = kOp.substr(5, kOp.find('.', 5) - 5);
    if constexpr (kType == "f32") put(compare(kHow, f(1), f(2)));
    if constexpr (is_integer(kType)) {
      using I = Integer<bytes_of(kType), kType[0] == 's'>;
      put(compare(kHow, in(1, I{}), in(2, I{})));
    }
    static_assert(kType == "f32" || is_integer(kType),
                  "inline PTX: a comparison of a type that the executor does not know");
  } else if constexpr (begins(kOp, "cvt.rn.f16x2.f32") || begins(kOp, "cvt.rn.relu.f16x2.f32")) {
    put(attn::pack2<attn::F16>(f(2), f(1)));
  } else if constexpr (begins(kOp, "cvt.rn.bf16x2.f32")) {
    put(attn::pack2<attn::BF16>(f(2), f(1)));
  } else if constexpr (kOp == "cvt.rn.f16.f32") {
    put(half(f(1)));
  } else if constexpr (kOp == "cvt.rn.bf16.f32") {
    put(__nv_bfloat16(f(1)));
  } else if constexpr (kOp == "cvt.f32.f16") {
    put(float(in(1, half{})));
  } else if constexpr (kOp == "cvt.f32.bf16") {
    put(float(in(1, __nv_bfloat16{})));
  } else if constexpr (begins(kOp, "cvt.rna.tf32.f32")) {
    put((u(1) + 0x1000u) & 0xFFFFE000u);
  } else if constexpr (kOp == "cvt.u32.u64" || kOp == "cvt.u64.u32" || kOp == "cvt.u16.u32" ||
                       kOp == "cvt.u32.u16") {
    if constexpr (begins(kOp, "cvt.u32")) put(kType == "u16" ? in(1, uint16_t{}) : u(1));
    if constexpr (begins(kOp, "cvt.u64")) put(static_cast<uint64_t>(u(1)));
    if constexpr (begins(kOp, "cvt.u16")) put(in(1, uint16_t{}));
  } else if constexpr (begins(kOp, "cvt.rn.f32") && (kType == "s32" || kType == "u32")) {
    put(kType == "s32" ? static_cast<float>(in(1, int32_t{})) : static_cast<float>(u(1)));
  } else if constexpr ((begins(kOp, "ld") || begins(kOp, "st")) && !has(kOp, "bulk") && !has(kOp, "param")) {
    constexpr size_t kBytes = kType == "f32" ? 4 : kType == "f64" ? 8 : bytes_of(kType);
    static_assert(kBytes > 0, "inline PTX: a load or store of a type that the executor does not know");
    constexpr bool kLoad = begins(kOp, "ld");
    constexpr const Operand& kWhere = x[kLoad ? 1 : 0];
    constexpr const Operand& kWhat = x[kLoad ? 0 : 1];
    char* const at = address(kWhere, c, has(kOp, "shared"));
    if (reinterpret_cast<uintptr_t>(at) % (kBytes * kWhat.count) != 0)
      fault(ATTN_REPORT_ALIGNMENT, current, c.here, "ld or st of %zu bytes at %p: not a multiple of them",
            kBytes * kWhat.count, static_cast<void*>(at));
    using I = Integer<kBytes, false>;
    for (int i = 0; i < kWhat.count; ++i) {
      I value;
      if constexpr (kLoad) {
        memcpy(&value, at + kBytes * static_cast<size_t>(i), kBytes);
        c.write(kWhat.parts[i], value);
      } else {
        value = c.read<I>(kWhat.parts[i]);
        memcpy(at + kBytes * static_cast<size_t>(i), &value, kBytes);
      }
    }
  } else if constexpr ((begins(kOp, "red") || begins(kOp, "atom")) && has(kOp, "add") &&
                       (kType == "f32" || kType == "u32" || kType == "s32")) {
    constexpr bool kReturns = begins(kOp, "atom");
    char* const at = address(x[kReturns ? 1 : 0], c, has(kOp, "shared"));
    if constexpr (kType == "f32") {
      const float before = atomicAdd(reinterpret_cast<float*>(at), f(kReturns ? 2 : 1));
      if constexpr (kReturns) put(before);
    } else {
      const uint32_t before = atomicAdd(reinterpret_cast<uint32_t*>(at), u(kReturns ? 2 : 1));
      if constexpr (kReturns) put(before);
    }
  } else if constexpr (begins(kOp, "shfl.sync") && kType == "b32") {
    const uint32_t mask = u(4), clamp = u(3), amount = u(2);
    const int width = 32 - static_cast<int>(clamp >> 8 & 31);
    const uint32_t value = u(1);
    if constexpr (has(kOp, "bfly"))
      put(shuffle<Shift::kXor>(mask, value, static_cast<int>(amount), width, c.here));
    if constexpr (has(kOp, "idx"))
      put(shuffle<Shift::kFrom>(mask, value, static_cast<int>(amount), width, c.here));
    if constexpr (has(kOp, "up"))
      put(shuffle<Shift::kUp>(mask, value, static_cast<int>(amount), width, c.here));
    if constexpr (has(kOp, "down"))
      put(shuffle<Shift::kDown>(mask, value, static_cast<int>(amount), width, c.here));
  } else if constexpr (begins(kOp, "bar.sync") || begins(kOp, "barrier.sync") ||
                       begins(kOp, "barrier.cta.sync")) {
    barrier(u(0), kNow.count > 1 ? u(1) : kWholeBlock, true, c.here);
  } else if constexpr (begins(kOp, "bar.arrive") || begins(kOp, "barrier.arrive")) {
    barrier(u(0), u(1), false, c.here);
  } else if constexpr (begins(kOp, "bar.warp.sync")) {
    PlainSync sync;
    meet(sync, u(0), c.here);
  } else if constexpr (begins(kOp, "membar") || begins(kOp, "fence") || begins(kOp, "prefetch") ||
                       begins(kOp, "griddepcontrol") || begins(kOp, "nop") || begins(kOp, "discard")) {
    __threadfence();
  } else if constexpr (begins(kOp, "trap")) {
    __trap(c.here);
  } else {
    static_assert(Unknown<kText, kAt>::kKnown, "inline PTX: an instruction that the executor does not know");
  }
}

template <Text kText, class... Operands>
inline void run(Place here, Operands... operands) {
  static_assert(Parsed<kText>::kProgram.legible, "inline PTX: text that the executor cannot read");
  Cell cells[sizeof...(Operands) + 1] = {operands.cell()..., Cell{}};
  Registers registers;
  const Context context{cells, registers, here};
  [&]<int... kAt>(std::integer_sequence<int, kAt...>) {
    (step<kText, kAt>(context), ...);
  }(std::make_integer_sequence<int, Parsed<kText>::kProgram.count>());
}

}  // namespace simt::ptx
