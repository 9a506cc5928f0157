// Tests the limits of a kernel that a check finds by asking plan().
#include <gtest/gtest.h>

#include <algorithm>

#include "fuzz/check/check.h"
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

TEST(Limits, AreTheSimplestThatAgreeWithTheAnswers) {
  const std::vector<int64_t> asked = {0, 1, 2, 8, 16, 24, 32, 48, 64, 96, 128, 129};
  const auto simplest = [&](const std::vector<int64_t>& taken) {
    const attn_sizes s = simplest_sizes(asked, taken);
    return std::vector<int64_t>{s.least, s.most, s.multiple, s.count};
  };
  EXPECT_EQ(simplest({0, 8, 16, 24, 32, 48, 64, 96, 128}), (std::vector<int64_t>{0, 0, 8, 0}));
  EXPECT_EQ(simplest({64, 128}), (std::vector<int64_t>{0, 0, 0, 2}));
  EXPECT_EQ(simplest({16, 32, 48, 64}), (std::vector<int64_t>{1, 64, 16, 0}));
  EXPECT_EQ(simplest({1, 2, 8, 16, 24}), (std::vector<int64_t>{1, 24, 0, 0}));
  EXPECT_EQ(simplest({32, 64, 128}), (std::vector<int64_t>{0, 0, 0, 3})) << "96 was refused";
}

// Large problems are slow to run, so one large length is asked for where the small ones follow a rule.
TEST(Limits, AskForFewLargeLengths) {
  struct Answers {
    attn_sizes lengths;
    int large = 0;  // questions about lengths above 512
  };
  const auto ask = [](auto takes) {
    Answers answers;
    const auto found = sizes_taken({Case{}}, [&](const Case& c) {
      const Problem& p = c.problem;
      answers.large += p.seq_q > 512 && p.seq_k > 512;
      return p.seq_q == p.seq_k && takes(p.seq_q);
    });
    answers.lengths = found.value_or(attn_domain{}).seq_q;
    return answers;
  };
  const Answers any = ask([](int64_t n) { return n > 0; });
  EXPECT_EQ(any.lengths.least, 1);
  EXPECT_EQ(any.lengths.most, 0);
  EXPECT_LE(any.large, 2);
  const Answers multiple = ask([](int64_t n) { return n > 0 && n % 32 == 0; });
  EXPECT_EQ(multiple.lengths.multiple, 32);
  EXPECT_LE(multiple.large, 2);
  EXPECT_EQ(ask([](int64_t n) { return n > 0 && n <= 64; }).lengths.most, 64);
  // Limits above 512, and a rule that only the large ones break.
  EXPECT_EQ(ask([](int64_t n) { return n > 0 && n <= 2500; }).lengths.most, 2049);
  EXPECT_EQ(ask([](int64_t n) { return n > 0 && (n <= 512 || n % 64 == 0) && n < 4096; }).lengths.most, 3072);
}

// Takes the problems for which a condition holds, and declares nothing.
class PickyTarget : public FakeTarget {
 public:
  explicit PickyTarget(bool (*takes)(const attn_problem&)) : takes_(takes) {}
  PlanReply plan(const attn_problem& p, const attn_tensors& tensors, const attn_env& env) override {
    PlanReply reply = FakeTarget::plan(p, tensors, env);
    if (!takes_(p)) reply.status = ATTN_UNSUPPORTED, reply.reason = "not taken";
    return reply;
  }

 private:
  bool (*takes_)(const attn_problem&);
};

// Appends to caches in any format, and copies only pages of fp16.
class TwoOperationsTarget : public FakeTarget {
 public:
  TwoOperationsTarget() {
    take_features(ATTN_FEATURE_APPEND | ATTN_FEATURE_COPY_PAGES | ATTN_FEATURE_NO_FORWARD);
  }
  PlanReply plan(const attn_problem& p, const attn_tensors&, const attn_env&) override {
    PlanReply reply;
    (p.features & ATTN_FEATURE_APPEND ? appends : copies)++;
    if ((p.features & ATTN_FEATURE_COPY_PAGES) != 0 && p.dtype != ATTN_F16)
      reply.status = ATTN_UNSUPPORTED, reply.reason = "pages of fp16 alone";
    reply.plan.size = sizeof reply.plan;
    reply.plan.tile_q = reply.plan.tile_k = 16;
    reply.plan.num_splits = reply.plan.split_tiles = reply.plan.workspace_align = 1;
    return reply;
  }
  int appends = 0, copies = 0;
};

