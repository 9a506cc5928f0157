// What plan() decides and refuses, at the borders of both: decisions that no
// answer shows, and sizes that no test could run.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "tests/kernels/libraries.h"

namespace attnfuzz {
namespace {

constexpr int64_t kHuge = int64_t{1} << 40;
constexpr int64_t kGrid = 2147483647;

// Everything plan() sees. Addresses are made up: it must not read there.
struct Offer {
  attn_problem problem = {};
  attn_tensors tensors = {};
  attn_env env = {};

  Offer() {
    problem.size = sizeof problem;
    problem.dtype = ATTN_F16;
    problem.batch = problem.heads_q = problem.heads_kv = 1;
    problem.seq_q = problem.seq_k = 128;
    problem.dim_qk = problem.dim_v = 64;
    problem.scale = 0.125f;
    problem.window_left = problem.window_right = -1;
    problem.bias_dtype = ATTN_NONE;
    tensors.size = sizeof tensors;
    env.size = sizeof env;
    env.sm_count = 132;
    env.compute_capability = 90;
    env.shared_memory_limit = 232448;
    env.variant = 1;
    dense();
  }

  // Strides of contiguous tensors, for the sizes that there are now.
  Offer& dense() {
    const attn_problem& p = problem;
    const auto view = [](uintptr_t at, int64_t heads, int64_t rows, int64_t columns) {
      return attn_tensor{reinterpret_cast<void*>(at), {heads * rows * columns, rows * columns, columns, 1}};
    };
    tensors.q = view(0x10000, p.heads_q, p.seq_q, p.dim_qk);
    tensors.k = view(0x20000, p.heads_kv, p.seq_k, p.dim_qk);
    tensors.v = view(0x30000, p.heads_kv, p.seq_k, p.dim_v);
    tensors.o = view(0x40000, p.heads_q, p.seq_q, p.dim_v);
    tensors.lse = view(0x50000, p.heads_q, p.seq_q, 1);
    return *this;
  }
};

struct Answer {
  attn_status status;
  attn_plan plan;
  std::string reason;
  bool ok() const { return status == ATTN_OK; }
};

class Plan : public testing::TestWithParam<std::string> {
 protected:
  const attn_kernel& kernel() { return *kernel_named(GetParam()); }
  bool splits() { return kernel().partial != nullptr; }

