// Tests which variant nsa_backward chooses. No result shows this choice, because all variants are correct.
// nsabh has the variant wgmma on the executor (tests/bugs).
#include "tests/kernels/offer.h"

namespace attnfuzz {
namespace {

using Change = std::function<void(Offer&)>;

class ListedChoices : public PlanTest {
 protected:
  // 2 entries of 4 query heads on 2 KV heads, and lists of 4 blocks of 16 keys. The kernel chooses the variant.
  Answer answer(const Change& change) {
    return ask([&](Offer& x) {
      attn_problem& p = x.problem;
      p.features = ATTN_FEATURE_SELECTED_BACKWARD;
      p.batch = 2, p.heads_q = 4, p.heads_kv = 2, p.block = 16, p.select = 4;
      x.env.variant = 0;
      lay_out(x);
      change(x);
    });
  }
  // Sets the tensors for the present sizes.
  static void lay_out(Offer& x) {
    const attn_problem& p = x.problem;
    x.dense();
    attn_tensors& t = x.tensors;
    t.dout = t.o, t.dout.data = reinterpret_cast<void*>(0x60000);
    t.dk = t.k, t.dk.data = reinterpret_cast<void*>(0x70000);
    t.dv = t.v, t.dv.data = reinterpret_cast<void*>(0x80000);
    t.dq = t.q, t.dq.data = reinterpret_cast<void*>(0x90000);
    t.indices = {reinterpret_cast<void*>(0xa0000),
                 {p.heads_kv * p.seq_q * p.select, p.seq_q * p.select, p.select, 1}};
  }
  // "plain", "mma d64", "mma d128", or why the kernel refuses.
  std::string path(const Change& change) {
    const Answer a = answer(change);
    if (!a.ok()) return a.reason;
    return std::string(a.plan.path) == "a warp a row" ? "plain" : a.plan.path;
  }
};

class GroupChoices : public ListedChoices {};

TEST_P(ListedChoices, TakesTensorCoresForInputsOf16Bits) {
  EXPECT_EQ(path([](Offer&) {}), "mma d64");
  EXPECT_EQ(path([](Offer& x) { x.problem.dtype = ATTN_BF16; }), "mma d64");
  EXPECT_EQ(path([](Offer& x) { x.problem.dim_v = 65, lay_out(x); }), "mma d128");
  EXPECT_EQ(path([](Offer& x) { x.problem.softcap = 1; }), "mma d64");
  EXPECT_EQ(path([](Offer& x) { x.problem.causal = 1; }), "mma d64");
  EXPECT_EQ(path([](Offer& x) { x.env.variant = 2; }), "mma d64");
  EXPECT_EQ(path([](Offer& x) { x.env.variant = 1; }), "plain");
  EXPECT_EQ(path([](Offer& x) { x.problem.dtype = ATTN_F32, x.problem.features |= ATTN_FEATURE_F32; }),
            "plain");
  EXPECT_EQ(path([](Offer& x) { x.problem.dim_qk = 129, lay_out(x); }), "plain");
}

TEST_P(ListedChoices, SaysThatItRoundsNormalisedWeights) {
  const Answer a = answer([](Offer&) {});
  EXPECT_EQ(a.plan.p_format, ATTN_FORMAT_OF_INPUT);
  EXPECT_EQ(a.plan.p_order, ATTN_P_NORMALISED);
}

TEST_P(ListedChoices, NeedsADeviceThatHasMmaAndRoom) {
  EXPECT_EQ(path([](Offer& x) { x.env.compute_capability = 80; }), "mma d64");
  EXPECT_EQ(path([](Offer& x) { x.env.compute_capability = 75; }), "plain");
  // Q and dO of 16 heads, and two tiles of 32 keys of K and V for each of four warps, in 64 columns of 2 bytes;
  // two lists of 4 indices; space for alignment.
  constexpr int64_t kBytes = (2 * 16 + 4 * 2 * 2 * 32) * 64 * 2 + 127 + 2 * (4 * 4 + 15);
  EXPECT_EQ(path([](Offer& x) { x.env.shared_memory_limit = kBytes; }), "mma d64");
  EXPECT_EQ(path([](Offer& x) { x.env.shared_memory_limit = kBytes - 1; }), "plain");
}

// One entry of one head. Each query lists one block.
TEST_P(ListedChoices, HasABitForEachQueryAndBlock) {
  const auto fits = [&](int64_t queries, int64_t blocks) {
    return path([&](Offer& x) {
             attn_problem& p = x.problem;
             p.batch = p.heads_q = p.heads_kv = p.dim_qk = p.dim_v = p.block = p.select = 1;
             p.seq_q = queries, p.seq_k = blocks;
             lay_out(x);
           }) == "mma d64";
  };
  // With 1 query, each block has a word of bits, an item and two sums. Another item is the part of the list.
  constexpr int64_t kRoom = int64_t{1} << 30, kBlocks = (kRoom - 2) / 3;
  EXPECT_TRUE(fits(1, kBlocks));
  EXPECT_FALSE(fits(1, kBlocks + 1)) << "bits and sums of more than 4 GiB";
  EXPECT_TRUE(fits(32 * 1000, 1000000));
  EXPECT_FALSE(fits(32 * 1074, 1000000)) << "more than 2^30 words of bits";
}

// The sums of few heads are in the workspace at once.
TEST_P(ListedChoices, NeedsNoWorkspaceForTheSumsOfAllHeads) {
  const auto bytes = [&](int64_t batch) {
    const Answer a = answer([&](Offer& x) {
      x.problem.batch = batch, x.problem.seq_q = x.problem.seq_k = 4096, x.problem.block = 64;
      lay_out(x);
    });
    EXPECT_TRUE(a.ok()) << a.reason;
    EXPECT_EQ(std::string(a.plan.path), "mma d64");
    return static_cast<int64_t>(a.plan.workspace_bytes);
  };
  // A KV head has D of 2 * 4096 rows, 64 * 128 words of bits, twice 65 borders, 4 * 4096 indices, and the
  // blocks of 16 * 4 + 64 items.
  constexpr int64_t kOfHead = 4 * (2 * 4096 + 64 * 128 + 2 * 65 + 4 * 4096 + 128);
  EXPECT_EQ(bytes(2) - bytes(1), 2 * kOfHead);
  EXPECT_EQ(bytes(64) - bytes(1), 126 * kOfHead);
  EXPECT_EQ(bytes(1), 2 * kOfHead + 128 * 64 * 128 * 4) << "and the sums of one head";
}

TEST_P(ListedChoices, LeavesMoreQueryHeadsThan2To30ToPlain) {
  const auto of_heads = [&](int64_t heads) {
    return path([&](Offer& x) {
      attn_problem& p = x.problem;
      p.batch = p.heads_kv = p.dim_qk = p.dim_v = p.seq_q = p.seq_k = p.block = p.select = 1;
      p.heads_q = heads;
      lay_out(x);
    });
  };
  EXPECT_EQ(of_heads(int64_t{1} << 30), "mma d64");
  EXPECT_EQ(of_heads((int64_t{1} << 30) + 1), "plain");
}

TEST_P(GroupChoices, TakesWgmmaWithoutASoftCapAndWithRoom) {
  EXPECT_EQ(path([](Offer&) {}), "wgmma d64");
  EXPECT_EQ(path([](Offer& x) { x.problem.causal = 1; }), "wgmma d64");
  EXPECT_EQ(path([](Offer& x) { x.problem.softcap = 1; }), "mma d64");
  EXPECT_EQ(path([](Offer& x) { x.problem.dtype = ATTN_F32, x.problem.features |= ATTN_FEATURE_F32; }),
            "plain");
  // K, V, and Q and dO of two steps: 6 tiles of 64 rows of 128 columns. For the 64 pairs of each of four steps
  // two addresses and three numbers, and a number for each 32 of them. An item's place has 96 bytes. Space for
  // alignment.
  constexpr int64_t kBytes =
      6 * 64 * 128 * 2 + 1023 + 2 * (4 * 64 * 8 + 15) + 3 * (4 * 64 * 4 + 15) + 8 * 4 + 15 + 96 + 15;
  const auto with = [&](int64_t bytes) {
    return path([&](Offer& x) { x.problem.dim_qk = 128, x.env.shared_memory_limit = bytes, lay_out(x); });
  };
  EXPECT_EQ(with(kBytes), "wgmma d128");
  EXPECT_EQ(with(kBytes - 1), "mma d128") << "the variant before it needs less";
  EXPECT_EQ(with(64 * 1024), "plain");
}

INSTANTIATE_TEST_SUITE_P(Kernels, GroupChoices, testing::Values("nsabh"),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Kernels, ListedChoices, testing::Values("nsa_backward"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace attnfuzz