TEST(Limits, EveryOperationOfAKernelIsAsked) {
  TwoOperationsTarget target;
  Case c;
  c.problem.dtype = ATTN_BF16;
  EXPECT_EQ(Taker(target).refusal(c), "pages of fp16 alone");
  EXPECT_EQ(target.appends, 1);
  EXPECT_EQ(target.copies, 1);
  const Refused refused = ask_for_refusals(target);
  EXPECT_TRUE(std::ranges::any_of(refused.those, [](const Refusal* r) { return r->limit == Limit::kNoBf16; }))
      << in_words(refused);
}

// Scores of blocks and a compression, each at one size. They refuse every other scale and number of heads.
class OneSizeTarget : public FakeTarget {
 public:
  explicit OneSizeTarget(uint64_t operation) : operation_(operation) {
    take_features(operation | ATTN_FEATURE_NO_FORWARD);
  }
  PlanReply plan(const attn_problem& p, const attn_tensors&, const attn_env&) override {
    PlanReply reply;
    const auto refuse = [&](const char* why) { reply.status = ATTN_UNSUPPORTED, reply.reason = why; };
    if ((p.features & kOperations) != operation_) refuse("another operation");
    if (p.heads_q != 8) refuse("heads");
    if (operation_ == ATTN_FEATURE_NSA_SCORE && p.scale != 1 / std::sqrt(static_cast<float>(p.dim_qk)))
      refuse("scale");
    if (operation_ == ATTN_FEATURE_NSA_COMPRESS && p.seq_q != 16) refuse("rows");
    reply.plan.size = sizeof reply.plan;
    reply.plan.tile_q = reply.plan.tile_k = 16;
    reply.plan.num_splits = reply.plan.split_tiles = reply.plan.workspace_align = 1;
    return reply;
  }

 private:
  uint64_t operation_;
};

TEST(Limits, WhatAnOperationDrawsAnewStaysInTheDomain) {
  for (const uint64_t operation : {ATTN_FEATURE_NSA_SCORE, ATTN_FEATURE_NSA_COMPRESS}) {
    OneSizeTarget target(operation);
    attn_domain domain = {};
    domain.size = sizeof domain;
    domain.heads_q = {.count = 1, .list = {8}}, domain.usual_scale = 1;
    if (operation == ATTN_FEATURE_NSA_COMPRESS) domain.seq_q = {.count = 1, .list = {16}};
    target.terms = domain;
    GeneratorConfig config;
    config.domain = domain;
    const Taken taken = problems_taken(target, config, 200);
    EXPECT_EQ(taken.taken, taken.of) << (taken.reasons.empty() ? "" : taken.reasons.begin()->first);
  }
}

// A kernel with common limits: lengths in whole tiles, a template for each head dimension.
class LimitedTarget : public FakeTarget {
 public:
  PlanReply plan(const attn_problem& p, const attn_tensors& tensors, const attn_env& env) override {
    PlanReply reply = FakeTarget::plan(p, tensors, env);
    const auto refuse = [&](const char* why) { reply.status = ATTN_UNSUPPORTED, reply.reason = why; };
    if (p.dim_qk != 64 && p.dim_qk != 128) refuse("dim");
    if (p.dim_v != p.dim_qk) refuse("dim_v");
    if (p.seq_q != p.seq_k || p.seq_q % 64 != 0 || p.seq_q == 0) refuse("lengths");
    if (p.heads_q != p.heads_kv) refuse("grouped heads");
    if (p.batch == 0 || p.batch > 4) refuse("batch");
    if (p.bias_dtype != ATTN_NONE || p.has_mask || p.softcap != 0) refuse("features");
    if (!p.causal) refuse("not causal");
    if (tensors.lse.data != nullptr) refuse("an LSE");
    if (p.dtype != ATTN_F16) refuse("bf16");
    ++asked;
    return reply;
  }
  int asked = 0;
};

