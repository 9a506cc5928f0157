// Measures the executor: nanoseconds for a switch at a barrier, a shuffle and an empty block; and rows of
// tiles, compared with a plain fp32 loop on the same numbers.
//
//   build/full/bin/simt_bench     (target simt_bench, not part of `all`)
#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "kernels/primitives/barrier.h"
#include "kernels/primitives/launch.h"
#include "kernels/primitives/matrix.h"
#include "kernels/primitives/shared.h"
#include "kernels/primitives/wgmma.h"

namespace attn {
namespace {

// The best of several runs, in nanoseconds.
template <class Work>
double best(Work work) {
  double least = 1e300;
  for (int run = 0; run < 20; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - begin;
    least = std::min(least, taken.count());
  }
  return least;
}

__global__ void empty() {}

__global__ void barriers(int count) {
  for (int i = 0; i < count; ++i) cta_sync();
}

__global__ void shuffles(int count, float* out) {
  float value = 1;
  for (int i = 0; i < count; ++i) value = shfl_xor(value, 1);
  out[threadIdx.x] = value;
}

enum class Product { kNone, kAbt, kPb };

// One warp: `count` times the row of tiles of a 64x64x64 product.
template <class T>
__global__ void products(Product product, int count, float* out) {
  SharedArena arena;
  SharedTile<T, 64> a{arena.template carve<T>(64 * 64, 128)}, b{arena.template carve<T>(64 * 64, 128)};
  memset(a.base, 0x11, 64 * 64 * 2), memset(b.base, 0x12, 64 * 64 * 2);
  float c[8][4] = {};
  uint32_t p[4][4] = {};
  for (int i = 0; i < count; ++i) {
    if (product == Product::kAbt) mma_abt<64>(c, a, i % 4 * 16, b, 64);
    if (product == Product::kPb) mma_pb<64>(c, p, b, 64);
    if (product == Product::kNone) syncwarp();
  }
  out[threadIdx.x] = c[3][2];
}

// One warpgroup: `count` times a 64x64x64 product and its wait.
__global__ void warpgroup_products(int count, float* out) {
  SharedArena arena;
  using Tile = PanelTile<F16, 64, 64>;
  const Tile a{arena.carve<F16>(64 * 64, 1024)}, b{arena.carve<F16>(64 * 64, 1024)};
  memset(a.base, 0x11, 64 * 64 * 2), memset(b.base, 0x12, 64 * 64 * 2);
  float c[8][4];
  for (int i = 0; i < count; ++i) {
    wgmma_fence();
    wgmma_abt(c, a, 0, b);
    wgmma_commit();
    wgmma_wait<0>();
  }
  out[threadIdx.x] = c[3][2];
}

// The product as a plain fp32 loop without lanes: C(16x64) += A(16x64) B(64x64), with rows of C in vector
// registers.
__attribute__((noinline)) void plain_product(float* __restrict__ c, const float* __restrict__ a,
                                             const float* __restrict__ b) {
  typedef float V __attribute__((vector_size(32)));
  const auto load = [](const float* from) {
    V value;
    memcpy(&value, from, sizeof value);
    return value;
  };
  for (int row = 0; row < 16; row += 4) {
    for (int column = 0; column < 64; column += 16) {
      V sum[4][2];
      for (int r = 0; r < 4; ++r) {
        for (int v = 0; v < 2; ++v) sum[r][v] = load(c + (row + r) * 64 + column + 8 * v);
      }
      for (int k = 0; k < 64; ++k) {
        const V b0 = load(b + k * 64 + column), b1 = load(b + k * 64 + column + 8);
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          const V factor = a[(row + r) * 64 + k] - V{};
          sum[r][0] = __builtin_elementwise_fma(factor, b0, sum[r][0]);
          sum[r][1] = __builtin_elementwise_fma(factor, b1, sum[r][1]);
        }
      }
      for (int r = 0; r < 4; ++r) memcpy(c + (row + r) * 64 + column, sum[r], sizeof sum[r]);
    }
  }
}

int main_of_bench() {
  attn_env env{};
  env.size = sizeof env;
  env.shared_memory_limit = 1 << 17;
  std::vector<float> out(1024);
  for (uint64_t seed : {0, 2}) {
    env.schedule_seed = seed;
    printf("order %s\n", seed ? "random" : "ascending");
    printf("  empty block      %6.1f ns a thread\n",
           best([&] { launch(empty, dim3(100), dim3(128), 0, &env); }) / 12800);
    printf("  cta_sync         %6.1f ns a thread\n",
           best([&] { launch(barriers, dim3(1), dim3(128), 0, &env, 1000); }) / 128000);
    printf("  shfl_xor         %6.1f ns a lane\n",
           best([&] { launch(shuffles, dim3(1), dim3(128), 0, &env, 1000, out.data()); }) / 128000);
    const auto row = [&](auto kernel, Product product) {
      return best([&] { launch(kernel, dim3(1), dim3(32), 1 << 15, &env, product, 1000, out.data()); }) / 1e6;
    };
    const double meeting = row(products<F16>, Product::kNone);
    printf("  meeting of a warp                 %6.3f us\n", meeting);
    printf("  mma_abt 16x64x64 fp16, bf16       %6.3f, %.3f us\n", row(products<F16>, Product::kAbt),
           row(products<BF16>, Product::kAbt));
    printf("  mma_pb  16x64x64 fp16, bf16       %6.3f, %.3f us\n", row(products<F16>, Product::kPb),
           row(products<BF16>, Product::kPb));
    printf("  wgmma_abt 64x64x64 fp16           %6.3f us\n",
           best([&] { launch(warpgroup_products, dim3(1), dim3(128), 1 << 15, &env, 200, out.data()); }) / 2e5);
  }
  env.schedule_seed = 8;
  printf("truncating\n  mma_abt 16x64x64 fp16             %6.3f us\n",
         best([&] {
           launch(products<F16>, dim3(1), dim3(32), 1 << 15, &env, Product::kAbt, 1000, out.data());
         }) / 1e6);
  std::vector<float> a(16 * 64, 0.01f), b(64 * 64, 0.02f), c(16 * 64);
  printf("plain fp32 loop 16x64x64            %6.3f us\n", best([&] {
                                                             for (int i = 0; i < 1000; ++i) {
                                                               plain_product(c.data(), a.data(), b.data());
                                                             }
                                                           }) / 1e6);
  return out[0] + c[0] == 0;  // keeps the compiler from removing them
}

}  // namespace
}  // namespace attn

int main() { return attn::main_of_bench(); }
