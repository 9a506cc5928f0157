// Compares the kernels on the CPU executor, in this process, with the oracle.
#include <gtest/gtest.h>

#include "tests/kernels/call.h"

namespace attnfuzz {
namespace {

class Forward : public OfKernel {};
class Turns : public OfKernel {};     // kernels whose blocks take several work items
class Sections : public OfKernel {};  // kernels that number heads by sections

TEST_P(Forward, LengthsAroundTileBorders) {
  for (int64_t s : {1, 2, 15, 16, 63, 64, 65, 127, 128, 129, 193}) {
    EXPECT_LE(Call(square(s, 64)).worst_ratio(kernel()), 1) << "S=" << s;
  }
}

TEST_P(Forward, HeadDimensions) {
  for (int64_t d : {1, 4, 7, 8, 40, 64, 80, 128, 130, 256}) {
    if (has_fast_path() && d > 64) continue;  // the fast path is compiled for at most 64
    EXPECT_LE(Call(square(70, d)).worst_ratio(kernel()), 1) << "D=" << d;
  }
}

TEST_P(Forward, FormatsHeadsAndSplits) {
  for (int32_t dtype : {ATTN_F16, ATTN_BF16}) {
    for (int64_t splits : {0, 1, 2, 3, 7}) {
      attn_problem p = square(70, 32);
      p.dtype = dtype;
      p.batch = 2;
      p.heads_q = 6;
      p.heads_kv = 2;
      p.seq_q = 5;
      p.seq_k = 200;
      p.align = ATTN_BOTTOM_RIGHT;
      p.num_splits = splits;
      EXPECT_LE(Call(p).worst_ratio(kernel()), 1) << "dtype " << dtype << ", splits " << splits;
    }
  }
}

TEST_P(Forward, EveryVariantAndSchedule) {
  for (uint32_t variant = 0; variant <= kernel().variant_count; ++variant) {
    for (uint64_t seed : {0, 1, 2, 3, 4, 5, 6, 7, 8}) {
      Call call(square(129, has_fast_path() ? 64 : 72));
      call.env.variant = static_cast<int32_t>(variant);
      call.env.schedule_seed = seed;
      EXPECT_LE(call.worst_ratio(kernel()), 1) << "variant " << variant << ", schedule " << seed;
    }
  }
}

TEST_P(Forward, AModuleHasOneKernel) {
  const auto kernel_at = kernel_at_of(GetParam());
  EXPECT_EQ(kernel_at(0), &kernel());
  EXPECT_EQ(kernel_at(1), nullptr);
}

TEST_P(Forward, RefusesWithAReason) {
  attn_problem p = square(4, 4);
  p.heads_q = 3;
  p.heads_kv = 2;
  p.size = sizeof p;
  attn_tensors tensors = {};
  tensors.size = sizeof tensors;
  attn_env env = {};
  env.size = sizeof env;
  env.sm_count = 1;
  env.compute_capability = 90;
  attn_plan plan;
  char reason[128] = "";
  EXPECT_EQ(kernel().plan(&p, &tensors, &env, &plan, reason, sizeof reason), ATTN_INVALID);
  EXPECT_STREQ(reason, "heads_kv = 2 does not divide heads_q = 3");
}

// With one multiprocessor one block does all work items: rings of slots wrap, and each item begins with the
// shared memory that the previous one left.
TEST_P(Turns, ABlockDoesManyItems) {
  for (int64_t seq_q : {3, 200}) {
    for (int which = 0; which < 14; ++which) {
      SCOPED_TRACE("queries " + std::to_string(seq_q) + ", problem " + std::to_string(which));
      attn_problem p = square(200, 16);
      p.batch = 2, p.heads_q = 6, p.heads_kv = 2, p.seq_q = seq_q;
      p.causal = which % 2;
      p.has_key_lengths = which / 2 % 2;
      p.bias_dtype = which / 4 != 1 ? ATTN_NONE : which % 2 == 0 ? ATTN_F16 : ATTN_F32;
      if (which % 3 == 1) p.scale = -p.scale;
      if (which / 4 == 2) p.seq_k = 192, p.window_left = 70;
      if (which / 4 == 3) p.seq_k = 60;  // one key tile, so the next query tile begins at once
      Call call(p);
      call.key_lengths = {which % 3 == 0 ? 0 : 150, 130};
      if (kernel().partial != nullptr && which % 2 == 0)
        call.lay_out(&Call::o, {12 * seq_q * 16, 2 * seq_q * 16, 2 * 16, 2});  // elements apart
      call.env.sm_count = 1;
      call.env.schedule_seed = which;
      holds_in_parts(call);
    }
  }
}

// Heads are processed in sections with a limit of bytes of K and V, here 16 KB. A section has four heads, and
// the last one has fewer; each head has several query tiles.
TEST_P(Sections, TheLastHasFewerHeads) {
  struct Heads {
    int64_t batch, heads_q, group;
  };
  for (const auto [batch, heads_q, group] :
       {Heads{1, 3, 1}, {2, 3, 1}, {3, 3, 1}, {7, 1, 1}, {2, 6, 2}, {1, 12, 4}}) {
    for (int32_t causal : {0, 1}) {
      SCOPED_TRACE("batch " + std::to_string(batch) + ", heads " + std::to_string(heads_q));
      attn_problem p = square(200, 16);
      p.batch = batch, p.heads_q = heads_q, p.heads_kv = heads_q / group;
      p.seq_k = 64;
      p.causal = causal;
      Call call(p);
      call.env.sm_count = 2;
      holds(call);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Sections, testing::Values("fa1a", "fa1h"),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Kernels, Turns, testing::Values("fa1h", "splitkh"),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Kernels, Forward, testing::Values("fa1", "splitk", "fa1h", "splitkh"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace attnfuzz