TEST(Limits, AreFoundAndPrintedAsADeclaration) {
  LimitedTarget target;
  const Refused refused = ask_for_refusals(target);
  EXPECT_LT(target.asked, 1500);
  const Declaration takes = declaration_of(refused);
  EXPECT_EQ(
      as_terms(takes),
      "batch>=1 batch<=4 seq>=1 seq%64 dim=64,128 equal_lengths equal_dims no_lse only_causal no_bf16 no_gqa "
      "no_bias no_mask no_softcap");
  EXPECT_EQ(
      as_python(takes),
      "attnfuzz.Domain(batch=range(1, 5), seq=attnfuzz.multiple(64, least=1), dim={64, 128}, "
      "equal_lengths=True, "
      "equal_dims=True, lse=False, causal=\"only\", dtypes=(\"f16\",), gqa=False, bias=False, mask=False, "
      "softcap=False)");
  EXPECT_EQ(as_c(takes),
            "static const attn_domain kTakes = {\n"
            "    .size = sizeof(attn_domain),\n"
            "    .dtypes = 1u << ATTN_F16,\n"
            "    .batch = {.least = 1, .most = 4},\n"
            "    .group = {.count = 1, .list = {1}},\n"
            "    .seq_q = {.least = 1, .multiple = 64},\n"
            "    .seq_k = {.least = 1, .multiple = 64},\n"
            "    .dim_qk = {.count = 2, .list = {64, 128}},\n"
            "    .dim_v = {.count = 2, .list = {64, 128}},\n"
            "    .equal_lengths = 1,\n"
            "    .equal_dims = 1,\n"
            "    .causal = 2,\n"
            "    .lse = 1,\n"
            "};\n");
  GeneratorConfig config;
  config.refused = refused;
  const Taken inside = problems_taken(target, config, 300);
  EXPECT_EQ(inside.taken, inside.of) << (inside.reasons.empty() ? "" : inside.reasons.begin()->first);
  config.refused = {};
  EXPECT_LT(problems_taken(target, config, 300).share(), 0.05);
}

TEST(Limits, OfAKernelOfOneHeadAreFound) {
  PickyTarget target([](const attn_problem& p) { return p.heads_q == 1; });
  EXPECT_EQ(as_terms(declaration_of(ask_for_refusals(target))), "heads_q=1 no_gqa");
}

TEST(Limits, OfABiasInAnotherFormatThanQAreFound) {
  PickyTarget target(
      [](const attn_problem& p) { return p.bias_dtype == ATTN_NONE || p.bias_dtype == p.dtype; });
  const Refused refused = ask_for_refusals(target);
  EXPECT_EQ(as_terms(declaration_of(refused)), "own_bias");
  EXPECT_EQ(as_python(declaration_of(refused)), "attnfuzz.Domain(bias=\"own\")");
  GeneratorConfig config;
  config.refused = refused;
  EXPECT_GE(problems_taken(target, config, 300).share(), 0.95);
  EXPECT_LT(problems_taken(target, GeneratorConfig{}, 300).share(), 0.85);
}

// The kernel takes any dim_v if the strides of rows are multiples of 16 bytes.
TEST(Limits, OfRowStridesAreNotTakenForLimitsOfDims) {
  class Vectors : public FakeTarget {
   public:
    PlanReply plan(const attn_problem& p, const attn_tensors& tensors, const attn_env& env) override {
      PlanReply reply = FakeTarget::plan(p, tensors, env);
      // The stride of a single row says nothing.
      const bool v = p.seq_k > 1 && tensors.v.stride[2] % 8 != 0,
                 o = p.seq_q > 1 && tensors.o.stride[2] % 8 != 0;
      if (v || o) reply.status = ATTN_UNSUPPORTED, reply.reason = "rows";
      return reply;
    }
  } target;
  GeneratorConfig config;
  config.refused = ask_for_refusals(target);
  EXPECT_FALSE(config.refused.sizes.has_value()) << in_words(config.refused);
  EXPECT_NE(in_words(config.refused).find("dense rows that are no multiple of 16 bytes (v o)"),
            std::string::npos)
      << in_words(config.refused);
  EXPECT_GE(problems_taken(target, config, 300).share(), 0.95);
  int odd = 0;
  for (uint64_t i = 0; i < 300; ++i) odd += draw(config, 1, i).problem.dim_v % 8 != 0;
  EXPECT_GT(odd, 90);
}