  Answer ask(const Offer& offer) {
    Answer answer = {};
    char reason[256] = "";
    std::memset(static_cast<void*>(&answer.plan), 0xA5, sizeof answer.plan);  // all of it is to be written
    answer.status =
        kernel().plan(&offer.problem, &offer.tensors, &offer.env, &answer.plan, reason, sizeof reason);
    answer.reason = reason;
    return answer;
  }
  Answer ask(const std::function<void(Offer&)>& change) {
    Offer offer;
    change(offer);
    return ask(offer);
  }
  void accepts(const char* what, const std::function<void(Offer&)>& change) {
    const Answer answer = ask(change);
    EXPECT_EQ(answer.status, ATTN_OK) << what << ": " << answer.reason;
  }
  // `says`: what the reason must name.
  void refuses(attn_status status, const char* says, const std::function<void(Offer&)>& change) {
    const Answer answer = ask(change);
    EXPECT_EQ(answer.status, status) << says;
    EXPECT_NE(answer.reason.find(says), std::string::npos)
        << "'" << answer.reason << "' does not name " << says;
  }
};

// Of the kernel that has splits.
class SplitPlan : public Plan {};

TEST_P(Plan, SizesUpToTheirLimits) {
  const struct {
    const char* name;
    int64_t attn_problem::* size;
  } sizes[] = {{"batch", &attn_problem::batch},       {"heads_q", &attn_problem::heads_q},
               {"heads_kv", &attn_problem::heads_kv}, {"seq_q", &attn_problem::seq_q},
               {"seq_k", &attn_problem::seq_k},       {"num_splits", &attn_problem::num_splits}};
  for (const auto& size : sizes) {
    const std::string name = size.name;
    refuses(ATTN_INVALID, (name + " = -1").c_str(), [&](Offer& x) { x.problem.*size.size = -1; });
    refuses(ATTN_INVALID, (name + " = 1099511627777").c_str(),
            [&](Offer& x) { x.problem.*size.size = kHuge + 1; });
  }
  accepts("seq_k = 2^40", [](Offer& x) { x.problem.seq_k = kHuge; });
  for (int64_t attn_problem::* dim : {&attn_problem::dim_qk, &attn_problem::dim_v}) {
    for (int64_t legal : {1, 256}) accepts("dim", [&](Offer& x) { x.problem.*dim = legal, x.dense(); });
    for (int64_t illegal : {0, 257})
      refuses(ATTN_INVALID, "is outside 1..256", [&](Offer& x) { x.problem.*dim = illegal, x.dense(); });
  }
  refuses(ATTN_INVALID, "dim_qk = 257", [](Offer& x) { x.problem.dim_qk = 257; });
  refuses(ATTN_INVALID, "dim_v = 257", [](Offer& x) { x.problem.dim_v = 257; });
  for (int64_t attn_problem::* empty : {&attn_problem::batch, &attn_problem::seq_q, &attn_problem::seq_k})
    accepts("an empty problem", [&](Offer& x) { x.problem.*empty = 0, x.dense(); });
  accepts("no heads", [](Offer& x) { x.problem.heads_q = x.problem.heads_kv = 0, x.dense(); });
  accepts("no query heads",
          [](Offer& x) { x.problem.heads_q = 0, x.problem.heads_kv = 2, x.problem.seq_q = 4, x.dense(); });
  refuses(ATTN_INVALID, "heads_kv = 0 does not divide heads_q = 1", [](Offer& x) { x.problem.heads_kv = 0; });
  refuses(ATTN_INVALID, "heads_kv = 2 does not divide heads_q = 3",
          [](Offer& x) { x.problem.heads_q = 3, x.problem.heads_kv = 2, x.dense(); });
  accepts("6 heads over 3", [](Offer& x) { x.problem.heads_q = 6, x.problem.heads_kv = 3, x.dense(); });
}

TEST_P(Plan, GridsUpToTheirLimits) {
  const auto one_row = [](Offer& x, int64_t batch) {
    x.problem.batch = batch, x.problem.seq_q = 1, x.problem.seq_k = 1;
    x.dense();
  };
  accepts("2^31 - 1 blocks", [&](Offer& x) { one_row(x, kGrid), x.problem.num_splits = 1; });
  refuses(ATTN_UNSUPPORTED, "2^31 - 1 blocks",
          [&](Offer& x) { one_row(x, kGrid + 1), x.problem.num_splits = 1; });
  const auto tiles = [](Offer& x, int64_t seq_q, int64_t heads) {
    x.problem.batch = 3, x.problem.heads_q = x.problem.heads_kv = heads, x.problem.seq_q = seq_q,
    x.problem.seq_k = 0;
    x.problem.num_splits = 1;
    x.dense();
  };
  if (!splits()) {
    accepts("6 * 357913941 blocks", [&](Offer& x) { tiles(x, 65, 357913941); });
    refuses(ATTN_UNSUPPORTED, "blocks", [&](Offer& x) { tiles(x, 65, 357913942); });
    accepts("3 * 715827882 blocks", [&](Offer& x) { tiles(x, 64, 715827882); });
    // Of 32 keys, where the dimension asks for it; of 64 queries all the same.
    accepts("wide rows", [&](Offer& x) { x.problem.dim_qk = 256, tiles(x, 64, 715827882); });
    return;
  }
  accepts("60 * 35791394 blocks", [&](Offer& x) { tiles(x, 65, 35791394), x.problem.num_splits = 10; });
  refuses(ATTN_UNSUPPORTED, "blocks", [&](Offer& x) { tiles(x, 65, 35791395), x.problem.num_splits = 10; });
  accepts("192 * 11184810 blocks", [&](Offer& x) { tiles(x, 64, 11184810), x.problem.num_splits = 64; });
  accepts("65535 splits", [](Offer& x) { x.problem.num_splits = 65535; });
  refuses(ATTN_UNSUPPORTED, "num_splits = 65536", [](Offer& x) { x.problem.num_splits = 65536; });
  accepts("32768 * 65535 blocks", [&](Offer& x) { one_row(x, 32768), x.problem.num_splits = 65535; });
  refuses(ATTN_UNSUPPORTED, "splits is too large",
          [&](Offer& x) { one_row(x, 32769), x.problem.num_splits = 65535; });
  refuses(ATTN_UNSUPPORTED, "splits is too large",
          [&](Offer& x) { one_row(x, 1 << 30), x.problem.num_splits = 2; });
  // Rows of the reduction, four to a block.
  const auto rows = [](Offer& x, int64_t seq_q) {
    x.problem.seq_q = seq_q, x.problem.num_splits = 1, x.problem.dim_v = 1;
    x.dense();
  };
  accepts("rows of 2^31 - 1 blocks", [&](Offer& x) { rows(x, kGrid * 4); });
  refuses(ATTN_UNSUPPORTED, "partial results", [&](Offer& x) { rows(x, kGrid * 4 + 1); });
  // 2^46 bytes of partial O.
  const auto bytes = [](Offer& x, int64_t seq_q) {
    x.problem.seq_q = seq_q, x.problem.num_splits = 65535, x.problem.dim_v = 256;
    x.dense();
  };
  accepts("2^46 bytes", [&](Offer& x) { bytes(x, (int64_t{1} << 46) / 65535 / 1024); });
  refuses(ATTN_UNSUPPORTED, "partial results",
          [&](Offer& x) { bytes(x, (int64_t{1} << 46) / 65535 / 1024 + 1); });
  // Packed heads are rows of one tile.
  const auto packed = [&](Offer& x, int64_t batch) {
    x.problem.heads_q = 4, x.problem.heads_kv = 2, x.problem.num_splits = 1;
    one_row(x, batch);
  };
  accepts("2 blocks a batch entry", [&](Offer& x) { packed(x, kGrid / 2); });
  refuses(ATTN_UNSUPPORTED, "blocks", [&](Offer& x) { packed(x, kGrid / 2 + 1); });
}

TEST_P(Plan, ContractsOfAnotherSize) {
  refuses(ATTN_INVALID, "attn_problem", [](Offer& x) { x.problem.size -= 1; });
  refuses(ATTN_INVALID, "attn_tensors", [](Offer& x) { x.tensors.size -= 1; });
  refuses(ATTN_INVALID, "attn_env", [](Offer& x) { x.env.size -= 1; });
  accepts("a newer contract", [](Offer& x) { x.problem.size += 8, x.tensors.size += 8, x.env.size += 8; });
}

TEST_P(Plan, Switches) {
  accepts("bf16", [](Offer& x) { x.problem.dtype = ATTN_BF16; });
  refuses(ATTN_INVALID, "dtype", [](Offer& x) { x.problem.dtype = ATTN_F32; });
  for (float scale : {0.0f, -1.0f, 3e38f}) accepts("scale", [&](Offer& x) { x.problem.scale = scale; });
  refuses(ATTN_INVALID, "scale", [](Offer& x) { x.problem.scale = -__builtin_inff(); });
  refuses(ATTN_INVALID, "softcap", [](Offer& x) { x.problem.softcap = -1e-30f; });
  refuses(ATTN_INVALID, "softcap", [](Offer& x) { x.problem.softcap = __builtin_inff(); });
  refuses(ATTN_INVALID, "softcap", [](Offer& x) { x.problem.softcap = __builtin_nanf(""); });
  accepts("softcap", [](Offer& x) { x.problem.softcap = 1e-30f; });
  accepts("bottom right", [](Offer& x) { x.problem.align = ATTN_BOTTOM_RIGHT; });
  for (int32_t align : {-1, 2}) refuses(ATTN_INVALID, "align", [&](Offer& x) { x.problem.align = align; });
  for (int32_t dtype : {ATTN_NONE - 1, ATTN_F32 + 1})
    refuses(ATTN_INVALID, "bias_dtype", [&](Offer& x) {
      x.problem.bias_dtype = dtype;
      x.tensors.bias = x.tensors.q;
    });
}

TEST_P(Plan, Environments) {
  refuses(ATTN_INVALID, "env.backend", [](Offer& x) { x.env.backend = ATTN_CUDA; });
  refuses(ATTN_INVALID, "env.sm_count = 0", [](Offer& x) { x.env.sm_count = 0; });
  accepts("one multiprocessor", [](Offer& x) { x.env.sm_count = 1; });
  refuses(ATTN_UNSUPPORTED, "compute capability 8.0", [](Offer& x) { x.env.compute_capability = 75; });
  accepts("sm_80", [](Offer& x) { x.env.compute_capability = 80; });
  const auto count = static_cast<int32_t>(kernel().variant_count);
  for (int32_t variant : {-1, count + 1})
    refuses(ATTN_INVALID, ("variant " + std::to_string(variant)).c_str(),
            [&](Offer& x) { x.env.variant = variant; });
}

TEST_P(Plan, ShapesAsAskedForAndAsTheyFit) {
  const auto with = [&](int32_t variant, int64_t dim, int64_t limit) {
    return ask([&](Offer& x) {
      x.env.variant = variant, x.env.shared_memory_limit = limit;
      x.problem.dim_qk = dim;
      x.dense();
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

TEST_P(Plan, SaysWhatItWillDo) {
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

TEST_P(SplitPlan, HeadsAreSharedByATileThatOneWouldLeaveEmpty) {
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

TEST_P(Plan, PointersMissingOrMisplaced) {
  using Tensor = attn_tensor attn_tensors::*;
  const auto move = [](attn_tensor& t, int bytes) { t.data = static_cast<char*>(t.data) + bytes; };
  for (const auto& [name, tensor] : std::vector<std::pair<const char*, Tensor>>{{"q", &attn_tensors::q},
                                                                                {"k", &attn_tensors::k},
                                                                                {"v", &attn_tensors::v},
                                                                                {"o", &attn_tensors::o}}) {
    const std::string missing = std::string(name) + " is a null pointer",
                      odd = std::string(name) + " is not aligned";
    refuses(ATTN_INVALID, missing.c_str(), [&](Offer& x) { (x.tensors.*tensor).data = nullptr; });
    refuses(ATTN_INVALID, odd.c_str(), [&](Offer& x) { move(x.tensors.*tensor, 1); });
    accepts("2 bytes on", [&](Offer& x) { move(x.tensors.*tensor, 2); });
    for (int64_t attn_problem::* none : {&attn_problem::batch, &attn_problem::seq_q})
      accepts("no queries", [&](Offer& x) { x.problem.*none = 0, (x.tensors.*tensor).data = nullptr; });
    if (tensor == &attn_tensors::o) continue;
    accepts("no keys", [&](Offer& x) { x.problem.seq_k = 0, (x.tensors.*tensor).data = nullptr; });
  }
  accepts("no query heads", [](Offer& x) {
    x.problem.heads_q = 0, x.problem.heads_kv = 2;
    x.tensors.q.data = x.tensors.k.data = x.tensors.v.data = x.tensors.o.data = nullptr;
  });
  refuses(ATTN_INVALID, "o is a null pointer",
          [](Offer& x) { x.problem.seq_k = 0, x.tensors.o.data = nullptr; });
  accepts("no LSE", [](Offer& x) { x.tensors.lse.data = nullptr; });
  refuses(ATTN_INVALID, "lse is not aligned", [&](Offer& x) { move(x.tensors.lse, 2); });
  accepts("LSE 4 bytes on", [&](Offer& x) { move(x.tensors.lse, 4); });

  const auto biased = [](Offer& x, int32_t dtype, uintptr_t at) {
    x.problem.bias_dtype = dtype;
    x.tensors.bias.data = reinterpret_cast<void*>(at);
  };
  for (int32_t dtype : {ATTN_F16, ATTN_BF16, ATTN_F32}) {
    refuses(ATTN_INVALID, "bias is a null pointer", [&](Offer& x) { biased(x, dtype, 0); });
    refuses(ATTN_INVALID, "bias is not aligned", [&](Offer& x) { biased(x, dtype, 0x60001); });
    accepts("bias", [&](Offer& x) { biased(x, dtype, 0x60004); });
    accepts("bias", [&](Offer& x) { biased(x, dtype, 0x60008); });
    accepts("a bias of no keys", [&](Offer& x) { biased(x, dtype, 0), x.problem.seq_k = 0; });
  }
  accepts("16-bit bias 2 bytes on", [&](Offer& x) { biased(x, ATTN_F16, 0x60002); });
  refuses(ATTN_INVALID, "bias is not aligned", [&](Offer& x) { biased(x, ATTN_F32, 0x60002); });

  refuses(ATTN_INVALID, "mask is a null pointer", [](Offer& x) { x.problem.has_mask = 1; });
  accepts("a mask of no keys", [](Offer& x) { x.problem.has_mask = 1, x.problem.seq_k = 0; });
  accepts("mask", [](Offer& x) {
    x.problem.has_mask = 1;
    x.tensors.mask.data = reinterpret_cast<void*>(uintptr_t{0x70001});
  });
  const auto lengths = [](Offer& x, uintptr_t at) {
    x.problem.has_key_lengths = 1;
    x.tensors.key_lengths = reinterpret_cast<const int64_t*>(at);
  };
  refuses(ATTN_INVALID, "key_lengths is a null pointer", [&](Offer& x) { lengths(x, 0); });
  refuses(ATTN_INVALID, "key_lengths is not aligned", [&](Offer& x) { lengths(x, 0x80004); });
  accepts("key_lengths", [&](Offer& x) { lengths(x, 0x80008); });
  accepts("lengths of no queries", [&](Offer& x) { lengths(x, 0), x.problem.batch = 0; });
}

TEST_P(Plan, OutputsThatOverlapThemselves) {
  const auto shape = [](Offer& x) {
    x.problem.batch = 2, x.problem.heads_q = x.problem.heads_kv = 3, x.problem.seq_q = 5, x.problem.dim_v = 8;
    x.dense();
  };
  for (int i = 0; i < 4; ++i) {
    SCOPED_TRACE(i);
    const auto less = [&](Offer& x) { shape(x), x.tensors.o.stride[i] -= 1; };
    refuses(ATTN_INVALID, "o make its elements overlap", less);
    accepts("further apart", [&](Offer& x) {
      shape(x);
      for (int j = 0; j <= i; ++j) x.tensors.o.stride[j] *= 2;
    });
    accepts("backwards", [&](Offer& x) { shape(x), x.tensors.o.stride[i] *= -1; });
    refuses(ATTN_INVALID, "o make", [&](Offer& x) { shape(x), x.tensors.o.stride[i] = 0; });
  }
  accepts("transposed", [&](Offer& x) { shape(x), x.tensors.o.stride[2] = 24, x.tensors.o.stride[1] = 8; });
  accepts("gaps that do not touch", [&](Offer& x) {
    shape(x), x.tensors.o.stride[3] = 2, x.tensors.o.stride[2] = 15, x.tensors.o.stride[1] = 75,
              x.tensors.o.stride[0] = 225;
  });
  refuses(ATTN_INVALID, "o make", [&](Offer& x) {
    shape(x), x.tensors.o.stride[3] = 2, x.tensors.o.stride[2] = 14, x.tensors.o.stride[1] = 75,
              x.tensors.o.stride[0] = 225;
  });
  for (int i = 0; i < 3; ++i) {
    refuses(ATTN_INVALID, "lse make its elements overlap",
            [&](Offer& x) { shape(x), x.tensors.lse.stride[i] -= 1; });
    accepts("LSE not wanted",
            [&](Offer& x) { shape(x), x.tensors.lse.stride[i] = 0, x.tensors.lse.data = nullptr; });
  }
  accepts("one query, any stride", [&](Offer& x) {
    shape(x), x.problem.seq_q = 1, x.dense(), x.tensors.o.stride[2] = 0, x.tensors.lse.stride[2] = 0;
  });
  accepts("one batch entry, any stride", [&](Offer& x) {
    shape(x), x.problem.batch = 1, x.dense(), x.tensors.o.stride[0] = 0, x.tensors.lse.stride[0] = 0;
  });
  const auto grouped = [&](Offer& x) { shape(x), x.problem.heads_q = 4, x.problem.heads_kv = 1, x.dense(); };
  refuses(ATTN_INVALID, "o make", [&](Offer& x) { grouped(x), x.tensors.o.stride[1] = 0; });
  refuses(ATTN_INVALID, "lse make", [&](Offer& x) { grouped(x), x.tensors.lse.stride[1] = 0; });
  accepts("backwards, in steps of two",
          [&](Offer& x) { x.problem.seq_q = 3, x.problem.dim_v = 2, x.dense(), x.tensors.o.stride[2] = -2; });
  accepts("the last stride of LSE", [&](Offer& x) { shape(x), x.tensors.lse.stride[3] = 0; });
  accepts("nothing to overlap", [&](Offer& x) { shape(x), x.problem.seq_q = 0, x.tensors.o.stride[0] = 0; });
}

TEST_P(Plan, CopiesBy16BytesWhereTheyCan) {
  const auto path = [&](const std::function<void(Offer&)>& change) {
    const Answer answer = ask([&](Offer& x) {
      x.problem.batch = x.problem.heads_q = x.problem.heads_kv = 2;
      x.dense();
      change(x);
    });
    const std::string path = answer.plan.path;
    return path.substr(path.rfind(' ') + 1);
  };
  EXPECT_EQ(path([](Offer&) {}), "cp.async");
  using Tensor = attn_tensor attn_tensors::*;
  for (const auto& [name, tensor] : std::vector<std::pair<std::string, Tensor>>{
           {"q", &attn_tensors::q}, {"k", &attn_tensors::k}, {"v", &attn_tensors::v}}) {
    const std::string slow = "elementwise(" + name + ")";
    EXPECT_EQ(
        path([&](Offer& x) { (x.tensors.*tensor).data = static_cast<char*>((x.tensors.*tensor).data) + 8; }),
        slow);
    EXPECT_EQ(
        path([&](Offer& x) { (x.tensors.*tensor).data = static_cast<char*>((x.tensors.*tensor).data) + 16; }),
        "cp.async");
    EXPECT_EQ(path([&](Offer& x) { (x.tensors.*tensor).stride[3] = 2; }), slow);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(path([&](Offer& x) { (x.tensors.*tensor).stride[i] += 4; }), slow);
      EXPECT_EQ(path([&](Offer& x) { (x.tensors.*tensor).stride[i] += 8; }), "cp.async");
      EXPECT_EQ(path([&](Offer& x) { (x.tensors.*tensor).stride[i] = 0; }), "cp.async") << "broadcast";
    }
    // A dimension of one may have any stride.
    EXPECT_EQ(path([&](Offer& x) { x.problem.batch = 1, (x.tensors.*tensor).stride[0] = 3; }), "cp.async");
  }
  EXPECT_EQ(path([](Offer& x) { x.problem.heads_q = x.problem.heads_kv = 1, x.tensors.q.stride[1] = 3; }),
            "cp.async");
  EXPECT_EQ(path([](Offer& x) { x.problem.seq_q = 1, x.tensors.q.stride[2] = 3; }), "cp.async");
  EXPECT_EQ(path([](Offer& x) { x.problem.seq_k = 1, x.tensors.k.stride[2] = 3; }), "cp.async");
  // Whose dimension it is: grouped heads, one query, one key.
  EXPECT_EQ(path([](Offer& x) { x.problem.heads_kv = 1, x.dense(), x.tensors.q.stride[1] += 4; }),
            "elementwise(q)");
  EXPECT_EQ(path([](Offer& x) { x.problem.seq_k = 1, x.dense(), x.tensors.q.stride[2] += 4; }),
            "elementwise(q)");
  EXPECT_EQ(path([](Offer& x) { x.problem.seq_q = 1, x.dense(), x.tensors.k.stride[1] += 4; }),
            "elementwise(k)");
  EXPECT_EQ(path([](Offer& x) { x.problem.seq_q = 1, x.dense(), x.tensors.v.stride[1] += 4; }),
            "elementwise(v)");
  EXPECT_EQ(path([](Offer& x) { x.problem.dim_qk = 60, x.dense(); }), "elementwise(qk)");
  EXPECT_EQ(path([](Offer& x) { x.problem.dim_v = 60, x.dense(); }), "elementwise(v)");
  EXPECT_EQ(path([](Offer& x) { x.problem.dim_qk = x.problem.dim_v = 56, x.dense(); }), "cp.async");
}

// These return before anything is launched: the tensors are not there.
TEST_P(Plan, RunRefusesWhatPlanRefuses) {
  const auto run = [&](const std::function<void(Offer&)>& change) {
    Offer offer;
    change(offer);
    attn_plan plan = {};
    return kernel().run(&offer.problem, &offer.tensors, &plan, &offer.env);
  };
  EXPECT_EQ(run([](Offer& x) { x.env.sm_count = 0; }), ATTN_INVALID);
  EXPECT_EQ(run([](Offer& x) { x.env.shared_memory_limit = 1; }), ATTN_UNSUPPORTED);
  for (int64_t attn_problem::* none : {&attn_problem::batch, &attn_problem::seq_q})
    EXPECT_EQ(run([&](Offer& x) { x.problem.*none = 0; }), ATTN_OK) << "nothing to do";
  EXPECT_EQ(run([](Offer& x) { x.problem.heads_q = x.problem.heads_kv = 0; }), ATTN_OK) << "nothing to do";
}

TEST_P(SplitPlan, StagesRefuseAWorkspaceTheyCannotUse) {
  alignas(16) static char memory[32] = {};
  Offer offer;
  offer.problem.num_splits = 2;
  const attn_plan plan = ask(offer).plan;
  for (const auto stage : {kernel().run, kernel().partial, kernel().reduce}) {
    for (const auto& [at, bytes] : {std::pair<char*, uint64_t>{nullptr, plan.workspace_bytes},
                                    {memory, plan.workspace_bytes - 1},
                                    {memory + 8, plan.workspace_bytes}}) {
      offer.tensors.workspace = at, offer.tensors.workspace_bytes = bytes;
      EXPECT_EQ(stage(&offer.problem, &offer.tensors, &plan, &offer.env), ATTN_INVALID);
    }
  }
}

TEST_P(Plan, ReasonsStayInTheirBuffer) {
  const std::function<void(Offer&)> changes[] = {
      [](Offer& x) { x.env.sm_count = 0; },
      [](Offer& x) { x.env.shared_memory_limit = 1; },
      [](Offer& x) { x.problem.batch = kGrid + 1, x.problem.seq_q = 1, x.dense(); },
  };
  for (const auto& change : changes) {
    Offer offer;
    change(offer);
    const std::string whole = ask(offer).reason;
    ASSERT_FALSE(whole.empty());
    attn_plan plan = {};
    for (size_t size :
         {size_t{0}, size_t{1}, size_t{2}, size_t{9}, whole.size(), whole.size() + 1, whole.size() + 9}) {
      std::string buffer(300, '#'), expected = buffer;
      EXPECT_NE(kernel().plan(&offer.problem, &offer.tensors, &offer.env, &plan, buffer.data(), size), ATTN_OK);
      // As much of it as there is room for, its end, and nothing beyond.
      if (size > 0) expected.replace(0, std::min(size, whole.size() + 1), whole.substr(0, size - 1) + '\0');
      EXPECT_EQ(buffer, expected) << size;
    }
    EXPECT_NE(kernel().plan(&offer.problem, &offer.tensors, &offer.env, &plan, nullptr, 64), ATTN_OK);
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, SplitPlan, testing::Values("splitk"),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Kernels, Plan, testing::Values("fa1", "splitk"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace attnfuzz
