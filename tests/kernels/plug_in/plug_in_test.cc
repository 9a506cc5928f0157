// Tests plug_in.h with kernels that compute nothing: what it reads of a kernel, its defaults, plans and stages.
#include "kernels/plug_in.h"

#include <gtest/gtest.h>

#include <cstddef>

#include "reference/call/tensor_spec.h"
#include "tests/kernels/plug_in/kernels.h"

namespace attnfuzz {
namespace {

TEST(PlugIn, DescriptorHasTheKernelsDeclarations) {
  EXPECT_EQ(kTwo.size, sizeof kTwo);
  EXPECT_EQ(kTwo.abi, uint32_t{ATTN_ABI});
  EXPECT_STREQ(kTwo.name, "two");
  EXPECT_STREQ(kTwo.description, "nothing, in two ways");
  EXPECT_EQ(kTwo.backend, ATTN_CPU);
  EXPECT_EQ(kTwo.variant_count, 2u);
  EXPECT_STREQ(kTwo.variants[1], "large");
  EXPECT_EQ(kTwo.build, &Two::kIdentity);
  EXPECT_EQ(kTwo.domain, &Two::kMine);
  EXPECT_EQ(kTwo.features, (uint64_t{1} << 50) | ATTN_FEATURE_F32) << "fp32 is in its domain";
  EXPECT_EQ(kTwo.partials, nullptr);
  EXPECT_EQ(kTwo.partial, nullptr);
  EXPECT_EQ(kTwo.reduce, nullptr);
  EXPECT_EQ(kOne.backend, ATTN_CUDA);
  EXPECT_EQ(kOne.variant_count, 0u);
  EXPECT_EQ(kOne.variants, nullptr);
  EXPECT_EQ(kOne.build, nullptr);
  EXPECT_EQ(kOne.domain, nullptr);
  EXPECT_EQ(kOne.features, 0u);
}

// The domain of a library that was built before layouts could be declared is shorter: bytes beyond it are not
// read.
TEST(PlugIn, AnOlderDomainDeclaresNoLayout) {
  attn_domain older = Two::kMine, read;
  older.size = offsetof(attn_domain, layout);
  older.usual_scale = 1;
  older.layout = older.align_bytes = 77;
  ASSERT_TRUE(attn_read(&read, sizeof read, &older, sizeof(uint32_t)));
  EXPECT_EQ(read.usual_scale, 1);
  EXPECT_EQ(read.layout, 0);
  EXPECT_EQ(read.align_bytes, 0);
}

static_assert(attn::plug_in_detail::kOtherOperations == attnfuzz::kOperations, "call.h knows every operation");

TEST(PlugIn, KnowsItsVariants) {
  Offer x;
  for (int32_t variant : {0, 1, 2}) {
    x.env.variant = variant;
    EXPECT_EQ(answer(kTwo, x).status, ATTN_OK);
    EXPECT_EQ(Two::variant, variant);
  }
  for (int32_t variant : {-1, 3}) {
    x.env.variant = variant;
    const Told a = answer(kTwo, x);
    EXPECT_EQ(a.status, ATTN_INVALID);
    EXPECT_EQ(a.reason, "variant " + std::to_string(variant) + " is not one of 0..2");
  }
  x.env.backend = ATTN_CUDA;
  x.env.variant = 0;
  EXPECT_EQ(answer(kOne, x).status, ATTN_OK);
  x.env.variant = 1;
  EXPECT_EQ(answer(kOne, x).reason, "variant 1 is not one of 0..0");
}

TEST(PlugIn, RefusesWithoutRoomForAReason) {
  Offer x;
  x.problem.softcap = 1;
  const Told a = answer(kTwo, x);
  EXPECT_EQ(a.status, ATTN_UNSUPPORTED);
  EXPECT_EQ(a.reason, "a softcap, of which " + std::string(60, '.'));
  attn_plan plan = {};
  plan.size = sizeof plan;
  char reason[5] = "same";
  const auto ask = [&](char* to, uint64_t size) {
    return kTwo.plan(&x.problem, &x.tensors, &x.env, &plan, to, size);
  };
  EXPECT_EQ(ask(nullptr, 0), ATTN_UNSUPPORTED);
  EXPECT_EQ(ask(nullptr, 100), ATTN_UNSUPPORTED);
  EXPECT_EQ(ask(reason, 0), ATTN_UNSUPPORTED);
  EXPECT_STREQ(reason, "same");
  EXPECT_EQ(ask(reason, sizeof reason), ATTN_UNSUPPORTED);
  EXPECT_STREQ(reason, "a so");
}

TEST(PlugIn, RunsWithAPlanThatItCanRead) {
  Offer x;
  attn_plan plan = answer(kTwo, x).plan;
  EXPECT_EQ(plan.tile_q, 128);
  const int runs = Two::runs;
  const auto run = [&] { return kTwo.run(&x.problem, &x.tensors, &plan, &x.env); };
  EXPECT_EQ(run(), ATTN_OK);
  EXPECT_EQ(Two::runs, runs + 1);
  plan.size = ATTN_PLAN_MIN - 1;
  EXPECT_EQ(run(), ATTN_INVALID);
  plan.size = ATTN_PLAN_MIN;
  EXPECT_EQ(run(), ATTN_OK) << "a plan of the first contract";
  x.env.variant = 3;
  EXPECT_EQ(run(), ATTN_INVALID);
  EXPECT_EQ(Two::runs, runs + 2);
}

TEST(PlugIn, HasTheStagesThatItsKernelHas) {
  Offer x;
  x.env.backend = ATTN_CUDA;
  x.env.variant = 0;
  attn_plan plan = answer(kOne, x).plan;
  EXPECT_EQ(kOne.run(&x.problem, &x.tensors, &plan, &x.env), ATTN_OK);
  EXPECT_EQ(kOne.partial(&x.problem, &x.tensors, &plan, &x.env), ATTN_LAUNCH_FAILED);
  EXPECT_EQ(kOne.reduce(&x.problem, &x.tensors, &plan, &x.env), ATTN_UNSUPPORTED);
  attn_partials partials = {};
  partials.size = sizeof partials;
  EXPECT_EQ(kOne.partials(&x.problem, &plan, &partials), ATTN_OK);
  EXPECT_EQ(partials.num_splits, x.problem.seq_k);
  partials.size = ATTN_PARTIALS_MIN - 1;
  EXPECT_EQ(kOne.partials(&x.problem, &plan, &partials), ATTN_INVALID);
  partials.size = sizeof partials;
  plan.size = ATTN_PLAN_MIN - 1;
  EXPECT_EQ(kOne.partials(&x.problem, &plan, &partials), ATTN_INVALID);
  plan.size = sizeof plan;
  x.problem.size = ATTN_PROBLEM_MIN - 1;
  EXPECT_EQ(kOne.partials(&x.problem, &plan, &partials), ATTN_INVALID);
}

TEST(PlugIn, UndeclaredFieldsOfThePlanAreTheLoosest) {
  attn_problem p = Offer().problem;
  p.seq_k = 129;
  attn_plan plan = attn::default_plan(p);
  EXPECT_EQ(plan.size, sizeof plan);
  EXPECT_EQ((std::array{plan.tile_q, plan.tile_k, plan.num_splits, plan.split_tiles, plan.rescales}),
            (std::array<int64_t, 5>{64, 64, 1, 3, 129}));
  EXPECT_EQ(plan.workspace_bytes, 0u);
  EXPECT_EQ(plan.workspace_align, 1u);
  EXPECT_EQ(plan.deterministic, 0);
  EXPECT_EQ(plan.accumulator, 0) << "the loosest class";
  EXPECT_STREQ(plan.path, "");

  plan = attn::plain_plan("by hand", 32, 129);
  EXPECT_EQ(plan.size, sizeof plan);
  EXPECT_STREQ(plan.path, "by hand");
  EXPECT_EQ((std::array{plan.tile_q, plan.tile_k, plan.num_splits, plan.split_tiles, plan.rescales}),
            (std::array<int64_t, 5>{32, 32, 1, 5, 1}));
  EXPECT_EQ((std::array<int, 6>{plan.accumulator, plan.exp_class, plan.log_class, plan.rcp_class,
                                plan.scale_mode, plan.p_format}),
            (std::array<int, 6>{ATTN_ACC_FFMA, ATTN_EXP_FAST_EXPF, ATTN_LOG_LOGF, ATTN_RCP_EXACT,
                                ATTN_SCALE_SEPARATE, ATTN_FORMAT_F32}));
  EXPECT_EQ(plan.deterministic, 1);
  EXPECT_EQ(plan.workspace_align, 1u);
  plan = attn::plain_plan(std::string(200, 'x').c_str(), 32, 129);
  EXPECT_EQ(strlen(plan.path), sizeof plan.path - 1);
}

TEST(PlugIn, StridesOfSingleElementsAreCleared) {
  int data;
  const attn_tensor t = {&data, {1000, 100, 10, 7}};
  const auto is = [&](std::array<int64_t, 4> shape, std::array<int64_t, 4> strides) {
    const attn_tensor of = attn::strided(t, shape[0], shape[1], shape[2], shape[3]);
    EXPECT_EQ(of.data, &data);
    EXPECT_EQ((std::array{of.stride[0], of.stride[1], of.stride[2], of.stride[3]}), strides);
  };
  is({2, 2, 2, 2}, {1000, 100, 10, 7});
  is({1, 2, 2, 2}, {0, 100, 10, 7});
  is({2, 1, 2, 2}, {1000, 0, 10, 7});
  is({2, 2, 1, 2}, {1000, 100, 0, 7});
  is({2, 2, 2, 1}, {1000, 100, 10, 1});
}

TEST(PlugIn, EveryTensorIsStridedInItsOwnShape) {
  attn_problem p = {};
  attn_tensors t = {};
  for (attn_tensor attn_tensors::* of : {&attn_tensors::q, &attn_tensors::k, &attn_tensors::v, &attn_tensors::o,
                                         &attn_tensors::lse, &attn_tensors::bias, &attn_tensors::mask})
    (t.*of) = {nullptr, {1000, 100, 10, 7}};
  // The strides that are kept if only this size is larger than 1.
  const auto left = [&](int64_t attn_problem::* size) {
    p.batch = p.heads_q = p.heads_kv = p.seq_q = p.seq_k = p.dim_qk = p.dim_v = 1;
    p.*size = 2;
    const attn_tensors of = attn::strided(p, t);
    std::string out;
    for (const auto& [name, one] : {std::pair('q', &of.q),
                                    {'k', &of.k},
                                    {'v', &of.v},
                                    {'o', &of.o},
                                    {'l', &of.lse},
                                    {'b', &of.bias},
                                    {'m', &of.mask}})
      for (int i = 0; i < 4; ++i)
        if (one->stride[i] == t.q.stride[i]) out += {name, "bhsd"[i], ' '};
    return out;
  };
  EXPECT_EQ(left(&attn_problem::batch), "qb kb vb ob lb bb mb ");
  EXPECT_EQ(left(&attn_problem::heads_q), "qh oh lh bh mh ");
  EXPECT_EQ(left(&attn_problem::heads_kv), "kh vh ");
  EXPECT_EQ(left(&attn_problem::seq_q), "qs os ls bs ms ");
  EXPECT_EQ(left(&attn_problem::seq_k), "ks vs bd md ");
  EXPECT_EQ(left(&attn_problem::dim_qk), "qd kd ");
  EXPECT_EQ(left(&attn_problem::dim_v), "vd od ");
}

}  // namespace
}  // namespace attnfuzz