// A decode kernel takes seq_q == 1 with any number of keys. If both lengths are varied together, it takes
// only 1.
TEST(Limits, OfOneQueryLeaveTheKeysAlone) {
  PickyTarget target([](const attn_problem& p) { return p.seq_q == 1; });
  EXPECT_EQ(as_terms(declaration_of(ask_for_refusals(target))), "seq_q=1");
}

TEST(Domains, ThatLeaveNothingAreReported) {
  const auto of = [](auto&& set, uint64_t features = 0) {
    attn_domain d = {};
    d.size = sizeof d;
    set(d);
    return leaves_nothing(d, features).value_or("");
  };
  EXPECT_EQ(of([](attn_domain&) {}), "");
  EXPECT_EQ(of([](attn_domain& d) { d.dim_qk.most = 128, d.seq_q.multiple = 64, d.seq_k.least = 1; }), "");
  EXPECT_NE(of([](attn_domain& d) { d.batch.least = int64_t{1} << 40; }), "");
  EXPECT_NE(of([](attn_domain& d) { d.dim_qk.least = 300; }), "");
  EXPECT_EQ(of([](attn_domain& d) { d.dim_qk.least = 300; }, ATTN_FEATURE_WIDE), "");
  EXPECT_NE(of([](attn_domain& d) { d.dim_qk.least = 1025; }, ATTN_FEATURE_WIDE), "");
  EXPECT_NE(of([](attn_domain& d) { d.seq_q.count = 100; }), "");
  EXPECT_NE(of([](attn_domain& d) { d.dim_v.count = -5; }), "");
  EXPECT_NE(of([](attn_domain& d) { d.seq_k.least = -5, d.seq_k.most = -1; }), "");
  EXPECT_NE(of([](attn_domain& d) { d.seq_k.multiple = -3; }), "");
  EXPECT_EQ(of([](attn_domain& d) { d.layout = ATTN_LAYOUT_DENSE, d.align_bytes = 256; }), "");
  EXPECT_EQ(of([](attn_domain& d) { d.layout = 3; }), "a layout of 3, which must be 0 to 2 (attn_layout)");
  EXPECT_EQ(of([](attn_domain& d) { d.align_bytes = 24; }),
            "align_bytes of 24, which must be 0 or a power of two up to 256");
  EXPECT_NE(
      of([](attn_domain& d) { d.seq_k = {.least = 5, .most = 7, .multiple = 8, .count = 0, .list = {}}; }), "");
  EXPECT_NE(of([](attn_domain& d) {
              d.heads_q.count = d.group.count = 1;
              d.heads_q.list[0] = 3, d.group.list[0] = 2;
            }),
            "");
}

// Reads rows in vectors of 16 bytes. It refuses tensors with other layouts, and counts the refusals.
class LaidTarget : public FakeTarget {
 public:
  LaidTarget(bool declares, Flaw flaw) : FakeTarget(flaw), info_(FakeTarget::info()) {
    if (!declares) return;
    attn_domain& domain = info_.domain.emplace();
    domain.size = sizeof domain;
    domain.layout = ATTN_LAYOUT_INNER;
    domain.align_bytes = 16;
  }
  const KernelInfo& info() const override { return info_; }
  PlanReply plan(const attn_problem& p, const attn_tensors& tensors, const attn_env& env) override {
    PlanReply reply = FakeTarget::plan(p, tensors, env);
    const int64_t q[4] = {p.batch, p.heads_q, p.seq_q, p.dim_qk},
                  k[4] = {p.batch, p.heads_kv, p.seq_k, p.dim_qk},
                  v[4] = {p.batch, p.heads_kv, p.seq_k, p.dim_v}, o[4] = {p.batch, p.heads_q, p.seq_q, p.dim_v};
    for (const auto& [tensor, size] :
         {std::pair{&tensors.q, q}, {&tensors.k, k}, {&tensors.v, v}, {&tensors.o, o}}) {
      if (tensor->data == nullptr) continue;  // the operation has no such tensor
      bool odd = reinterpret_cast<uintptr_t>(tensor->data) % 16 != 0 || (size[3] > 1 && tensor->stride[3] != 1);
      for (int n = 0; n < 3; ++n) odd |= size[n] > 1 && tensor->stride[n] % 8 != 0;
      if (!odd || std::find(size, size + 4, 0) != size + 4) continue;
      reply.status = ATTN_UNSUPPORTED, reply.reason = "rows that are not aligned";
      ++outside;
      break;
    }
    return reply;
  }
  int outside = 0;

