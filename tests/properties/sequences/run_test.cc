// Runs sessions on kernels in this process: a right kernel passes, and each flaw is found with its kind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "properties/sequences/draw/draw.h"
#include "properties/sequences/run/kernel_calls.h"
#include "properties/sequences/run/relations.h"
#include "reference/model/calibration.h"
#include "reference/numbers/formats.h"

namespace attnfuzz::sequences {
namespace {

using ::testing::HasSubstr;

enum class Flaw {
  kNone,
  kWritesBehindO,
  kWritesQ,
  kWritesOldMemory,        // writes to an array of an earlier call
  kFreesAPage,             // writes into a pool
  kKeepsTable,             // run() uses the block table that plan() got
  kTrustsWorkspace,        // adds the old content of the workspace
  kRoundsByPage,           // the last bit of the LSE depends on the number of the first page
  kRoundsByPageAndSaysSo,  // the same, and the plan declares that it is not deterministic
  kRefusesInPlan,
  kRefusesInRun,
  kDies,
};

// A forward pass over pages, in double.
class PagedTarget final : public Target {
 public:
  explicit PagedTarget(Flaw flaw) : flaw_(flaw) {
    info_.name = info_.exact_name = "paged";
    info_.features = ATTN_FEATURE_PAGED;
  }
  const KernelInfo& info() const override { return info_; }
  Arena& arena() override { return arena_; }

  PlanReply plan(const attn_problem& p, const attn_tensors& t, const attn_env&) override {
    PlanReply reply;
    if (flaw_ == Flaw::kRefusesInPlan) {
      reply.status = ATTN_UNSUPPORTED;
      reply.reason = "not today";
      return reply;
    }
    attn_plan& plan = reply.plan;
    plan.size = sizeof plan;
    plan.accumulator = ATTN_ACC_FFMA;
    std::strcpy(plan.path, "host");
    plan.tile_q = plan.tile_k = plan.num_splits = 1;
    plan.split_tiles = std::max<int64_t>(p.seq_k, 1);
    plan.rescales = p.seq_k;
    plan.exp_class = ATTN_EXP_EXPF, plan.log_class = ATTN_LOG_LOGF, plan.rcp_class = ATTN_RCP_EXACT;
    plan.scale_mode = ATTN_SCALE_SEPARATE;
    plan.p_format = plan.partial_format = ATTN_FORMAT_F32;
    plan.isolates_masked_nan = 1;
    plan.deterministic = flaw_ != Flaw::kRoundsByPageAndSaysSo;
    plan.workspace_bytes = 64, plan.workspace_align = 64;
    table_.assign(static_cast<const int64_t*>(t.block_table.data),
                  static_cast<const int64_t*>(t.block_table.data) + p.batch * t.block_table.stride[0]);
    return reply;
  }

  RunReply run(Stage, const attn_problem& p, const attn_tensors& t, const attn_plan&, const attn_env&, int) override {
    RunReply reply;
    if (flaw_ == Flaw::kRefusesInRun) {
      reply.status = ATTN_UNSUPPORTED;
      reply.fault = Fault{ATTN_REPORT_LAUNCH, {}, {}, "not now", "", 0};
    }
    if (flaw_ == Flaw::kDies) reply.crash = "SIGSEGV";
    if (reply.crash || reply.fault) return reply;
    for (int64_t b = 0; b < p.batch; ++b) {
      for (int64_t h = 0; h < p.heads_q; ++h) {
        for (int64_t i = 0; i < p.seq_q; ++i) row(p, t, b, h, i);
      }
    }
    auto* const o = static_cast<std::byte*>(t.o.data);
    if (flaw_ == Flaw::kWritesBehindO) o[p.batch * t.o.stride[0] * 2] ^= std::byte{1};
    if (flaw_ == Flaw::kWritesQ) *static_cast<uint16_t*>(t.q.data) ^= 1;
    if (flaw_ == Flaw::kWritesOldMemory && old_ != nullptr && old_ < o) *old_ ^= std::byte{1};
    old_ = o;
    if (flaw_ == Flaw::kFreesAPage) *static_cast<uint16_t*>(t.k.data) ^= 1;
    return reply;
  }
  std::optional<attn_partials> partials(const attn_problem&, const attn_plan&, std::string*) override { return {}; }

 private:
  static double at(int32_t dtype, const attn_tensor& t, int64_t offset) { return decode(dtype, t.data, offset); }

