// Tests inline PTX: what instructions do, and which ones do not compile.
#include "kernels/cuda_source/cuda/ptx/ptx.h"

#include <bit>
#include <cmath>

#include "kernels/cuda_source/runtime.h"
#include "tests/kernels/executor/harness.h"

namespace attn {
namespace {

namespace ptx = simt::ptx;
using simt::Place;

template <ptx::Text kText, class... In>
uint32_t word(In... in) {
  uint32_t result = 0;
  ptx::run<kText>(Place::now(), ptx::out(result), ptx::in(in)...);
  return result;
}
template <ptx::Text kText, class... In>
float number(In... in) {
  float result = 0;
  ptx::run<kText>(Place::now(), ptx::out(result), ptx::in(in)...);
  return result;
}

__global__ void inline_ptx(int* wrong) {
  const auto expect = [&](bool right, int which) {
    if (!right && *wrong == 0) *wrong = which;
  };
  expect(word<"lop3.b32 %0, %1, %2, %3, 0x96;">(0xF0F0u, 0xCCCCu, 0xAAAAu) == (0xF0F0u ^ 0xCCCCu ^ 0xAAAAu), 1);
  expect(word<"lop3.b32 %0, %1, %2, %3, 0xe8;">(12u, 10u, 6u) == ((12u & 10u) | (12u & 6u) | (10u & 6u)), 2);
  expect(word<"bfe.u32 %0, %1, 8, 4;">(0x12345678u) == 6, 3);
  expect(word<"bfe.s32 %0, %1, 4, 4;">(0x000000F0u) == 0xFFFFFFFFu, 4);
  expect(word<"bfi.b32 %0, %1, %2, 8, 8;">(0xABu, 0x11223344u) == 0x1122AB44u, 5);
  expect(word<"prmt.b32 %0, %1, %2, 0x5410;">(0x33221100u, 0x77665544u) == 0x55441100u, 6);
  expect(word<"{ .reg .pred p; setp.gt.s32 p, %1, %2; selp.b32 %0, 1, 2, p; }">(-3, 4) == 2, 7);
  expect(word<"{ .reg .pred p; setp.ne.b32 p, %1, 0; mov.u32 %0, 5; @p mov.u32 %0, 9; }">(1u) == 9, 8);
  expect(word<"{ .reg .pred p; setp.ne.b32 p, %1, 0; mov.u32 %0, 5; @!p mov.u32 %0, 9; }">(1u) == 5, 9);
  expect(word<"shr.s32 %0, %1, 4;">(-64) == static_cast<uint32_t>(-4), 10);
  expect(word<"mov.b32 %0, {%1, %2};">(uint16_t{0x1234}, uint16_t{0x5678}) == 0x56781234u, 11);
  uint16_t low = 0, high = 0;
  ptx::run<"mov.b32 {%0, %1}, %2;">(Place::now(), ptx::out(low), ptx::out(high), ptx::in(0x56781234u));
  expect(low == 0x1234 && high == 0x5678, 12);
  expect(word<"mov.u32 %0, %%laneid;">() == threadIdx.x % 32, 13);
  expect(std::fabs(number<"ex2.approx.ftz.f32 %0, %1;">(3.0f) - 8) < 1e-5f, 14);
  expect(number<"fma.rn.f32 %0, %1, %2, %3;">(2.0f, 3.0f, 4.0f) == 10, 15);
  expect(number<"max.f32 %0, %1, %2;">(NAN, 3.0f) == 3, 16);
  expect(std::isnan(number<"max.NaN.f32 %0, %1, %2;">(NAN, 3.0f)), 17);
  expect(word<"cvt.rn.f16x2.f32 %0, %1, %2;">(2.0f, 1.0f) == 0x40003C00u, 18);
  expect(word<"fma.rn.f16x2 %0, %1, %2, %3;">(0x40003C00u, 0x40004000u, 0x3C003C00u) == 0x45004200u, 19);
  uint64_t wide = 0;
  ptx::run<"mul.wide.u32 %0, %1, %2;">(Place::now(), ptx::out(wide), ptx::in(0x80000000u), ptx::in(4u));
  expect(wide == uint64_t{1} << 33, 20);
  float accumulated = 1;
  ptx::run<"add.f32 %0, %0, %1;">(Place::now(), ptx::inout(accumulated), ptx::in(2.0f));
  expect(accumulated == 3, 21);
  const uint4 four = {1, 2, 3, 4};
  uint4 loaded = {};
  ptx::run<"ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];">(
      Place::now(), ptx::out(loaded.x), ptx::out(loaded.y), ptx::out(loaded.z), ptx::out(loaded.w),
      ptx::in(&four));
  expect(loaded.x == 1 && loaded.w == 4, 22);
  expect(word<"shfl.sync.bfly.b32 %0, %1, 1, 0x1f, 0xffffffff;">(threadIdx.x) == (threadIdx.x ^ 1), 23);
  uint64_t lower = 0, upper = 0;
  ptx::run<"{ .reg .b128 whole; mov.b128 whole, {%1, %2}; st.global.L1::no_allocate.b128 [%0], whole; }">(
      Place::now(), ptx::in(&loaded), ptx::in(uint64_t{7} << 32 | 6), ptx::in(uint64_t{9} << 32 | 8));
  ptx::run<"{ .reg .b128 whole; ld.global.b128 whole, [%2]; mov.b128 {%0, %1}, whole; }">(
      Place::now(), ptx::out(lower), ptx::out(upper), ptx::in(&loaded));
  expect(loaded.x == 6 && loaded.y == 7 && loaded.w == 9, 24);
  expect(lower == (uint64_t{7} << 32 | 6) && upper == (uint64_t{9} << 32 | 8), 25);
}

TEST(InlinePtx, MeansWhatItsManualSays) {
  for (uint64_t seed : kOrders) {
    int wrong = 0;
    EXPECT_EQ(run_on_cpu(inline_ptx, 1, 32, {.seed = seed}, &wrong).told(), "ok");
    EXPECT_EQ(wrong, 0);
  }
}

__global__ void with_modifiers(int* wrong) {
  const auto expect = [&](bool right, int which) {
    if (!right && *wrong == 0) *wrong = which;
  };
  expect(word<"mul.hi.u32 %0, %1, %2;">(0x80000001u, 6u) == 3 &&
             word<"mul.lo.u32 %0, %1, %2;">(0x80000001u, 6u) == 6,
         1);
  expect(word<"mul.hi.s32 %0, %1, %2;">(-2, 3) == ~0u, 2);
  expect(word<"cvt.rn.relu.f16x2.f32 %0, %1, %2;">(-2.0f, 1.0f) == 0x3C00u, 3);
  expect(word<"cvt.rn.relu.bf16x2.f32 %0, %1, %2;">(2.0f, -0.0f) == 0x40000000u, 4);
  expect(std::isnan(number<"fma.rn.ftz.f32 %0, %1, %2, %3;">(NAN, 1.0f, 1.0f)), 5);
  expect(number<"add.ftz.f32 %0, %1, %2;">(0x1p-130f, 0x1p-131f) == 0, 6);
  expect(number<"mul.rn.ftz.f32 %0, %1, %2;">(0x1p-70f, 0x1p-70f) == 0, 7);
  expect(number<"add.f32 %0, %1, %2;">(0x1p-130f, 0x1p-131f) == 0x1.8p-130f, 8);
  expect(number<"abs.f32 %0, %1;">(-0.0f) == 0 && !std::signbit(number<"abs.f32 %0, %1;">(-0.0f)), 9);
  expect(std::isnan(number<"cvt.rna.tf32.f32 %0, %1;">(std::bit_cast<float>(~0u))), 10);
  int32_t wide = 0;
  const int8_t byte = -1;
  const int16_t two = -300;
  ptx::run<"ld.global.s8 %0, [%1];">(Place::now(), ptx::out(wide), ptx::in(&byte));
  expect(wide == -1, 11);
  ptx::run<"ld.global.u8 %0, [%1];">(Place::now(), ptx::out(wide), ptx::in(&byte));
  expect(wide == 255, 12);
  ptx::run<"ld.global.nc.s16 %0, [%1];">(Place::now(), ptx::out(wide), ptx::in(&two));
  expect(wide == -300, 13);
  int64_t longer = 0;
  ptx::run<"ld.global.s32 %0, [%1];">(Place::now(), ptx::out(longer), ptx::in(&wide));
  expect(longer == -300, 14);
}

__global__ void numbers_and_comparisons(int* wrong) {
  const auto expect = [&](bool right, int which) {
    if (!right && *wrong == 0) *wrong = which;
  };
  expect(number<"mov.f32 %0, 0.5;">() == 0.5f && number<"mov.f32 %0, -1.4426950408889634;">() == -1.44269504f,
         1);
  expect(number<"max.f32 %0, %1, 0.0;">(-2.0f) == 0 && number<"add.f32 %0, %1, 2.5e-1;">(1.0f) == 1.25f, 2);
  expect(
      number<"mul.f32 %0, %1, 0fC0000000;">(3.0f) == -6 && number<"mov.f32 %0, 0d3FF8000000000000;">() == 1.5f,
      3);
  expect(number<"mul.f32 %0, %1, 1.0E+2;">(3.0f) == 300 && number<"mov.b32 %0, 0f7F800000;">() == INFINITY, 4);
  expect(word<"mov.u32 %0, 0x1F;">() == 31 && word<"mov.u32 %0, 017;">() == 15 &&
             word<"mov.u32 %0, 0b101;">() == 5,
         5);
  expect(word<"mov.u32 %0, 12U;">() == 12 && word<"mov.u32 %0, 0;">() == 0 && word<"mov.s32 %0, -3;">() == ~2u,
         6);
  double real = 0;
  ptx::run<"fma.rn.f64 %0, %1, 0.1, 0.25;">(Place::now(), ptx::out(real), ptx::in(10.0));
  expect(real == 1.25, 7);
  expect(word<"{ .reg .b32 %%t; mov.b32 %%t, %1; add.u32 %0, %%t, %%t; }">(21u) == 42, 8);
  constexpr auto kSelect = [](float a, float b) {
    return word<"{ .reg .pred p; setp.ltu.f32 p, %1, %2; selp.b32 %0, 1, 0, p; }">(a, b) |
           word<"{ .reg .pred p; setp.geu.f32 p, %1, %2; selp.b32 %0, 2, 0, p; }">(a, b) |
           word<"{ .reg .pred p; setp.neu.ftz.f32 p, %1, %2; selp.b32 %0, 4, 0, p; }">(a, b) |
           word<"{ .reg .pred p; setp.ne.f32 p, %1, %2; selp.b32 %0, 8, 0, p; }">(a, b) |
           word<"{ .reg .pred p; setp.num.f32 p, %1, %2; selp.b32 %0, 16, 0, p; }">(a, b) |
           word<"{ .reg .pred p; setp.nan.f32 p, %1, %2; selp.b32 %0, 32, 0, p; }">(a, b);
  };
  expect(kSelect(1, 2) == (1 | 4 | 8 | 16), 9);
  expect(kSelect(2, 2) == (2 | 16), 10);
  expect(kSelect(NAN, 2) == (1 | 2 | 4 | 32), 11);
  expect(word<"{ .reg .pred p; setp.hi.u32 p, %1, %2; selp.b32 %0, 1, 0, p; }">(~0u, 2u) == 1, 12);
  expect(word<"{ .reg .pred p; setp.gt.s32 p, %1, %2; selp.b32 %0, 1, 0, p; }">(~0u, 2u) == 0, 13);
}

// The scan of the PTX manual: the sum of a lane's number and those of all lanes below, in segments of 8 lanes.
__global__ void scan(int* wrong) {
  uint32_t sum = 1;
  ptx::run<
      "{ .reg .b32 r; .reg .pred p;"
      "  shfl.sync.up.b32 r|p, %0, 1, 0x1800, 0xffffffff; @p add.u32 %0, r, %0;"
      "  shfl.sync.up.b32 r|p, %0, 2, 0x1800, 0xffffffff; @p add.u32 %0, r, %0;"
      "  shfl.sync.up.b32 r|p, %0, 4, 0x1800, 0xffffffff; @p add.u32 %0, r, %0; }">(Place::now(),
                                                                                    ptx::inout(sum));
  if (sum != threadIdx.x % 8 + 1) *wrong = static_cast<int>(threadIdx.x) + 1;
  const uint32_t lane = threadIdx.x;
  if (word<"shfl.sync.down.b32 %0, %1, 3, 0x1f, 0xffffffff;">(lane) != (lane < 29 ? lane + 3 : lane))
    *wrong = 100;
  if (word<"shfl.sync.idx.b32 %0, %1, 5, 0x181f, 0xffffffff;">(lane) != lane / 8 * 8 + 5) *wrong = 101;
  if (word<"shfl.sync.down.b32 %0, %1, 1, 15, 0xffffffff;">(lane) != (lane < 15 ? lane + 1 : lane))
    *wrong = 102;
}

TEST(InlinePtx, ModifiersNumbersAndSecondResultsMeanWhatTheManualSays) {
  for (uint64_t seed : kOrders) {
    int wrong = 0;
    EXPECT_EQ(run_on_cpu(with_modifiers, 1, 32, {.seed = seed}, &wrong).told(), "ok");
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(run_on_cpu(numbers_and_comparisons, 1, 32, {.seed = seed}, &wrong).told(), "ok");
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(run_on_cpu(scan, 1, 32, {.seed = seed}, &wrong).told(), "ok");
    EXPECT_EQ(wrong, 0);
  }
}

// cp.async: 16 bytes with a policy of the cache, and 8 of which `given` are read.
__global__ void copy_by_ptx(const uint32_t* from, uint32_t given, uint32_t* to) {
  auto* const row = static_cast<uint32_t*>(simt::dynamic_shared(Place::now()));
  const uint32_t at = simt::shared_offset(row, Place::now());
  ptx::run<"cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;">(
      Place::now(), ptx::in(at), ptx::in(from), ptx::in(uint64_t{0x12F0000000000000}));
  ptx::run<"cp.async.ca.shared.global.L2::128B [%0 + 16], [%1], 8, %2;">(Place::now(), ptx::in(at),
                                                                         ptx::in(from), ptx::in(given));
  ptx::run<"cp.async.wait_all;">(Place::now());
  for (int i = 0; i < 6; ++i) to[i] = row[i];
}

TEST(InlinePtx, APolicyOfTheCacheIsNoNumberOfBytes) {
  alignas(16) const uint32_t from[4] = {1, 2, 3, 4};
  for (uint64_t seed : all_schedules()) {
    uint32_t to[6] = {};
    EXPECT_EQ(run_on_cpu(copy_by_ptx, 1, 1, {.seed = seed, .shared = 64}, from, 4u, to).told(), "ok");
    EXPECT_EQ(to[0] + to[3] + to[4], 6u);
    EXPECT_EQ(to[5], 0u);
    expect_told(run_on_cpu(copy_by_ptx, 1, 1, {.seed = seed, .shared = 64}, from, 9u, to), ATTN_REPORT_ASYNC,
                "an asynchronous copy of 8 bytes that reads 9");
  }
}

template <ptx::Text kText>
constexpr bool compiles() {
  constexpr const ptx::Program& kProgram = ptx::Parsed<kText>::kProgram;
  if (!kProgram.legible || kProgram.count == 0) return false;
  for (int i = 0; i < kProgram.count; ++i) {
    if (!ptx::knows(kProgram.instructions[i])) return false;
  }
  return true;
}

// Each has a modifier or an operand that the executor does not have.
static_assert(!compiles<"fma.rz.f32 %0, %1, %2, %3;">());
static_assert(!compiles<"add.rz.f32 %0, %1, %2;">() && !compiles<"mul.rz.f32 %0, %1, %2;">());
static_assert(!compiles<"add.sat.f32 %0, %1, %2;">() && !compiles<"fma.rn.sat.f32 %0, %1, %2, %3;">());
static_assert(!compiles<"fma.rn.relu.f16x2 %0, %1, %2, %3;">() && !compiles<"add.cc.u32 %0, %1, %2;">());
static_assert(!compiles<"max.s16x2 %0, %1, %2;">() && !compiles<"add.u16x2 %0, %1, %2;">());
static_assert(!compiles<"max.xorsign.abs.f32 %0, %1, %2;">() && !compiles<"max.f32 %0, %1, %2, %3;">());
static_assert(!compiles<"cvt.rn.satfinite.f16x2.f32 %0, %1, %2;">() &&
              !compiles<"cvt.rz.f16x2.f32 %0, %1, %2;">());
static_assert(!compiles<"{ .reg .pred p, q; setp.lt.and.f32 p, %0, %1, q; }">());
static_assert(!compiles<"{ .reg .pred p, q; setp.lt.f32 p|q, %0, %1; }">());
static_assert(!compiles<"{ .reg .pred p; setp.foo.f32 p, %0, %1; }">());
static_assert(!compiles<"{ .reg .pred p; selp.b32 %0, 1, 2, !p; }">());
static_assert(!compiles<"mov.f32 %0, 1.0f;">() && !compiles<"mov.u32 %0, 0x1G;">());
static_assert(!compiles<"mov.b32 %0, {%1, %2, %3, %4};">() && !compiles<"mov.u32 %0, %clock;">());
static_assert(!compiles<"and.b32 %0, %smid, 7;">() && !compiles<"add.f32 %0, -%1, %2;">());
static_assert(!compiles<"ld.const.u32 %0, [%1];">() && !compiles<"ld.global.v4.u32 {%0, %1}, [%2];">());
static_assert(!compiles<"st.global.async.u32 [%0], %1;">() && !compiles<"discard.global.L2 [%0], 128;">());
static_assert(!compiles<"shfl.sync.up.b32 %0, %1, 1, 0;">());
static_assert(!compiles<"mma.sync.aligned.m16n8k16.row.col.satfinite.s32.s8.s8.s32 "
                        "{%0,%1,%2,%3},{%4,%5},{%6},{%0,%1,%2,%3};">());
static_assert(
    !compiles<
        "mma.sync.aligned.m16n8k16.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3},{%4,%5},{%6},{%0,%1,%2,%3};">());
static_assert(!compiles<"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                        "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};">());
static_assert(!compiles<"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1}, [%2];">());
static_assert(!compiles<"bar.sync 0, 32, 1;">() && !compiles<"bar.red.popc.u32 %0, 0, %1;">());

// These are of public kernels.
static_assert(compiles<"ldmatrix.sync.aligned.x4.trans.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];">());
static_assert(compiles<"ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];">());
static_assert(compiles<"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                       "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%10,%11,%12,%13};">());
static_assert(compiles<"mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0,%1},{%2,%3},{%4},{%5,%6};">());
static_assert(
    compiles<
        "{ .reg .pred p; setp.ne.b32 p, %0, 0; @p cp.async.cg.shared.global.L2::128B [%1], [%2], %3; }">());
static_assert(compiles<"cp.async.ca.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;">());
static_assert(compiles<"ld.global.L1::no_allocate.L2::cache_hint.v4.s32 {%0, %1, %2, %3}, [%4], %5;">());
static_assert(compiles<"st.relaxed.gpu.global.v2.f32 [%0], {%1, %2};">());
static_assert(compiles<"red.release.gpu.global.add.s32 [%0], %1;">() &&
              compiles<"atom.add.acq_rel.gpu.u32 %0, [%1], %2;">());
static_assert(compiles<"bar.sync %0, %1;">() && compiles<"fence.acq_rel.gpu;">() &&
              compiles<"griddepcontrol.wait;">());
static_assert(compiles<"cvta.to.shared.u64 %0, %1;">() && compiles<"tanh.approx.f32 %0, %1;">());

}  // namespace
}  // namespace attn