 private:
  KernelInfo info_;
};

TEST(Limits, OfLayoutsAreFound) {
  LaidTarget target(false, Flaw::kNone);
  const Declaration takes = declaration_of(ask_for_refusals(target));
  EXPECT_NE(as_terms(takes).find("layout=inner align_bytes=16"), std::string::npos) << as_terms(takes);
  EXPECT_NE(as_python(takes).find("layout=\"inner\", align_bytes=16)"), std::string::npos) << as_python(takes);
  EXPECT_NE(as_c(takes).find("    .layout = ATTN_LAYOUT_INNER,\n    .align_bytes = 16,\n};"), std::string::npos)
      << as_c(takes);
}

// Drawn cases, the variants of every relation and reduced cases have layouts that the kernel declares.
TEST(Check, LayoutsAreThoseThatTheKernelDeclares) {
  LaidTarget target(true, Flaw::kNone);
  CheckOptions options;
  options.cases = 150;
  options.seed = 3;
  for (const Property* property : properties()) {
    // `contract` also calls plan() with problems outside of the declaration.
    if (std::string_view(property->name) != "contract") options.properties.push_back(property);
  }
  options.refused = Refused{};
  Shared shared;
  const CheckResult result = run_shard(0, target, executor(), options, shared);
  EXPECT_TRUE(result.failures.empty());
  EXPECT_EQ(result.cases(), 150u);
  EXPECT_EQ(target.outside, 0);

  LaidTarget wrong(true, Flaw::kDropsLastKey);
  Case c;
  c.problem.seq_q = 5, c.problem.seq_k = 21, c.problem.dim_qk = c.problem.dim_v = 12;
  c.v.kind = FillKind::kGaussian;
  c.layout[static_cast<size_t>(TensorId::kV)] = {.order = {0, 2, 1}, .offset = 16, .row_gap = 28};
  fit(*wrong.info().domain, c);
  const Property& property = *find_property("reference");
  const Verdict verdict = judge(c, property, wrong, executor());
  ASSERT_EQ(verdict.outcome, Outcome::kFail) << verdict.message;
  const Reduction reduction = reduce_failure(c, verdict, property, wrong, executor(), {.seconds = 5});
  EXPECT_EQ(wrong.outside, 0);
  Case fitted = reduction.minimal;
  fit(*wrong.info().domain, fitted);
  EXPECT_EQ(fitted, reduction.minimal);
  EXPECT_LT(reduction.minimal.problem.seq_k, 21);
}

// 256 keys with 128 queries are refused for their number. That is no limit of diagonals.
TEST(Limits, OfLengthsAreNotTakenForLimitsOfDiagonals) {
  PickyTarget target([](const attn_problem& p) {
    return (p.seq_q == 128 || p.seq_q == 512) && (p.seq_k == 128 || p.seq_k == 512);
  });
  const std::string words = in_words(ask_for_refusals(target));
  EXPECT_EQ(words.find("diagonal"), words.npos) << words;
  EXPECT_NE(words.find("lengths other than 128, 512"), words.npos) << words;
}

TEST(Limits, AreNoLongerAskedForOnceAPlanFaults) {
  class Faulting : public FakeTarget {
   public:
    PlanReply plan(const attn_problem& p, const attn_tensors& tensors, const attn_env& env) override {
      PlanReply reply = FakeTarget::plan(p, tensors, env);
      if (p.seq_k > 200) reply.status = ATTN_FAULT, ++faults;
      return reply;
    }
    int faults = 0;
  };
  Faulting target;
  ask_for_refusals(target);
  EXPECT_LE(target.faults, 3);
}

}  // namespace
}  // namespace attnfuzz
