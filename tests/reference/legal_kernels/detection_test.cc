// A bound that never fails is worth nothing. This test plants bugs, and requires that
// the bound catches each in a least share of cases.
//
// No regime of data is enough for all bugs. Where the table shows 0 for Q = 0 the bug
// has no effect: there is nothing to rescale, and no scale to get wrong. The first
// table judges only O; the LSE catches some bugs that O cannot.
#include <gtest/gtest.h>

#include <cstdio>
#include <vector>

#include "tests/reference/legal_kernels/emulation.h"

namespace attnfuzz {
namespace {

constexpr Regime kColumns[] = {Regime::kGaussian, Regime::kUniform, Regime::kPeaked, Regime::kZeroQuery,
                               Regime::kNegative};

struct Share {
  double by_o = 0;
  double by_either = 0;
};

Share share_caught(Bug bug, Regime regime) {
  constexpr int kCases = 60;
  Random random(97);
  Share caught;
  for (int k = 0; k < kCases; ++k) {
    Shape shape;
    shape.dtype = k % 2 ? ATTN_F16 : ATTN_BF16;
    shape.seq_q = shape.seq_k = 33 + random.below(64);
    shape.dim_qk = 64;
    shape.dim_v = 32;
    shape.tile_k = 32;
    shape.causal = bug == Bug::kDiagonalMissing || random.below(2) == 0;
    Case c(shape);
    c.fill(regime, random.bits());
    const Worst worst = worst_of(c.reference(), emulate(c, {Mma::kNearest, ExpError::kNone, bug, 1}));
    caught.by_o += worst.o > 1 ? 1.0 / kCases : 0;
    caught.by_either += worst.o > 1 || worst.lse > 1 ? 1.0 / kCases : 0;
  }
  return caught;
}

// Floors of the share that O catches, below the measured shares by about the scatter of
// 60 cases. A bound that became useless fails them.
constexpr double kFloor[][5] = {
    {.90, .90, .03, .90, 0},    // drop the last key
    {.75, .75, .75, 0, .03},    // no rescale
    {.90, .90, .80, .90, .20},  // diagonal key missing
    {.95, .20, .65, 0, 0},      // scale from d-2
    {.80, 0, .65, 0, 0},        // flush P below 2^-7
    {0, 0, 0, 0, .65},          // -5e4 as minus infinity
};

void print_row(const char* name, const std::vector<double>& shares) {
  std::printf("  %-22s", name);
  for (const double share : shares) std::printf("%10.2f", share);
  std::printf("\n");
}

TEST(Detection, TableOfPlantedBugs) {
  std::vector<std::vector<double>> by_o, by_either;
  for (const Bug bug : kBugs) {
    std::vector<double> row, row_either;
    for (const Regime regime : kColumns) {
      const Share share = share_caught(bug, regime);
      row.push_back(share.by_o);
      row_either.push_back(share.by_either);
    }
    by_o.push_back(row);
    by_either.push_back(row_either);
  }
  for (const auto* table : {&by_o, &by_either}) {
    std::printf("  %-22s", table == &by_o ? "share caught by O" : "share caught by either");
    for (const Regime regime : kColumns) std::printf("%10s", name_of(regime));
    std::printf("\n");
    for (const Bug bug : kBugs) print_row(name_of(bug), (*table)[static_cast<size_t>(bug) - 1]);
  }
  for (const Bug bug : kBugs)
    for (size_t column = 0; column < std::size(kColumns); ++column) {
      const size_t row = static_cast<size_t>(bug) - 1;
      EXPECT_GE(by_o[row][column], kFloor[row][column]) << name_of(bug) << ", " << name_of(kColumns[column]);
    }
  // The LSE also shows every wrong scale that changes a score, and every row that lost its sum.
  EXPECT_GE(by_either[static_cast<size_t>(Bug::kScaleOfD2) - 1][1], .95);
  EXPECT_GE(by_either[static_cast<size_t>(Bug::kFiniteInfinity) - 1][4], .95);
  // A bug without effect on these data must not be "caught".
  for (const Bug bug : {Bug::kNoRescale, Bug::kScaleOfD2, Bug::kFlushP, Bug::kFiniteInfinity})
    EXPECT_EQ(by_either[static_cast<size_t>(bug) - 1][3], 0) << name_of(bug) << " with Q = 0";
}

}  // namespace
}  // namespace attnfuzz
