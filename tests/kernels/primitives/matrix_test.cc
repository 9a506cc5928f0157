// Tests tensor-core primitives: fragments, rounding, and rows of tiles, which must have
// the bits of the single products that they consist of.
#include "kernels/primitives/matrix.h"

#include <bit>
#include <cmath>
#include <random>

#include "kernels/primitives/barrier.h"
#include "kernels/primitives/shared.h"
#include "tests/kernels/executor/harness.h"

namespace attn {
namespace {

constexpr uint64_t kNearest = 2, kTruncating = 2 + 8;

// mma_abt() of a row of tiles, computed from single products as matrix.h defines it.
template <int N, class T, int D>
__device__ void mma_abt_by_parts(float (&c)[N / 8][4], SharedTile<T, D> a, int a_row, SharedTile<T, D> b,
                                 int extent) {
  const int lane = lane_id();
  for (int k = 0; k < extent; k += 16) {
    uint32_t fragment[4];
    ldsm4(a.at(a_row + lane % 16, k + 8 * (lane / 16)), fragment);
    for (int n = 0; n < N; n += 16) {
      uint32_t r[4];
      ldsm4(b.at(n + lane % 8 + 8 * (lane / 16), k + 8 * (lane / 8 % 2)), r);
      mma16816<T>(c[n / 8], fragment, {r[0], r[1]});
      mma16816<T>(c[n / 8 + 1], fragment, {r[2], r[3]});
    }
  }
}

template <int K, class T, int D>
__device__ void mma_pb_by_parts(float (&c)[D / 8][4], const uint32_t (&p)[K / 16][4], SharedTile<T, D> b,
                                int extent) {
  const int lane = lane_id();
  for (int k = 0; k < K; k += 16) {
    for (int n = 0; n < extent; n += 16) {
      uint32_t r[4];
      ldsm4_trans(b.at(k + lane % 16, n + 8 * (lane / 16)), r);
      mma16816<T>(c[n / 8], p[k / 16], {r[0], r[1]});
      mma16816<T>(c[n / 8 + 1], p[k / 16], {r[2], r[3]});
    }
  }
}

// S = A B^T and O = S C for one 16-row stripe a warp, in both ways. All by
// rows: A is rows x D, B and C are N x D.
template <class T, int N, int D>
struct Work {
  static constexpr int kRows = 32;
  std::vector<T> a, b, v;
  std::vector<float> s[2], o[2], start;
  int k_extent, n_extent;

  Work(int k, int n, uint32_t seed) : k_extent(k), n_extent(n) {
    std::mt19937 random(seed);
    const auto fill = [&](std::vector<T>& to, int rows) {
      for (int i = 0; i < rows * D; ++i) {
        const float unit = static_cast<float>(random() % 20001) / 10000 - 1;
        to.push_back(from_float<T>(std::ldexp(unit, static_cast<int>(random() % 9) - 4)));
      }
    };
    fill(a, kRows), fill(b, N), fill(v, N);
    for (int i = 0; i < kRows * std::max(N, D); ++i) start.push_back(static_cast<float>(random() % 1000) / 7);
    for (int way = 0; way < 2; ++way) s[way].resize(kRows * N), o[way].resize(kRows * D);
  }
};

template <class T, int D>
__device__ void load(SharedTile<T, D> tile, const T* from, int rows) {
  for (int i = static_cast<int>(threadIdx.x); i < rows * D; i += static_cast<int>(blockDim.x)) {
    *tile.at(i / D, i % D) = from[i];
  }
}

template <int N>
__device__ void move_fragment(float (&c)[N / 8][4], float* at, bool out) {
  const int g = lane_id() / 4, t = lane_id() % 4;
  for (int n = 0; n < N / 8; ++n) {
    for (int i = 0; i < 4; ++i) {
      float& value = at[(warp_id() * 16 + g + i / 2 * 8) * N + 8 * n + 2 * t + i % 2];
      (out ? value : c[n][i]) = out ? c[n][i] : value;
    }
  }
}

template <class T, int N, int D>
__global__ void both_ways(Work<T, N, D>* work) {
  SharedArena arena;
  SharedTile<T, D> a{arena.template carve<T>(SharedTile<T, D>::elements(work->kRows), 128)};
  SharedTile<T, D> b{arena.template carve<T>(SharedTile<T, D>::elements(N), 128)};
  SharedTile<T, D> v{arena.template carve<T>(SharedTile<T, D>::elements(N), 128)};
  load(a, work->a.data(), work->kRows);
  load(b, work->b.data(), N);
  load(v, work->v.data(), N);
  cta_sync();
  for (int way = 0; way < 2; ++way) {
    float s[N / 8][4], o[D / 8][4];
    move_fragment<N>(s, work->start.data(), false);
    move_fragment<D>(o, work->start.data(), false);
    if (way == 0) {
      mma_abt<N>(s, a, warp_id() * 16, b, work->k_extent);
    } else {
      mma_abt_by_parts<N>(s, a, warp_id() * 16, b, work->k_extent);
    }
    uint32_t p[N / 16][4];
    for (int k = 0; k < N / 16; ++k) {
      for (int i = 0; i < 4; ++i)
        p[k][i] = pack2<T>(s[2 * k + i / 2][i % 2 * 2], s[2 * k + i / 2][i % 2 * 2 + 1]);
    }
    if (way == 0) {
      mma_pb<N>(o, p, v, work->n_extent);
    } else {
      mma_pb_by_parts<N>(o, p, v, work->n_extent);
    }
    move_fragment<N>(s, work->s[way].data(), true);
    move_fragment<D>(o, work->o[way].data(), true);
  }
}

template <class T, int N, int D>
void check_both_ways(int k_extent, int n_extent) {
  for (uint64_t seed : {kNearest, kTruncating}) {
    Work<T, N, D> work(k_extent, n_extent, 17);
    const size_t shared = (work.kRows + 2 * N) * D * 2 + 512;
    ASSERT_EQ(run_on_cpu(both_ways<T, N, D>, 1, 64, {.seed = seed, .shared = shared}, &work).told(), "ok");
    for (size_t i = 0; i < work.s[0].size(); ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(work.s[0][i]), std::bit_cast<uint32_t>(work.s[1][i])) << i;
      const int row = static_cast<int>(i) / N, column = static_cast<int>(i) % N;
      double exact = work.start[i], size = std::fabs(exact);
      for (int k = 0; k < k_extent; ++k) {
        const double product =
            static_cast<double>(to_float(work.a[row * D + k])) * to_float(work.b[column * D + k]);
        exact += product, size += std::fabs(product);
      }
      ASSERT_NEAR(work.s[0][i], exact, size * 0x1p-23 * (k_extent + 1)) << i;
    }
    for (size_t i = 0; i < work.o[0].size(); ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(work.o[0][i]), std::bit_cast<uint32_t>(work.o[1][i])) << i;
      const int row = static_cast<int>(i) / D, column = static_cast<int>(i) % D;
      double exact = work.start[i], size = std::fabs(exact);
      for (int k = 0; k < N && column < n_extent; ++k) {
        const double p = to_float(from_float<T>(work.s[0][row * N + k]));
        const double product = p * to_float(work.v[k * D + column]);
        exact += product, size += std::fabs(product);
      }
      ASSERT_NEAR(work.o[0][i], exact, size * 0x1p-23 * (N + 1)) << i;
    }
  }
}

