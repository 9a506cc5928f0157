// Tests steps of 16: fragments of a tile and of its transpose, products with some of a tile's columns, and sums
// of fragments in global memory. Each is compared with an exact sum of small integers.
#include <vector>

#include "kernels/primitives/barrier.h"
#include "kernels/primitives/fragment_sums.h"
#include "kernels/primitives/matrix_rows.h"
#include "kernels/primitives/shared.h"
#include "tests/kernels/executor/harness.h"

namespace attn {
namespace {

constexpr int kRows = 64, kPairs = 64;  // rows of both tiles, and columns of the first

float first(int row, int column) { return static_cast<float>((row * 7 + column * 3) % 11 - 5); }
float second(int row, int column) { return static_cast<float>((row * 5 + column * 2) % 13 - 6); }

// C += P B with P a step of A or of its transpose: 32 rows from `row`, columns `column`.. of B.
template <int D, int N>
__global__ void product(const F16* a, const F16* b, bool trans, int row, int column, float* out) {
  SharedArena arena;
  const SharedTile<F16, kPairs> pairs{arena.carve<F16>(kRows * kPairs, 1024)};
  const SharedTile<F16, D> tile{arena.carve<F16>(kRows * D, 1024)};
  for (int i = lane_id(); i < kRows * kPairs; i += 32) *pairs.at(i / kPairs, i % kPairs) = a[i];
  for (int i = lane_id(); i < kRows * D; i += 32) *tile.at(i / D, i % D) = b[i];
  cta_sync();
  float c[2][N][4] = {};
  for (int k = 0; k < kRows; k += 16) {
    uint32_t fragments[2][4];
    if (trans) {
      ldsm_step_trans(pairs, k, row, fragments);
    } else {
      ldsm_step(pairs, row, k, fragments);
    }
    mma_pb(c, fragments, tile, k, column);
  }
  for (int m = 0; m < 2; ++m) {
    for (int n = 0; n < N; ++n) {
      for (int e = 0; e < 4; ++e)
        out[(16 * m + 8 * (e / 2) + lane_id() / 4) * 8 * N + 8 * n + 2 * (lane_id() % 4) + e % 2] = c[m][n][e];
    }
  }
}

template <int D, int N>
void check_product(bool trans, int row, int column) {
  std::vector<F16> a, b;
  for (int i = 0; i < kRows * kPairs; ++i) a.push_back(from_float<F16>(first(i / kPairs, i % kPairs)));
  for (int i = 0; i < kRows * D; ++i) b.push_back(from_float<F16>(second(i / D, i % D)));
  std::vector<float> out(32 * 8 * N);
  const size_t shared = kRows * (kPairs + D) * sizeof(F16) + 2048;
  ASSERT_EQ(run_on_cpu(product<D, N>, 1, 32, {.seed = 2, .shared = shared}, a.data(), b.data(), trans, row, column,
                       out.data())
                .told(),
            "ok");
  for (int i = 0; i < 32; ++i) {
    for (int j = 0; j < 8 * N; ++j) {
      float due = 0;
      for (int k = 0; k < kRows; ++k) due += (trans ? first(k, row + i) : first(row + i, k)) * second(k, column + j);
      ASSERT_EQ(out[i * 8 * N + j], due) << i << " " << j;
    }
  }
}

TEST(MatrixSteps, TakeAnyGroupOfRowsAndColumns) {
  for (bool trans : {false, true}) {
    check_product<64, 8>(trans, 0, 0);
    check_product<64, 4>(trans, 32, 32);
    check_product<128, 16>(trans, 32, 0);
    check_product<128, 8>(trans, 0, 64);
    check_product<128, 4>(trans, 32, 96);
  }
}

__global__ void add(float* sums) {
  float c[4];
  for (int e = 0; e < 4; ++e) c[e] = static_cast<float>(100 * e + lane_id() + static_cast<int>(blockIdx.x));
  add_fragment(sums, c);
}

TEST(FragmentSums, HoldTheSumOfAllBlocks) {
  std::vector<float> sums(128);
  ASSERT_EQ(run_on_cpu(add, 3, 32, {.seed = 5}, sums.data()).told(), "ok");
  for (int lane = 0; lane < 32; ++lane) {
    for (int e = 0; e < 4; ++e)
      EXPECT_EQ(sums[fragment_place(lane, e)], static_cast<float>(3 * (100 * e + lane) + 3)) << lane << " " << e;
  }
}

}  // namespace
}  // namespace attn
