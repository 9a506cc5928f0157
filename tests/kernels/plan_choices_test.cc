// Tests choices of plan() that no result of the kernel shows, and that plan() reports them.
#include <algorithm>

#include "tests/kernels/offer.h"

namespace attnfuzz {
namespace {

class PlanChoices : public PlanTest {};
class SplitChoices : public PlanTest {};  // the kernel with splits

// The kernels that have a path for aligned rows: fa1 and fa1a.
class MmaChoices : public PlanTest {
 protected:
  using Change = std::function<void(Offer&)>;

  int32_t variant() const { return GetParam() == "fa1" ? 2 : 1; }
  // The plan's path, or "refused" if fa1a refuses what fa1 does on another path.
  std::string path(const Change& change) {
    const Answer answer = ask([&](Offer& x) {
      x.env.variant = variant();
      x.problem.batch = x.problem.heads_q = x.problem.heads_kv = 2;
      x.dense();
      change(x);
    });
    const bool refused = GetParam() == "fa1a" && !answer.ok();
    EXPECT_TRUE(answer.ok() || refused) << answer.reason;
    return std::string(refused ? "refused" : answer.plan.path);
  }
  bool taken(const Change& change) { return path(change).find(" mma") != std::string::npos; }
  bool scored(const Change& change) { return path(change).find(" mma scored") != std::string::npos; }
  attn_plan shape() {
    return ask([&](Offer& x) { x.env.variant = variant(); }).plan;
  }
};
class MmaGrid : public MmaChoices {};  // only fa1a: fa1 takes another path for a grid that fa1a refuses

TEST_P(PlanChoices, SayThatOIsDividedAtTheEnd) {
  EXPECT_EQ(ask([](Offer&) {}).plan.p_order, ATTN_P_UNNORMALISED);
}

TEST_P(PlanChoices, TakeTheRequestedShapeOrTheLargestThatFits) {
  const auto with = [&](int32_t variant, int64_t dim, int64_t limit) {
    return ask([&](Offer& x) {
      x.env.variant = variant, x.env.shared_memory_limit = limit;
      x.problem.dim_qk = dim;
      x.dense();
      x.problem.has_mask = 1, x.tensors.mask = x.tensors.q;  // with a mask, fa1 takes its general path
    });
  };
  constexpr int64_t kMuch = 232448;
  EXPECT_EQ(with(1, 64, kMuch).plan.tile_k, 64);
  EXPECT_EQ(with(2, 64, kMuch).plan.tile_k, 128);
  EXPECT_EQ(with(0, 64, kMuch).plan.tile_k, 128) << "the largest that fits";
  EXPECT_EQ(with(0, 64, 65536).plan.tile_k, 64) << "the largest that fits";
  EXPECT_EQ(with(2, 256, kMuch).plan.tile_k, 32) << "the only one of 256 columns";
  EXPECT_EQ(with(1, 65, kMuch).plan.tile_q, 64);
  EXPECT_NE(std::string(with(1, 65, kMuch).plan.path).find("d128"), std::string::npos) << "the fewest columns";
  EXPECT_NE(std::string(with(1, 64, kMuch).plan.path).find("d64"), std::string::npos);
  EXPECT_EQ(std::string(with(1, 65, kMuch).plan.path).find("d64"), std::string::npos);
  // (64 + 4 * 64) rows of 64 columns, 2 bytes each.
  EXPECT_TRUE(with(1, 64, 40960).ok());
  EXPECT_EQ(with(1, 64, 40959).status, ATTN_UNSUPPORTED);
  EXPECT_EQ(with(0, 64, 40960).plan.tile_k, 64);
  EXPECT_EQ(with(0, 64, 40959).reason, "needs 40960 bytes of shared memory a block; the limit is 40959");
}

TEST_P(PlanChoices, AreReportedInThePlan) {
  for (int64_t seq_k : {0, 1, 64, 65, 1000}) {
    for (int64_t asked : {0, 1, 3, 40}) {
      const Answer answer =
          ask([&](Offer& x) { x.problem.seq_k = seq_k, x.problem.num_splits = asked, x.dense(); });
      const attn_plan& plan = answer.plan;
      SCOPED_TRACE("seq_k " + std::to_string(seq_k) + ", splits " + std::to_string(asked));
      ASSERT_TRUE(answer.ok()) << answer.reason;
      EXPECT_EQ(plan.size, sizeof plan);
      EXPECT_EQ(
          std::string(plan.path).rfind(std::to_string(plan.tile_q) + "x" + std::to_string(plan.tile_k), 0), 0u);
      EXPECT_EQ(plan.num_splits, !splits() ? 1 : asked > 0 ? asked : plan.num_splits);
      const int64_t tiles = (seq_k + plan.tile_k - 1) / plan.tile_k;
      EXPECT_GE(plan.split_tiles * plan.num_splits, tiles) << "a key is in no split";
      EXPECT_LT((plan.split_tiles - 1) * plan.num_splits, std::max<int64_t>(tiles, 1))
          << "splits larger than need be";
      EXPECT_EQ(plan.rescales, plan.split_tiles);
      EXPECT_EQ(plan.merges, plan.num_splits > 1 ? plan.num_splits : 0);
      EXPECT_EQ(plan.mma_block, 0);
      const int64_t partials = splits() ? 128 * plan.num_splits * (64 + 1) * 4 : 0;
      EXPECT_EQ(plan.workspace_bytes, static_cast<uint64_t>(partials));
    }
  }
}

TEST_P(SplitChoices, HeadsShareATileThatOneHeadWouldLeaveEmpty) {
  const auto packed = [&](int64_t seq_q, int64_t group, int64_t dim = 64) {
    const Answer answer = ask([&](Offer& x) {
      x.problem.dim_qk = dim;
      x.problem.heads_q = 2 * group, x.problem.heads_kv = 2, x.problem.seq_q = seq_q;
      x.dense();
    });
    EXPECT_TRUE(answer.ok()) << answer.reason;
    return std::string(answer.plan.path).find("packed") != std::string::npos;
  };
  EXPECT_TRUE(packed(1, 2));
  EXPECT_TRUE(packed(32, 2));
  EXPECT_TRUE(packed(32, 2, 256)) << "however few keys a tile has";
  EXPECT_FALSE(packed(33, 2));
  EXPECT_FALSE(packed(1, 1));
}

TEST_P(MmaChoices, TakesAnyDeviceThatHasRoom) {
  EXPECT_TRUE(taken([](Offer&) {}));
  EXPECT_TRUE(taken([](Offer& x) { x.env.variant = 0; }));
  EXPECT_TRUE(taken([](Offer& x) { x.env.compute_capability = 80; }));
  EXPECT_TRUE(taken([](Offer& x) { x.problem.causal = 1, x.problem.window_left = 3; }));
  EXPECT_TRUE(taken([](Offer& x) { x.problem.dim_qk = 64, x.problem.dim_v = 8, x.dense(); }));
  EXPECT_TRUE(taken([](Offer& x) { x.problem.dim_qk = 8, x.problem.dim_v = 64, x.dense(); }));
  EXPECT_TRUE(taken([](Offer& x) { x.tensors.k.stride[0] = 0, x.tensors.lse.data = nullptr; }));
  const int64_t bytes = (shape().tile_q + 4 * shape().tile_k) * 128;  // a tile of Q, two of K and two of V
  EXPECT_TRUE(taken([&](Offer& x) { x.env.shared_memory_limit = bytes; }));
  EXPECT_FALSE(taken([&](Offer& x) { x.env.variant = 0, x.env.shared_memory_limit = bytes - 1; }));
  if (GetParam() == "fa1") {
    EXPECT_EQ(bytes, 49152) << "(128 + 4 * 64) rows of 128 bytes";
    EXPECT_FALSE(taken([](Offer& x) { x.env.variant = 1; }));
    EXPECT_TRUE(taken([](Offer& x) { x.problem.dim_qk = 128, x.problem.dim_v = 8, x.dense(); }));
  }
}

TEST_P(MmaChoices, TakesScoresWithoutAMask) {
  EXPECT_FALSE(scored([](Offer& x) { x.problem.scale = -1; }));
  EXPECT_TRUE(scored([](Offer& x) { x.problem.softcap = 1; }));
  EXPECT_TRUE(scored([](Offer& x) { x.problem.softcap = 1, x.problem.scale = 0; }));
  EXPECT_TRUE(scored([](Offer& x) { x.problem.scale = 0; }));
  EXPECT_TRUE(scored([](Offer& x) { x.problem.bias_dtype = ATTN_F16, x.tensors.bias = x.tensors.q; }));
  EXPECT_FALSE(taken([](Offer& x) { x.problem.softcap = 1e-40f; })) << "subnormal";
  EXPECT_FALSE(taken([](Offer& x) { x.problem.softcap = 1e-30f, x.problem.scale = 1e30f; }))
      << "scale / softcap overflows fp32";
  EXPECT_FALSE(taken([](Offer& x) { x.problem.softcap = 3e38f; })) << "softcap * log2 e overflows fp32";
  EXPECT_FALSE(taken([](Offer& x) { x.problem.has_mask = 1, x.tensors.mask = x.tensors.q; }));
}

TEST_P(MmaChoices, TakesSizesOfItsShapes) {
  for (int64_t attn_problem::* size : {&attn_problem::batch, &attn_problem::seq_q, &attn_problem::seq_k})
    EXPECT_FALSE(taken([&](Offer& x) { x.problem.*size = 0, x.dense(); }));
  const auto wide = [&](int64_t dim_qk, int64_t dim_v) {
    return path([&](Offer& x) { x.problem.dim_qk = dim_qk, x.problem.dim_v = dim_v, x.dense(); });
  };
  for (const std::string& of : {wide(72, 8), wide(8, 128)})  // fa1a may be compiled for only 64 columns
    EXPECT_TRUE(of == "refused" || of.find("d128 mma") != std::string::npos) << of;
  EXPECT_NE(wide(64, 8).find("d64 mma"), std::string::npos) << "the fewest columns";
  for (int64_t attn_problem::* size : {&attn_problem::seq_q, &attn_problem::seq_k}) {
    EXPECT_TRUE(taken([&](Offer& x) { x.problem.*size = (1 << 28) - 1, x.dense(); }));
    EXPECT_FALSE(taken([&](Offer& x) { x.problem.*size = 1 << 28, x.dense(); }));
  }
  EXPECT_FALSE(taken([](Offer& x) { x.problem.dim_qk = 136, x.dense(); }));
  EXPECT_FALSE(taken([](Offer& x) { x.problem.dim_v = 60, x.dense(); }));
}

TEST_P(MmaChoices, TakesRowsOfWholeChunks) {
  EXPECT_FALSE(taken([](Offer& x) { x.tensors.q.stride[2] += 4; }));
  EXPECT_FALSE(taken([](Offer& x) { x.tensors.o.stride[0] += 8, x.tensors.o.stride[1] += 4; }));
  EXPECT_FALSE(taken([](Offer& x) { x.tensors.o.stride[0] += 4; }));
  EXPECT_FALSE(taken(
      [](Offer& x) { x.tensors.o.stride[2] += 4, x.tensors.o.stride[1] *= 2, x.tensors.o.stride[0] *= 2; }));
  EXPECT_FALSE(taken([](Offer& x) { x.tensors.o.data = static_cast<char*>(x.tensors.o.data) + 8; }));
  EXPECT_FALSE(taken([](Offer& x) {
    x.problem.dim_v = 60, x.tensors.v.stride[0] *= 2, x.tensors.o.stride[0] *= 2;
  })) << "rows start at chunks but do not fill their last one";
  for (int64_t multiple : {16, 24})  // rows with gaps of whole chunks of 8 elements
    EXPECT_TRUE(taken([&](Offer& x) {
      attn_tensor& o = x.tensors.o;
      o.stride[2] += multiple, o.stride[1] = 128 * o.stride[2] + multiple,
                               o.stride[0] = 2 * o.stride[1] + multiple;
    }));
}

TEST_P(MmaGrid, TakesAsManyBlocksAsAGridHas) {
  const int64_t tile_q = shape().tile_q, tiles = 8, most = kGrid / tiles;
  const auto fits = [&](int64_t batch, int64_t rows, int64_t heads = 1) {
    return taken([&](Offer& x) {
      x.problem.batch = batch, x.problem.heads_q = heads, x.problem.heads_kv = 1;
      x.problem.seq_q = rows;
      x.dense();
    });
  };
  EXPECT_TRUE(fits(most, tiles * tile_q));
  EXPECT_FALSE(fits(most + 1, tiles * tile_q));
  EXPECT_FALSE(fits(most / 2 + 1, tiles * tile_q, 2));
  EXPECT_FALSE(fits(most, tiles * tile_q + 1));
}

INSTANTIATE_TEST_SUITE_P(Kernels, MmaChoices, testing::Values("fa1", "fa1a"),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Kernels, MmaGrid, testing::Values("fa1a"),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Kernels, SplitChoices, testing::Values("splitk"),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Kernels, PlanChoices, testing::Values("fa1", "splitk"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace attnfuzz
