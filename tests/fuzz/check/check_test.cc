// Tests checks and reductions: domains, layouts, the base of the LSE, and a GPU's arithmetic.
#include "fuzz/check/check.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "fuzz/check/epochs.h"
#include "fuzz/check/failure/earlier.h"
#include "fuzz/check/failure/exploits.h"
#include "fuzz/check/shard.h"
#include "fuzz/check/takes/declaration.h"
#include "fuzz/check/takes/refusals.h"
#include "fuzz/check/takes/sizes_taken.h"
#include "properties/case/features/domain.h"
#include "properties/case/features/feature.h"
#include "properties/case/words.h"
#include "properties/draw/draw.h"
#include "properties/draw/generator.h"
#include "tests/properties/support/fake_target.h"

namespace attnfuzz {
namespace {

// Takes only one head, and declares that.
class OneHeadTarget : public FakeTarget {
 public:
  OneHeadTarget() {
    info_ = FakeTarget::info();
    attn_domain domain = {};
    domain.size = sizeof domain;
    domain.heads_q = {1, 1, 0, 0, {}};
    info_.domain = domain;
  }
  const KernelInfo& info() const override { return info_; }
  PlanReply plan(const attn_problem& problem, const attn_tensors& tensors, const attn_env& env) override {
    PlanReply reply = FakeTarget::plan(problem, tensors, env);
    if (problem.heads_q > 1) reply.status = ATTN_UNSUPPORTED, reply.reason = "more than one head";
    return reply;
  }

 private:
  KernelInfo info_;
};

TEST(Check, ExpectsNoGroupedHeadsOfAKernelOfOneHead) {
  OneHeadTarget target;
  const Refused refused = ask_for_refusals(target);
  EXPECT_TRUE(std::ranges::any_of(refused.those, [](const Refusal* r) {
    return std::string_view(r->name) == "grouped heads";
  })) << in_words(refused);
}

// Takes only one head, and is always wrong.
class WrongOneHeadTarget : public OneHeadTarget {
 public:
  RunReply run(Stage stage, const attn_problem& problem, const attn_tensors& tensors, const attn_plan& plan,
               const attn_env& env, int stream) override {
    RunReply reply = OneHeadTarget::run(stage, problem, tensors, plan, env, stream);
    reply.status = ATTN_FAULT;
    return reply;
  }
};

TEST(Check, ReducesWithinTheCallersDomainAndTheKernelsDeclaration) {
  Case c;
  c.problem.seq_q = 5, c.problem.seq_k = 40, c.problem.dim_qk = c.problem.dim_v = 8;
  const Property& property = *find_property("reference");
  for (const int64_t keys : {0, 7}) {
    WrongOneHeadTarget target;
    const Verdict verdict = judge(c, property, target, executor());
    ASSERT_EQ(verdict.outcome, Outcome::kFail);
    ReduceOptions options;
    if (keys > 0)
      options.fit = [&](Case& inside) { inside.problem.seq_k = std::max(inside.problem.seq_k, keys); };
    const Reduction reduction = reduce_failure(c, verdict, property, target, executor(), options);
    EXPECT_EQ(reduction.minimal.problem.seq_k, keys);
    EXPECT_EQ(reduction.minimal.problem.heads_q, 1);
    // No case with fewer keys was tried, so nobody knows whether the bug needs so many.
    EXPECT_TRUE(std::ranges::none_of(reduction.needs, [](const Need& need) { return need.part == "seq_k"; }));
  }
}

TEST(Check, DoesNotNeedTheSmallestHeadDimensionOfTheDomain) {
  class WrongTarget : public FakeTarget {
   public:
    RunReply run(Stage stage, const attn_problem& problem, const attn_tensors& tensors, const attn_plan& plan,
                 const attn_env& env, int stream) override {
      RunReply reply = FakeTarget::run(stage, problem, tensors, plan, env, stream);
      reply.status = ATTN_FAULT;
      return reply;
    }
  } target;
  attn_domain domain = {};
  domain.size = sizeof domain;
  domain.dim_qk = domain.dim_v = {0, 0, 0, 2, {64, 128}};
  Case c;
  c.problem.dim_qk = c.problem.dim_v = 128;
  const Property& property = *find_property("reference");
  const Verdict verdict = judge(c, property, target, executor());
  ReduceOptions options;
  options.fit = [&](Case& inside) { fit(domain, inside); };
  const Reduction reduction = reduce_failure(c, verdict, property, target, executor(), options);
  EXPECT_EQ(reduction.minimal.problem.dim_qk, 64);
  for (const Need& need : reduction.needs) EXPECT_EQ(need.part.find("dim_"), std::string::npos) << need.text;
}

// Refuses K if it is not aligned to 16 bytes, and does not check the other tensors.
class AlignedKeysTarget : public FakeTarget {
 public:
  PlanReply plan(const attn_problem& problem, const attn_tensors& tensors, const attn_env& env) override {
    PlanReply reply = FakeTarget::plan(problem, tensors, env);
    const attn_tensor& k = tensors.k;
    if (reinterpret_cast<uintptr_t>(k.data) % 16 != 0 || k.stride[1] % 8 != 0 || k.stride[2] % 8 != 0)
      reply.status = ATTN_UNSUPPORTED, reply.reason = "K is not aligned to 16 bytes";
    return reply;
  }
};

TEST(Check, LearnsTheLayoutsThatEachTensorMayHave) {
  AlignedKeysTarget target;
  const Refused refused = ask_for_refusals(target);
  EXPECT_EQ(in_words(refused),
            "dense rows that are no multiple of 16 bytes (k), columns across rows (k), strides that are no "
            "multiple of 16 bytes (k), base addresses that are no multiple of 16 bytes (k)")
      << "V may have any rows";
  Case c;
  c.problem.dim_qk = c.problem.dim_v = 8;
  c.layout[static_cast<size_t>(TensorId::kK)] = {
      .offset = 3, .row_gap = 5, .spread = (int64_t{1} << 31) + 1, .across = true};
  c.layout[static_cast<size_t>(TensorId::kV)] = {.offset = 3, .row_gap = 5};
  strip_refused(refused, c);
  const TensorLayout& k = c.layout[static_cast<size_t>(TensorId::kK)];
  EXPECT_EQ(k.offset, 8);
  EXPECT_EQ(k.row_gap, 8);
  EXPECT_EQ(k.spread % 8, 0);
  EXPECT_FALSE(k.across);
  EXPECT_EQ(c.layout[static_cast<size_t>(TensorId::kV)].offset, 3) << "V was not refused";
  FakeTarget any;
  EXPECT_EQ(in_words(ask_for_refusals(any)), "");
}

// Writes the LSE in base 2; its plan declares `base`.
class Log2Target : public FakeTarget {
 public:
  explicit Log2Target(int32_t base) : FakeTarget(Flaw::kLseBase), base_(base) {}
  PlanReply plan(const attn_problem& p, const attn_tensors& tensors, const attn_env& env) override {
    PlanReply reply = FakeTarget::plan(p, tensors, env);
    reply.plan.lse_base = base_;
    return reply;
  }