  void row(const attn_problem& p, const attn_tensors& t, int64_t b, int64_t h, int64_t i) const {
    const int64_t keys = t.key_lengths[b], seen = std::clamp<int64_t>(keys - p.seq_q + i + 1, 0, keys);
    const int64_t g = h / (p.heads_q / p.heads_kv);
    const int64_t* const given = static_cast<const int64_t*>(t.block_table.data) + b * t.block_table.stride[0];
    const auto page = [&](int64_t n) {
      const auto of_plan = static_cast<size_t>(b * t.block_table.stride[0] + n);
      if (flaw_ != Flaw::kKeepsTable || of_plan >= table_.size()) return given[n];
      return std::clamp<int64_t>(table_[of_plan], 0, p.pages - 1);  // so that this process does not crash
    };
    const auto place = [&](const attn_tensor& of, int64_t j) {
      return page(j / p.page_size) * of.stride[0] + g * of.stride[1] + j % p.page_size * of.stride[2];
    };
    std::vector<double> score(static_cast<size_t>(seen)), o(static_cast<size_t>(p.dim_v));
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t j = 0; j < seen; ++j) {
      double& s = score[static_cast<size_t>(j)];
      for (int64_t d = 0; d < p.dim_qk; ++d)
        s += at(p.dtype, t.q, b * t.q.stride[0] + h * t.q.stride[1] + i * t.q.stride[2] + d) *
             at(p.dtype, t.k, place(t.k, j) + d);
      s *= static_cast<double>(p.scale);
      largest = std::max(largest, s);
    }
    for (int64_t j = 0; j < seen; ++j) {
      const double weight = std::exp(score[static_cast<size_t>(j)] - largest);
      sum += weight;
      for (int64_t d = 0; d < p.dim_v; ++d) o[static_cast<size_t>(d)] += weight * at(p.dtype, t.v, place(t.v, j) + d);
    }
    uint16_t* const to = static_cast<uint16_t*>(t.o.data) + b * t.o.stride[0] + h * t.o.stride[1] + i * t.o.stride[2];
    uint32_t found = 0;
    std::memcpy(&found, t.workspace, 4);
    const bool by_page = flaw_ == Flaw::kRoundsByPage || flaw_ == Flaw::kRoundsByPageAndSaysSo;
    for (int64_t d = 0; d < p.dim_v; ++d)
      to[d] = encode16(p.dtype, seen == 0 ? 0 : static_cast<float>(o[static_cast<size_t>(d)] / sum));
    double lse = seen == 0 ? -std::numeric_limits<double>::infinity() : largest + std::log(sum);
    if (flaw_ == Flaw::kTrustsWorkspace && found != 0) lse += 1;
    float rounded = static_cast<float>(lse);
    if (by_page && seen > 0 && page(0) % 2 == 1) rounded = std::nextafter(rounded, 1e9f);
    static_cast<float*>(t.lse.data)[b * t.lse.stride[0] + h * t.lse.stride[1] + i] = rounded;
  }

  const Flaw flaw_;
  KernelInfo info_;
  Arena arena_;
  std::vector<int64_t> table_;  // the block table that plan() got
  std::byte* old_ = nullptr;    // O of the call before
};

// The results of the sessions of some seeds: the first failure, and all counts.
struct Sum {
  SessionResult failed;
  uint64_t calls = 0, bounded = 0;
  std::map<std::string, uint64_t> left_out;
};

Sum run(Flaw flaw, uint64_t sessions = 40) {
  PagedTarget target(flaw);
  const std::vector<SessionTarget> all = {{&target, executor()}};
  const SessionTargets targets(all);
  Sum sum;
  for (uint64_t seed = 0; seed < sessions && sum.failed.verdict.outcome != Outcome::kFail; ++seed) {
    SessionResult result = check_session(draw_session(seed, common_features(targets)), targets);
    sum.calls += result.calls;
    sum.bounded += result.bounded;
    for (const auto& [why, n] : result.left_out) sum.left_out[why] += n;
    if (result.verdict.outcome == Outcome::kFail) sum.failed = std::move(result);
  }
  return sum;
}

TEST(RunSession, passes_a_right_kernel) {
  const Sum sum = run(Flaw::kNone);
  EXPECT_EQ(sum.failed.verdict.message, "");
  EXPECT_GT(sum.calls, 100u);
  EXPECT_EQ(sum.bounded, 0u);
  EXPECT_GT(sum.left_out.at("append: no kernel given has it on pages"), 0u);
}

TEST(RunSession, finds_each_flaw) {
  const struct {
    Flaw flaw;
    Kind kind;
    const char* words;
  } kFlaws[] = {
      {Flaw::kWritesBehindO, Kind::kRedzone, "memory behind o was written"},
      {Flaw::kWritesQ, Kind::kRedzone, "q was written, which is only read"},
      {Flaw::kWritesOldMemory, Kind::kRedzone, "memory before o was written"},
      {Flaw::kFreesAPage, Kind::kWrong, "K of page 0, slot 0, head 0"},
      {Flaw::kTrustsWorkspace, Kind::kWrong, "lse"},
      {Flaw::kRoundsByPage, Kind::kRelation, "has other bits"},
      {Flaw::kDies, Kind::kCrash, "SIGSEGV"},
  };
  for (const auto& [flaw, kind, words] : kFlaws) {
    const Sum sum = run(flaw);
    EXPECT_EQ(sum.failed.verdict.kind, kind) << words;
    EXPECT_THAT(sum.failed.verdict.message, HasSubstr(words));
  }
  // An old table may lead to NaN, to other keys or to pages that do not exist.
  EXPECT_EQ(run(Flaw::kKeepsTable, 200).failed.call, "forward");
}

TEST(RunSession, does_not_compare_bits_that_no_plan_promises) {
  const Sum sum = run(Flaw::kRoundsByPageAndSaysSo);
  EXPECT_EQ(sum.failed.verdict.message, "");
  EXPECT_GT(sum.bounded, 0u);
}

TEST(RunSession, counts_what_a_kernel_refuses) {
  const Sum plan = run(Flaw::kRefusesInPlan), late = run(Flaw::kRefusesInRun);
  for (const Sum* sum : {&plan, &late}) {
    EXPECT_EQ(sum->failed.verdict.message, "");
    EXPECT_EQ(sum->calls, 0u);
  }
  EXPECT_GT(plan.left_out.at("forward: paged refuses it: not today"), 0u);
  EXPECT_GT(late.left_out.at("forward: paged refuses it in run(): refused: not now"), 0u);
}

}  // namespace
}  // namespace attnfuzz::sequences
