// Compares products of a warpgroup with sums in double precision, for both operands' layouts.
#include "kernels/primitives/wgmma.h"

#include <bit>
#include <cmath>
#include <random>

#include "kernels/primitives/barrier.h"
#include "kernels/primitives/matrix.h"
#include "kernels/primitives/matrix_store.h"
#include "kernels/primitives/shared.h"
#include "tests/kernels/executor/harness.h"

namespace attn {
namespace {

// S = Q K^T and O += P V of one warpgroup; all by rows: Q is 64 x D, K and V are N x D.
template <class T, int N, int D>
struct WgmmaWork {
  std::vector<T> q, k, v;
  std::vector<float> s, o;
  std::vector<uint32_t> p;  // [thread][N / 16][4]

  explicit WgmmaWork(uint32_t seed) : s(64 * N), o(64 * D), p(128 * N / 4) {
    std::mt19937 random(seed);
    const auto fill = [&](std::vector<T>& to, int rows) {
      for (int i = 0; i < rows * D; ++i) {
        const float unit = static_cast<float>(random() % 20001) / 10000 - 1;
        to.push_back(from_float<T>(std::ldexp(unit, static_cast<int>(random() % 9) - 4)));
      }
    };
    fill(q, 64), fill(k, N), fill(v, N);
  }
};

template <class Tile>
__device__ void load(Tile tile, const typename Tile::T* from) {
  for (int i = thread_id(); i < Tile::kRows * Tile::D; i += 128)
    tile.at(i / Tile::D, i % Tile::D / 8 * 8)[i % 8] = from[i];
}

template <class T, int N, int D>
__global__ void attend(WgmmaWork<T, N, D>* work) {
  SharedArena arena;
  // The warpgroup's rows are the second 64 of its tile.
  const PanelTile<T, 128, D> q{arena.template carve<T>(128 * D, 1024)};
  const PanelTile<T, N, D> k{arena.template carve<T>(N * D, 1024)}, v{arena.template carve<T>(N * D, 1024)};
  for (int i = thread_id(); i < 64 * D; i += 128) q.at(64 + i / D, i % D / 8 * 8)[i % 8] = work->q[i];
  load(k, work->k.data());
  load(v, work->v.data());
  fence_proxy_async();
  cta_sync();
  float s[N / 8][4], o[D / 8][4];
  const int row = warp_id() * 16 + lane_id() / 4, column = lane_id() % 4 * 2;
  for (int n = 0; n < D / 8; ++n) {
    for (int e = 0; e < 4; ++e) o[n][e] = static_cast<float>((row + e / 2 * 8) * 7 + 8 * n + column + e % 2);
  }
  wgmma_pin(s);
  wgmma_fence();
  wgmma_abt(s, q, 64, k);
  wgmma_commit();
  wgmma_wait<0>();
  uint32_t p[N / 16][4];
  for (int j = 0; j < N / 16; ++j) {
    for (int i = 0; i < 4; ++i) {
      p[j][i] = pack2<T>(s[2 * j + i / 2][i % 2 * 2], s[2 * j + i / 2][i % 2 * 2 + 1]);
      work->p[(thread_id() * N / 16 + j) * 4 + i] = p[j][i];
    }
  }
  wgmma_fence();
  wgmma_pv(o, p, v);
  wgmma_commit();
  wgmma_wait<0>();
  for (int n = 0; n < N / 8; ++n) {
    for (int e = 0; e < 4; ++e) work->s[(row + e / 2 * 8) * N + 8 * n + column + e % 2] = s[n][e];
  }
  for (int n = 0; n < D / 8; ++n) {
    for (int e = 0; e < 4; ++e) work->o[(row + e / 2 * 8) * D + 8 * n + column + e % 2] = o[n][e];
  }
}

template <class T, int N, int D>
void check() {
  for (uint64_t seed : all_schedules()) {
    WgmmaWork<T, N, D> work(11);
    const size_t shared = (128 + 2 * N) * D * 2 + 4096;
    ASSERT_EQ(run_on_cpu(attend<T, N, D>, 1, 128, {.seed = seed, .shared = shared}, &work).told(), "ok");
    const auto near = [&](float got, double exact, double size, int terms) {
      ASSERT_NEAR(got, exact, size * 0x1p-23 * (terms + 1)) << seed;
    };
    for (int i = 0; i < 64 * N; ++i) {
      double exact = 0, size = 0;
      for (int d = 0; d < D; ++d) {
        const double product = double{to_float(work.q[i / N * D + d])} * to_float(work.k[i % N * D + d]);
        exact += product, size += std::fabs(product);
      }
      near(work.s[i], exact, size, D);
    }
    for (int i = 0; i < 64 * D; ++i) {
      const int row = i / D;
      double exact = row * 7 + i % D, size = exact;
      for (int n = 0; n < N; ++n) {
        const double product =
            double{to_float(from_float<T>(work.s[row * N + n]))} * to_float(work.v[n * D + i % D]);
        exact += product, size += std::fabs(product);
      }
      near(work.o[i], exact, size, N);
    }
  }
}

TEST(WgmmaProducts, AreRight) {
  check<F16, 64, 64>();
  check<BF16, 128, 64>();
  check<F16, 128, 128>();
  check<BF16, 80, 256>();
  check<F16, 80, 64>();
}

// C = A^T B of one warpgroup, for the second panel of B; all by rows: A is N x 64, B is N x 128.
template <class T, int N>
struct TransposedWork {
  std::vector<T> a, b;
  std::vector<float> c = std::vector<float>(64 * 64);
};

template <class T, int N>
__global__ void multiply_transposed(TransposedWork<T, N>* work) {
  SharedArena arena;
  const PanelTile<T, N, 64> a{arena.template carve<T>(N * 64, 1024)};
  const PanelTile<T, N, 128> b{arena.template carve<T>(N * 128, 1024)};
  load(a, work->a.data());
  load(b, work->b.data());
  fence_proxy_async();
  cta_sync();
  float c[8][4];
  wgmma_pin(c);
  wgmma_fence();
  wgmma_atb(c, a, b, 1);
  wgmma_commit();
  wgmma_wait<0>();
  const int row = warp_id() * 16 + lane_id() / 4, column = lane_id() % 4 * 2;
  for (int n = 0; n < 8; ++n) {
    for (int e = 0; e < 4; ++e) work->c[(row + e / 2 * 8) * 64 + 8 * n + column + e % 2] = c[n][e];
  }
}

template <class T, int N>
void check_transposed() {
  std::mt19937 random(5);
  const auto value = [&] { return from_float<T>(static_cast<float>(random() % 2001) / 1000 - 1); };
  TransposedWork<T, N> work;
  for (int i = 0; i < N * 64; ++i) work.a.push_back(value());
  for (int i = 0; i < N * 128; ++i) work.b.push_back(value());
  for (uint64_t seed : all_schedules()) {
    std::fill(work.c.begin(), work.c.end(), NAN);
    const size_t shared = N * (64 + 128) * 2 + 2048;
    ASSERT_EQ(run_on_cpu(multiply_transposed<T, N>, 1, 128, {.seed = seed, .shared = shared}, &work).told(),
              "ok");
    for (int i = 0; i < 64 * 64; ++i) {
      double exact = 0, size = 0;
      for (int n = 0; n < N; ++n) {
        const double product =
            double{to_float(work.a[n * 64 + i / 64])} * to_float(work.b[n * 128 + 64 + i % 64]);
        exact += product, size += std::fabs(product);
      }
      ASSERT_NEAR(work.c[i], exact, size * 0x1p-23 * (N + 1)) << seed;
    }
  }
}

TEST(WgmmaProducts, OfATransposedAAreRight) {
  check_transposed<F16, 64>();
  check_transposed<BF16, 128>();
}

// wgmma and mma16816 must give the same bits warp by warp, so that one error model holds for both.
__global__ void like_mma(const uint32_t* a, const F16* b, float* of_warpgroup, float* of_warps) {
  SharedArena arena;
  const PanelTile<F16, 64, 64> k{arena.carve<F16>(64 * 64, 1024)};
  load(k, b);
  fence_proxy_async();
  cta_sync();
  float c[8][4] = {}, d[8][4] = {};
  uint32_t fragment[4];
  for (int i = 0; i < 4; ++i) fragment[i] = a[thread_id() * 4 + i];
  wgmma_fence();
  wgmma_rs<F16>(c, fragment, WgmmaOperand::of(k.base, 8192, 1024), false);
  wgmma_commit();
  wgmma_wait<0>();
  for (int n = 0; n < 8; ++n) {
    const auto pair = [&](int row) {
      const int column = 8 * n + lane_id() / 4;
      return static_cast<uint32_t>(b[row * 64 + column].bits) |
             static_cast<uint32_t>(b[(row + 1) * 64 + column].bits) << 16;
    };
    const int t = lane_id() % 4;
    const uint32_t columns[2] = {pair(2 * t), pair(2 * t + 8)};
    mma16816<F16>(d[n], fragment, columns);
    for (int e = 0; e < 4; ++e) {
      of_warpgroup[thread_id() * 32 + 4 * n + e] = c[n][e];
      of_warps[thread_id() * 32 + 4 * n + e] = d[n][e];
    }
  }
}

TEST(WgmmaProducts, RoundAsMma16816Does) {
  std::mt19937 random(3);
  std::vector<uint32_t> a(512);
  std::vector<F16> b(64 * 64);
  const auto half = [&] { return from_float<F16>(static_cast<float>(random() % 2001) / 1000 - 1).bits; };
  for (uint32_t& word : a) word = half() | static_cast<uint32_t>(half()) << 16;
  for (F16& value : b) value.bits = half();
  for (uint64_t seed : all_schedules()) {
    std::vector<float> of_warpgroup(128 * 32), of_warps(128 * 32);
    ASSERT_EQ(run_on_cpu(like_mma, 1, 128, {.seed = seed, .shared = 10240}, a.data(), b.data(),
                         of_warpgroup.data(), of_warps.data())
                  .told(),
              "ok");
    for (size_t i = 0; i < of_warps.size(); ++i)
      ASSERT_EQ(std::bit_cast<uint32_t>(of_warpgroup[i]), std::bit_cast<uint32_t>(of_warps[i])) << i;
  }
}

__global__ void store_matrices(const uint32_t* in, uint16_t* out) {
  SharedArena arena;
  uint16_t* rows = arena.carve<uint16_t>(32 * 8);
  uint32_t r[4];
  for (int j = 0; j < 4; ++j) r[j] = in[lane_id() * 4 + j];
  stsm4(rows + lane_id() * 8, r);
  syncwarp();
  for (int i = 0; i < 8; ++i) out[lane_id() * 8 + i] = rows[lane_id() * 8 + i];
}

TEST(MatrixStore, PutsEachLanesElementsWhereLdsm4ReadsThem) {
  std::vector<uint32_t> in(128);
  for (uint32_t i = 0; i < 128; ++i) in[i] = i * 0x01000193u + 7;
  for (uint64_t seed : kOrders) {
    std::vector<uint16_t> out(256);
    EXPECT_EQ(run_on_cpu(store_matrices, 1, 32, {.seed = seed, .shared = 1024}, in.data(), out.data()).told(),
              "ok");
    for (int lane = 0; lane < 32; ++lane) {
      for (int j = 0; j < 4; ++j) {
        const int row = j * 8 + lane / 4, column = lane % 4 * 2;
        EXPECT_EQ(out[row * 8 + column] | static_cast<uint32_t>(out[row * 8 + column + 1]) << 16,
                  in[lane * 4 + j]);
      }
    }
  }
}

}  // namespace
}  // namespace attn
