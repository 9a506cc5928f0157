// Tests that a correct kernel is never called wrong. The emulation is correct by
// construction, so all its results must be within the bounds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>

#include "tests/reference/legal_kernels/emulation.h"

namespace attnfuzz {
namespace {

Shape any_regime_shape(Random* random) {
  constexpr int64_t kDims[] = {16, 32, 64, 40};
  Shape s;
  s.tile_k = 16 << random->below(2);
  s.tile_q = 16;
  s.seq_q = 1 + random->below(10);
  s.seq_k = 1 + random->below(random->below(4) ? 80 : 200);
  s.dim_qk = kDims[random->below(4)];
  s.dim_v = 8 + random->below(10);
  s.causal = random->below(3) == 0;
  s.align = static_cast<int32_t>(random->below(2));
  if (random->below(4) == 0) s.window_left = random->below(40);
  return s;
}

struct Tally {
  double o = 0, lse = 0;
  int64_t rows = 0, uninformative = 0, judged = 0;
  void add(const Reference& reference, const Worst& worst) {
    o = std::max(o, worst.o);
    lse = std::max(lse, worst.lse);
    rows += reference.sampled - reference.dead;
    uninformative += reference.uninformative;
    judged += worst.judged > 0 || reference.sampled == reference.dead;
  }
};

TEST(NoFalseAlarm, EveryRegimeFormatSplitAndRounding) {
  constexpr int kCases = 120;
  std::map<std::string, Tally> by_regime;
  Random random(11);
  for (const Regime regime : kRegimes)
    for (const int32_t dtype : {ATTN_F16, ATTN_BF16})
      for (const int64_t splits : {1, 4})
        for (const Mma mma : {Mma::kNearest, Mma::kTruncate, Mma::kAlign})
          for (int k = 0; k < kCases; ++k) {
            Shape shape = any_regime_shape(&random);
            shape.dtype = dtype;
            shape.num_splits = splits;
            Case c(shape);
            c.fill(regime, random.bits());
            const Emulated how{mma, static_cast<ExpError>(k % 3), Bug::kNone, random.bits()};
            const Reference reference = c.reference();
            const Worst worst = worst_of(reference, emulate(c, how));
            by_regime[name_of(regime)].add(reference, worst);
            ASSERT_LE(worst.o, 1) << name_of(regime) << " dtype " << dtype << " splits " << splits;
            ASSERT_LE(worst.lse, 1) << name_of(regime) << " dtype " << dtype << " splits " << splits;
          }
  for (const auto& [name, tally] : by_regime) {
    EXPECT_EQ(tally.judged, kCases * 12) << name << ": in some cases nothing is judged";
    std::printf("  %-19s largest error/bound: O %.2f  LSE %.2f  uninformative rows %.1f %%\n", name.c_str(),
                tally.o, tally.lse,
                100.0 * static_cast<double>(tally.uninformative) / static_cast<double>(tally.rows));
  }
}

TEST(NoFalseAlarm, BiasSoftcapSeparateScaleAndMasks) {
  Tally tally;
  Random random(12);
  for (int k = 0; k < 6000; ++k) {
    Shape shape = any_regime_shape(&random);
    shape.dtype = static_cast<int32_t>(random.below(2));
    shape.num_splits = 1 + random.below(3);
    if (random.below(2)) shape.bias_dtype = ATTN_F32;
    if (random.below(2)) shape.softcap = random.below(2) ? 5.0f : 30.0f;
    shape.mask = random.below(5) == 0;
    Case c(shape);
    c.fill(kRegimes[random.below(std::size(kRegimes))], random.bits());
    // With a bias or a softcap the score is scaled before the exponential, so the scale cannot be fused.
    if (shape.bias_dtype != ATTN_NONE || shape.softcap > 0 || random.below(2))
      c.plan.scale_mode = ATTN_SCALE_SEPARATE;
    if (random.below(5) == 0) c.problem.scale = random.below(3) ? -c.problem.scale : 0;
    if (random.below(3) == 0) c.plan.p_format = ATTN_FORMAT_F32;
    const Emulated how{static_cast<Mma>(random.below(3)), static_cast<ExpError>(random.below(3)), Bug::kNone,
                       random.bits()};
    const Reference reference = c.reference();
    const Worst worst = worst_of(reference, emulate(c, how));
    tally.add(reference, worst);
    ASSERT_LE(worst.o, 1) << "case " << k;
    ASSERT_LE(worst.lse, 1) << "case " << k;
  }
  EXPECT_EQ(tally.judged, 6000);
  std::printf("  bias, softcap, separate scale, masks: O %.2f  LSE %.2f\n", tally.o, tally.lse);
}

TEST(NoFalseAlarm, LongRowsOnTensorCores) {
  Tally tally;
  Random random(13);
  for (const Regime regime : kRegimes)
    for (const Mma mma : {Mma::kTruncate, Mma::kAlign}) {
      Shape shape{.seq_q = 1, .seq_k = 9000, .dim_qk = 16, .dim_v = 16, .tile_k = 64};
      shape.num_splits = 1 + random.below(3);
      Case c(shape);
      c.fill(regime, random.bits());
      c.plan.key_order = ATTN_KEYS_CONSECUTIVE;
      const Reference reference = c.reference();
      const Worst worst = worst_of(reference, emulate(c, {mma, ExpError::kRandom, Bug::kNone, random.bits()}));
      tally.add(reference, worst);
      ASSERT_LE(worst.o, 1) << name_of(regime);
      ASSERT_LE(worst.lse, 1) << name_of(regime);
      // The sum of 9000 products may lose 1e-3 of sum w|v|, but not where V cancels.
      if (regime == Regime::kGaussian) EXPECT_LT(reference[TensorId::kO].bound[0], 1.2e-3);
    }
  EXPECT_EQ(tally.judged, 20);
  std::printf("  long rows: O %.2f  LSE %.2f\n", tally.o, tally.lse);
}

}  // namespace
}  // namespace attnfuzz