 private:
  int32_t base_;
};

TEST(Check, AnLseHasTheDeclaredBase) {
  CheckOptions options;
  options.cases = 150;
  options.refused = Refused{};
  for (const Property* property : properties()) {
    if (!property->needs_stages) options.properties.push_back(property);
  }
  const auto judged = [&](int32_t base) {
    Log2Target target(base);
    Shared shared;
    return run_shard(0, target, executor(), options, shared);
  };
  const CheckResult right = judged(2);
  EXPECT_TRUE(right.failures.empty()) << right.failures[0].verdict.property << ": "
                                      << right.failures[0].verdict.message;
  EXPECT_EQ(right.cases(), 150u);
  EXPECT_FALSE(judged(0).failures.empty());
}

// If neither an arithmetic nor a calibration was chosen, one case of 13 is in a GPU's arithmetic.
TEST(Arithmetic, OfAGpuIsDrawnForSomeCases) {
  FakeTarget target;
  CheckOptions options;
  options.properties.assign(properties().begin(), properties().end());
  const auto share = [&](const Calibration& calibration) {
    const GeneratorConfig config;
    int of_gpu = 0;
    for (uint64_t n = 0; n < 130; ++n)
      of_gpu += case_at(config, options, target, calibration, n).c.env.arithmetic == ATTN_ARITHMETIC_H200;
    return of_gpu;
  };
  EXPECT_EQ(share(executor()), 10);
  EXPECT_EQ(share(documented()), 0);
  options.arithmetic = ATTN_ARITHMETIC_A100;
  EXPECT_EQ(share(executor()), 0);
}

// If a failure comes in any arithmetic, its reduced case has ATTN_ARITHMETIC_ANY.
TEST(Arithmetic, IsKeptOnlyWhereAFailureNeedsIt) {
  FakeTarget target(Flaw::kDropsLastKey);
  const Property& reference = *find_property("reference");
  Case c;
  c.problem.seq_k = 5;
  c.v.kind = FillKind::kPosition;
  c.env.arithmetic = ATTN_ARITHMETIC_H200;
  const Verdict verdict = judge(c, reference, target, executor());
  ASSERT_EQ(verdict.outcome, Outcome::kFail) << verdict.message;
  const Reduction r = reduce_failure(c, verdict, reference, target, executor(), {.seconds = 60});
  EXPECT_EQ(r.minimal.env.arithmetic, ATTN_ARITHMETIC_ANY);
}

// Within an epoch the parts that a kernel compiles for are equal; all other parts are drawn as usual.
TEST(Epochs, ShareThePartsThatAKernelCompilesFor) {
  GeneratorConfig config;
  KernelInfo kernel;
  kernel.build.flags = "no_window compiles=dtype,heads,seq,causal,bias,scale";
  ASSERT_EQ(compiles_for(kernel.build.flags).size(), 6u);
  size_t lengths = 0, batches = 0;
  for (uint64_t index = 0; index < 4 * kCasesOfEpoch; ++index) {
    const Problem first = draw_in_epoch(config, kernel, 7, index / kCasesOfEpoch * kCasesOfEpoch).problem;
    const Case c = draw_in_epoch(config, kernel, 7, index);
    const Problem& p = c.problem;
    EXPECT_FALSE(illegal(c)) << index;
    EXPECT_EQ(p.dtype, first.dtype);
    EXPECT_EQ(p.heads_q, first.heads_q);
    EXPECT_EQ(p.heads_kv, first.heads_kv);
    EXPECT_EQ(p.seq_q, first.seq_q);
    EXPECT_EQ(p.seq_k, first.seq_k);
    EXPECT_EQ(p.causal, first.causal);
    EXPECT_EQ(p.bias.has_value(), first.bias.has_value());
    EXPECT_EQ(p.scale, first.scale);
    lengths += p.seq_k != draw_in_epoch(config, kernel, 7, 0).problem.seq_k;
    batches += p.batch != first.batch;
  }
  EXPECT_GT(lengths, 0u);
  EXPECT_GT(batches, 0u);
  EXPECT_EQ(draw_in_epoch(config, KernelInfo{}, 7, 5), draw(config, 7, 5));
}

}  // namespace
}  // namespace attnfuzz