TEST(Matrix, RowsOfTilesEqualTheirPartsInBothRoundings) {
  check_both_ways<F16, 64, 64>(64, 64);
  check_both_ways<BF16, 64, 64>(64, 64);
  check_both_ways<F16, 32, 128>(80, 48);
  check_both_ways<BF16, 48, 128>(128, 16);
  check_both_ways<F16, 64, 256>(16, 256);
  check_both_ways<BF16, 16, 64>(0, 0);
}

TEST(Matrix, RoundingsDiffer) {
  Work<F16, 64, 64> nearest(64, 64, 3), truncating(64, 64, 3);
  run_on_cpu(both_ways<F16, 64, 64>, 1, 64, {.seed = kNearest, .shared = 32768}, &nearest);
  run_on_cpu(both_ways<F16, 64, 64>, 1, 64, {.seed = kTruncating, .shared = 32768}, &truncating);
  EXPECT_NE(nearest.s[0], truncating.s[0]);
}

__global__ void one_product(float addend, float factor, float* out) {
  // A row of A is {factor, 0, ...}, column n of B is {factor, 0, ...}.
  const bool holds_k0 = lane_id() % 4 == 0;
  const uint32_t pair = holds_k0 ? pack2<BF16>(factor, 0) : 0;
  const uint32_t a[4] = {pair, pair, 0, 0}, b[2] = {pair, 0};
  float c[4] = {addend, addend, addend, addend};
  mma16816<BF16>(c, a, b);
  out[lane_id()] = c[lane_id() % 4];
}

TEST(Matrix, SpecialValuesPass) {
  float out[32];
  const auto product = [&](float addend, float factor, uint64_t seed) {
    EXPECT_EQ(run_on_cpu(one_product, 1, 32, {.seed = seed}, addend, factor, out).told(), "ok");
    for (float value : out) EXPECT_EQ(std::bit_cast<uint32_t>(value), std::bit_cast<uint32_t>(out[0]));
    return out[0];
  };
  for (uint64_t seed : {kNearest, kTruncating}) {
    EXPECT_EQ(product(1, 3, seed), 10);
    EXPECT_EQ(product(-inf(), 3, seed), -inf());
    EXPECT_EQ(product(0, 0x1p100f, seed), inf());
    EXPECT_TRUE(std::isnan(product(-inf(), inf(), seed)));
    EXPECT_TRUE(std::isnan(product(std::nanf(""), 0, seed)));
    // Infinity times the zeros in the rest of a row.
    EXPECT_TRUE(std::isnan(product(0, std::nanf(""), seed)));
  }
  // Above 1 by more than half a unit in the last place; and above -1 by less than half a unit.
  EXPECT_EQ(product(1, 0x1.4p-12f, kNearest), 1 + 0x1p-23f);
  EXPECT_EQ(product(1, 0x1.4p-12f, kTruncating), 1);
  EXPECT_EQ(product(-1, 0x1p-13f, kNearest), -1);
  EXPECT_EQ(product(-1, 0x1p-13f, kTruncating), -1 + 0x1p-24f);
}

