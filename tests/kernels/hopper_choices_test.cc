// Tests which problems the paths for sm_90a take. No result shows this choice, because other problems take
// another path. fa1h and splitkh have these paths on the executor.
#include "tests/kernels/offer.h"

namespace attnfuzz {
namespace {

using Change = std::function<void(Offer&)>;

class HopperChoices : public PlanTest {
 protected:
  Answer answer(const Change& change) {
    return ask([&](Offer& x) {
      x.problem.batch = 2, x.problem.heads_q = x.problem.heads_kv = 3;
      x.dense();
      change(x);
    });
  }
  std::string path(const Change& change) {
    const Answer a = answer(change);
    EXPECT_TRUE(a.ok()) << a.reason;
    return a.plan.path;
  }
  bool takes(const Change& change) { return path(change).find("wgmma") != std::string::npos; }
  bool scores(const Change& change) { return path(change).find("wgmma scored") != std::string::npos; }
};
class PrefillChoices : public HopperChoices {};
class DecodeChoices : public HopperChoices {
 protected:
  bool takes(const Change& change) { return HopperChoices::takes(four_heads(change)); }
  bool scores(const Change& change) { return HopperChoices::scores(four_heads(change)); }

 private:
  static Change four_heads(const Change& change) {
    return [change](Offer& x) {
      x.problem.heads_q = 12, x.problem.seq_q = 1;  // four a KV head
      x.dense();
      change(x);
    };
  }
};

class LatentChoices : public HopperChoices {
 protected:
  // True if the path for a latent V takes the problem: 2 entries, 16 heads on one latent head, 576 and 512 columns.
  bool takes(const Change& change) {
    const Answer a = ask([&](Offer& x) {
      attn_problem& p = x.problem;
      p.batch = 2, p.heads_q = 16, p.seq_q = 1, p.seq_k = 1000, p.dim_qk = 576, p.dim_v = 512;
      p.latent = 1, p.features = ATTN_FEATURE_WIDE | ATTN_FEATURE_LATENT;
      x.dense();
      x.tensors.v = x.tensors.k;
      change(x);
    });
    const std::string path = a.ok() ? a.plan.path : "refused";
    if (path.find("wgmma") == std::string::npos) return false;
    EXPECT_EQ(path.find("64x64 d576 latent"), 0u) << path;
    EXPECT_EQ(a.plan.tile_q, 64);
    EXPECT_EQ(a.plan.tile_k, 64);
    EXPECT_GE(a.plan.rescales * a.plan.tile_k * a.plan.num_splits, 1000);
    return true;
  }
  // The tensors again, dense, after a change of sizes.
  static void lay_out(Offer& x) { x.dense().tensors.v = x.tensors.k; }
};

char* eight_beyond(void* data) { return static_cast<char*>(data) + 8; }

TEST_P(PrefillChoices, TakesTensorsThatTheCopyEngineTakes) {
  EXPECT_TRUE(takes([](Offer&) {}));
  EXPECT_TRUE(takes([](Offer& x) { x.problem.causal = 1, x.problem.window_left = 3; }));
  EXPECT_TRUE(takes([](Offer& x) { x.problem.dim_qk = 8, x.problem.dim_v = 24, x.dense(); }));
  EXPECT_TRUE(takes([](Offer& x) { x.problem.scale = -1, x.tensors.lse.data = nullptr; }));
  EXPECT_TRUE(takes([](Offer& x) { x.problem.seq_q = 1, x.problem.seq_k = 5000, x.dense(); }));
  EXPECT_TRUE(takes([](Offer& x) { x.problem.seq_q = x.problem.seq_k = (1 << 28) - 1, x.dense(); }));
  EXPECT_FALSE(takes([](Offer& x) { x.problem.seq_q = 1 << 28, x.dense(); }));
  EXPECT_FALSE(takes([](Offer& x) { x.problem.seq_k = 1 << 28, x.dense(); }));
  EXPECT_FALSE(scores([](Offer& x) { x.problem.scale = -1; }));
  EXPECT_TRUE(scores([](Offer& x) { x.problem.softcap = 1; }));
  EXPECT_TRUE(scores([](Offer& x) { x.problem.scale = 0; }));
  EXPECT_TRUE(scores([](Offer& x) { x.problem.bias_dtype = ATTN_F32, x.tensors.bias = x.tensors.q; }));
  EXPECT_FALSE(takes([](Offer& x) { x.problem.softcap = 3e38f; })) << "softcap * log2 e overflows fp32";
  EXPECT_FALSE(takes([](Offer& x) { x.problem.has_mask = 1, x.tensors.mask = x.tensors.q; }));
  EXPECT_TRUE(takes([](Offer& x) {
    x.problem.has_key_lengths = 1, x.tensors.key_lengths = reinterpret_cast<const int64_t*>(0x60000);
  }));
  EXPECT_FALSE(takes([](Offer& x) {
    x.problem.dim_v = 60, x.tensors.v.stride[0] *= 2, x.tensors.o.stride[0] *= 2;
  })) << "the engine stores whole chunks";
  for (int tensor = 0; tensor < 4; ++tensor) {
    const auto of = [&](Offer& x) -> attn_tensor& {
      attn_tensors& t = x.tensors;
      return tensor == 0 ? t.q : tensor == 1 ? t.k : tensor == 2 ? t.v : t.o;
    };
    SCOPED_TRACE(tensor);
    EXPECT_FALSE(takes([&](Offer& x) { of(x).data = eight_beyond(of(x).data); }));
    EXPECT_FALSE(takes([&](Offer& x) { of(x).stride[0] += 4; }));
    EXPECT_FALSE(takes([&](Offer& x) { of(x).stride[1] += 4, of(x).stride[0] *= 2; }));
    EXPECT_FALSE(takes([&](Offer& x) { of(x).stride[2] = 68, of(x).stride[1] *= 2, of(x).stride[0] *= 2; }));
    EXPECT_TRUE(takes([&](Offer& x) { of(x).stride[2] = 72, of(x).stride[1] *= 2, of(x).stride[0] *= 2; }));
  }
  for (int64_t attn_problem::* size : {&attn_problem::batch, &attn_problem::seq_q, &attn_problem::seq_k})
    EXPECT_FALSE(takes([&](Offer& x) { x.problem.*size = 0, x.dense(); }));
}

TEST_P(PrefillChoices, NeedsSharedMemoryAndPerhapsACounter) {
  // Two tiles of 128 queries, two of 64 keys and two of their values, with 64 columns; 16 barriers; a tile and a head for
  // each of two items; space for alignment.
  constexpr int64_t kBytes = (2 * 128 + 2 * 2 * 64) * 64 * 2 + 16 * 8 + 2 * 2 * 4 + 32;
  EXPECT_TRUE(takes([](Offer& x) { x.env.shared_memory_limit = kBytes; }));
  EXPECT_FALSE(takes([](Offer& x) { x.env.shared_memory_limit = kBytes - 1; }));
  const auto counter = [&](int64_t heads, bool causal, bool lengths = false) {
    return answer([&](Offer& x) {
             x.problem.batch = 1, x.problem.heads_q = x.problem.heads_kv = heads;
             x.problem.causal = causal;
             x.problem.has_key_lengths = lengths;
             if (lengths) x.tensors.key_lengths = reinterpret_cast<const int64_t*>(0x60000);
             x.dense();
           })
        .plan.workspace_bytes;
  };
  EXPECT_EQ(counter(133, true), sizeof(uint32_t)) << "more query tiles than blocks, of unequal cost";
  EXPECT_EQ(counter(132, true), 0u);
  EXPECT_EQ(counter(133, false), 0u);
  EXPECT_EQ(counter(133, false, true), sizeof(uint32_t)) << "query tiles of long and of short batch entries";
  EXPECT_EQ(counter(132, false, true), 0u);
}

TEST_P(PrefillChoices, TakesAsManyBlocksAsAGridHas) {
  // Query tiles of 128 rows, half as many as a grid may have blocks. The other path has tiles of 64 rows, and
  // refuses twice as many.
  constexpr int64_t kTiles = 4, kMost = kGrid / 2 / kTiles;
  const auto fits = [&](int64_t batch, int64_t heads, int64_t rows) {
    const Answer a = ask([&](Offer& x) {
      x.problem.batch = batch, x.problem.heads_q = heads, x.problem.seq_q = rows;
      x.dense();
    });
    return a.ok() && std::string(a.plan.path).find("wgmma") != std::string::npos;
  };
  EXPECT_TRUE(fits(kMost, 1, kTiles * 128));
  EXPECT_TRUE(fits(1, kMost, kTiles * 128));
  EXPECT_FALSE(fits(kMost + 1, 1, kTiles * 128));
  EXPECT_FALSE(fits(1, kMost + 1, kTiles * 128));
  EXPECT_FALSE(fits(kMost, 1, kTiles * 128 + 1));
}

TEST_P(DecodeChoices, TakesRowsOfOneTileWithinSharedMemory) {
  EXPECT_TRUE(takes([](Offer& x) { x.problem.seq_k = (1 << 28) - 1, x.dense(); }));
  EXPECT_TRUE(takes([](Offer& x) { x.problem.dim_qk = 8, x.problem.dim_v = 64, x.dense(); }));
  for (int64_t attn_problem::* size : {&attn_problem::batch, &attn_problem::seq_q})
    EXPECT_FALSE(takes([&](Offer& x) { x.problem.*size = 0, x.dense(); }));
  const auto fits = [&](int64_t batch, int64_t heads, int64_t rows) {
    const Answer a = ask([&](Offer& x) {
      x.problem.batch = batch, x.problem.heads_q = heads, x.problem.seq_q = rows;
      x.problem.num_splits = 1;
      x.dense();
    });
    return a.ok() && std::string(a.plan.path).find("wgmma") != std::string::npos;
  };
  EXPECT_TRUE(fits(kGrid / 4, 1, 4));
  EXPECT_FALSE(fits(kGrid / 4 + 1, 1, 4));
  EXPECT_FALSE(fits(kGrid / 4 + 1, 4, 1));
  // No shape takes the first problem, and a shape of 64 columns not the second; splitkh may refuse both.
  const auto path_of = [&](int64_t dim_qk, int64_t dim_v, float softcap) {
    const Answer a = ask([&](Offer& x) {
      x.problem.heads_q = 4, x.problem.seq_q = 1;
      x.problem.dim_qk = dim_qk, x.problem.dim_v = dim_v, x.problem.softcap = softcap;
      x.dense();
    });
    return std::string(a.ok() ? a.plan.path : "refused");
  };
  EXPECT_EQ(path_of(136, 136, 1).find("wgmma"), std::string::npos);
  EXPECT_EQ(path_of(128, 8, 0).find("d64"), std::string::npos);
  // A tile of 64 rows, two of 64 keys and two of their values, with 64 columns; 8 barriers; space for
  // alignment.
  constexpr int64_t kBytes = (64 + 2 * 2 * 64) * 64 * 2 + 8 * 8 + 16;
  EXPECT_TRUE(takes([](Offer& x) { x.env.shared_memory_limit = kBytes; }));
  EXPECT_FALSE(takes([](Offer& x) { x.env.shared_memory_limit = kBytes - 1; }));
}

// The cost model of hopper.cu was fitted to times of an H200 (docs/results/tuning.md). These numbers of splits
// were computed independently of its code, for 64 columns and tiles of 64 keys.
TEST_P(DecodeChoices, ChoosesTheCheapestNumberOfSplits) {
  struct Row {
    int64_t batch, heads_kv, group, seq_q, seq_k, splits;
    int32_t sms;
  };
  constexpr Row kRows[] = {
      {1, 8, 4, 1, 512, 8, 132},     {1, 8, 4, 1, 2048, 16, 132},   {1, 8, 4, 1, 8192, 16, 132},
      {1, 8, 4, 1, 131072, 33, 132}, {8, 8, 4, 1, 512, 1, 132},     {8, 8, 4, 1, 4096, 2, 132},
      {8, 8, 4, 1, 32768, 2, 132},   {8, 8, 8, 8, 8192, 2, 132},    {8, 8, 4, 16, 4096, 2, 132},
      {1, 1, 1, 1, 64, 1, 132},      {1, 1, 1, 1, 65, 1, 132},      {1, 1, 1, 1, 1000000, 128, 132},
      {119, 1, 1, 1, 8192, 1, 132},  {118, 1, 1, 1, 8192, 10, 132}, {118, 1, 1, 1, 131072, 19, 132},
      {64, 8, 4, 1, 32768, 1, 132},  {60, 1, 1, 1, 4096, 11, 132},  {2, 3, 7, 5, 3000, 12, 108},
      {16, 2, 8, 1, 16384, 5, 80},   {8, 2, 8, 8, 1000, 2, 132},    {8, 4, 8, 1, 512, 2, 80},
      {4, 1, 8, 8, 5000, 14, 80},    {9, 1, 1, 1, 8192, 1, 10},     {8, 1, 1, 1, 8192, 5, 10},
  };
  for (const Row& row : kRows) {
    const Answer a = ask([&](Offer& x) {
      x.problem.batch = row.batch, x.problem.heads_kv = row.heads_kv,
      x.problem.heads_q = row.heads_kv * row.group;
      x.problem.seq_q = row.seq_q, x.problem.seq_k = row.seq_k, x.env.sm_count = row.sms;
      x.dense();
    });
    ASSERT_TRUE(a.ok()) << a.reason;
    EXPECT_EQ(a.plan.num_splits, row.splits)
        << "batch " << row.batch << ", " << row.heads_kv << " heads of " << row.group << ", " << row.seq_q
        << " queries, " << row.seq_k << " keys, " << row.sms << " multiprocessors";
  }
}

TEST_P(DecodeChoices, TakesFewRowsAndTensorsForTheCopyEngine) {
  EXPECT_TRUE(takes([](Offer&) {}));
  EXPECT_TRUE(takes([](Offer& x) { x.problem.seq_q = 16, x.dense(); })) << "64 rows";
  EXPECT_FALSE(takes([](Offer& x) { x.problem.seq_q = 17, x.dense(); })) << "68 rows";
  EXPECT_TRUE(takes([](Offer& x) { x.problem.causal = 1, x.problem.window_left = 3; }));
  EXPECT_TRUE(takes([](Offer& x) {
    x.problem.has_key_lengths = 1, x.tensors.key_lengths = reinterpret_cast<const int64_t*>(0x60000);
  }));
  EXPECT_TRUE(takes([](Offer& x) { x.tensors.o.data = eight_beyond(x.tensors.o.data); }))
      << "the copy engine does not store O";
  EXPECT_TRUE(takes([](Offer& x) { x.problem.dim_v = 62; })) << "rows keep their 64";
  EXPECT_FALSE(takes([](Offer& x) { x.problem.dim_v = 63; })) << "two columns of a partial O at a time";
  EXPECT_FALSE(scores([](Offer& x) { x.problem.scale = -1; }));
  EXPECT_TRUE(scores([](Offer& x) { x.problem.softcap = 1; }));
  EXPECT_TRUE(scores([](Offer& x) { x.problem.scale = 0; }));
  EXPECT_TRUE(scores([](Offer& x) { x.problem.bias_dtype = ATTN_F32, x.tensors.bias = x.tensors.q; }));
  EXPECT_FALSE(takes([](Offer& x) { x.problem.softcap = 3e38f; })) << "softcap * log2 e overflows fp32";
  EXPECT_FALSE(takes([](Offer& x) { x.problem.seq_k = 0, x.dense(); }));
  EXPECT_FALSE(takes([](Offer& x) { x.problem.seq_k = 1 << 28, x.dense(); }));
  EXPECT_FALSE(takes([](Offer& x) { x.tensors.k.data = eight_beyond(x.tensors.k.data); }));
  EXPECT_FALSE(takes([](Offer& x) { x.tensors.v.stride[1] += 4, x.tensors.v.stride[0] *= 2; }));
  EXPECT_FALSE(takes([](Offer& x) { x.tensors.q.data = eight_beyond(x.tensors.q.data); }));
}

TEST_P(LatentChoices, TakesWideLatentValuesOfAnyNumberOfRows) {
  EXPECT_TRUE(takes([](Offer&) {}));
  EXPECT_TRUE(takes([](Offer& x) { x.problem.heads_q = 128, x.problem.seq_q = 4, lay_out(x); })) << "512 rows";
  EXPECT_TRUE(takes([](Offer& x) { x.problem.heads_q = x.problem.heads_kv = 3, lay_out(x); }));
  EXPECT_TRUE(takes([](Offer& x) { x.problem.dim_qk = 264, x.problem.dim_v = 2, lay_out(x); }));
  EXPECT_TRUE(takes([](Offer& x) { x.problem.causal = 1, x.problem.align = ATTN_BOTTOM_RIGHT; }));
  EXPECT_TRUE(takes([](Offer& x) { x.problem.window_left = 3, x.problem.scale = -1; }));
  EXPECT_TRUE(takes([](Offer& x) {
    x.problem.has_key_lengths = 1, x.tensors.key_lengths = reinterpret_cast<const int64_t*>(0x60000);
  }));
  EXPECT_TRUE(takes([](Offer& x) { x.tensors.o.data = eight_beyond(x.tensors.o.data); }));
}

TEST_P(LatentChoices, LeavesTheOtherProblemsToOtherPaths) {
  EXPECT_FALSE(takes([](Offer& x) {
    x.problem.latent = 0, x.problem.features = ATTN_FEATURE_WIDE, x.dense();
  })) << "V is a tensor of its own";
  EXPECT_FALSE(takes([](Offer& x) { x.problem.dim_qk = 256, x.problem.dim_v = 64, lay_out(x); })) << "not wide";
  EXPECT_FALSE(takes([](Offer& x) { x.problem.dim_qk = 584, lay_out(x); }));
  EXPECT_FALSE(takes([](Offer& x) { x.problem.dim_v = 514; }));
  EXPECT_FALSE(takes([](Offer& x) { x.problem.dim_v = 511; })) << "two columns of a partial O at a time";
  EXPECT_FALSE(takes([](Offer& x) { x.problem.dim_qk = 570, lay_out(x); })) << "rows are not whole chunks";
  EXPECT_FALSE(takes([](Offer& x) { x.problem.softcap = 1; }));
  EXPECT_FALSE(takes([](Offer& x) { x.problem.scale = 0; }));
  EXPECT_FALSE(takes([](Offer& x) { x.problem.bias_dtype = ATTN_F32, x.tensors.bias = x.tensors.q; }));
  EXPECT_FALSE(takes([](Offer& x) { x.problem.has_mask = 1, x.tensors.mask = x.tensors.q; }));
  EXPECT_FALSE(takes([](Offer& x) { x.problem.seq_k = 0, lay_out(x); }));
  EXPECT_FALSE(takes([](Offer& x) { x.problem.seq_k = 1 << 28, lay_out(x); }));
  EXPECT_FALSE(takes([](Offer& x) { x.tensors.q.data = eight_beyond(x.tensors.q.data); }));
  EXPECT_FALSE(takes([](Offer& x) { x.tensors.v.data = x.tensors.k.data = eight_beyond(x.tensors.k.data); }));
  // A tile of 64 rows, two of 64 keys, all with 576 columns; P of a tile; a factor for each row; 8 barriers.
  constexpr int64_t kBytes = (64 + 2 * 64) * 576 * 2 + 64 * 64 * 2 + 64 * 4 + 8 * 8;
  EXPECT_TRUE(takes([](Offer& x) { x.env.shared_memory_limit = kBytes; }));
  EXPECT_FALSE(takes([](Offer& x) { x.env.shared_memory_limit = kBytes - 1; }));
}

INSTANTIATE_TEST_SUITE_P(Kernels, PrefillChoices, testing::Values("fa1h"),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Kernels, LatentChoices, testing::Values("splitkh"),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Kernels, DecodeChoices, testing::Values("splitkh"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace attnfuzz