__global__ void matrices(const uint16_t* in, uint32_t* out, bool trans) {
  SharedArena arena;
  uint16_t* rows = arena.carve<uint16_t>(32 * 8);
  for (int i = 0; i < 8; ++i) rows[lane_id() * 8 + i] = in[lane_id() * 8 + i];
  syncwarp();
  uint32_t r[4];
  if (trans) {
    ldsm4_trans(rows + lane_id() * 8, r);
  } else {
    ldsm4(rows + lane_id() * 8, r);
  }
  for (int j = 0; j < 4; ++j) out[lane_id() * 4 + j] = r[j];
}

TEST(Matrix, LoadsGiveEachLaneItsElements) {
  std::vector<uint16_t> in(256);
  for (int i = 0; i < 256; ++i) in[i] = static_cast<uint16_t>(i * 257 + 3);
  std::vector<uint32_t> out(128);
  for (bool trans : {false, true}) {
    EXPECT_EQ(run_on_cpu(matrices, 1, 32, {.shared = 1024}, in.data(), out.data(), trans).told(), "ok");
    for (int lane = 0; lane < 32; ++lane) {
      for (int j = 0; j < 4; ++j) {
        const auto element = [&](int row, int column) { return in[j * 64 + row * 8 + column]; };
        const int g = lane / 4, t = lane % 4;
        const uint32_t low = trans ? element(2 * t, g) : element(g, 2 * t);
        const uint32_t high = trans ? element(2 * t + 1, g) : element(g, 2 * t + 1);
        EXPECT_EQ(out[lane * 4 + j], low | high << 16);
      }
    }
  }
}

TEST(Matrix, TilesAreSwizzledInPlace) {
  std::vector<F16> memory(16 * 128);
  SharedTile<F16, 128> tile{memory.data()};
  EXPECT_EQ((SharedTile<F16, 128>::elements(3)), 384u);
  std::vector<bool> seen(16 * 128);
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 128; ++column) {
      const auto at = static_cast<size_t>(tile.at(row, column) - tile.base);
      EXPECT_EQ(at / 64, static_cast<size_t>(row * 2 + column / 64)) << "stays in its group of eight chunks";
      EXPECT_EQ(at / 8 % 8, static_cast<size_t>((column / 8 % 8) ^ (row % 8)));
      EXPECT_FALSE(seen[at]);
      seen[at] = true;
    }
  }
}

enum class Wrong { kRow, kTile, kExtent, kUnequalExtent, kAlignment };

__global__ void misuse(Wrong wrong, int* line) {
  SharedArena arena;
  SharedTile<F16, 64> a{arena.carve<F16>(32 * 64)}, b{arena.carve<F16>(16 * 64)};
  const bool odd_one = lane_id() == 20;
  if (wrong == Wrong::kAlignment) {
    uint32_t r[4];
    *line = __LINE__ + 1;
    ldsm4(a.base + lane_id() * 64 + (odd_one ? 4 : 0), r);
  }
  if (wrong == Wrong::kTile && odd_one) b = a;
  float c[2][4] = {};
  const int extent = wrong == Wrong::kExtent ? 24 : wrong == Wrong::kUnequalExtent && odd_one ? 48 : 64;
  *line = __LINE__ + 1;
  mma_abt<16>(c, a, wrong == Wrong::kRow && odd_one ? 16 : 0, b, extent);
}

TEST(Matrix, LanesThatPassDifferentArgumentsAreReported) {
  int line = 0;
  const auto run = [&](Wrong wrong) { return run_on_cpu(misuse, 1, 32, {.shared = 8192}, wrong, &line); };
  expect_fault(run(Wrong::kRow), ATTN_REPORT_DIVERGENCE, {20, 0, 0}, line, "another A than lane 0");
  expect_fault(run(Wrong::kTile), ATTN_REPORT_DIVERGENCE, {20, 0, 0}, line, "another B than lane 0");
  expect_fault(run(Wrong::kUnequalExtent), ATTN_REPORT_DIVERGENCE, {20, 0, 0}, line, "another extent of k");
  expect_fault(run(Wrong::kExtent), ATTN_REPORT_DIVERGENCE, {0, 0, 0}, line, "not a multiple of 16");
  const Outcome misaligned = run(Wrong::kAlignment);
  expect_fault(misaligned, ATTN_REPORT_ALIGNMENT, {20, 0, 0}, line, "not a multiple of 16");
}

}  // namespace
}  // namespace attn
