// Tests what a batch takes and lays out: the same tensors as LaidOut, by the batch's kernels on the CPU
// executor.
#include <gtest/gtest.h>

#include <sstream>

#include "fuzz/batch/batch_judge.h"
#include "fuzz/batch/device/device.h"
#include "fuzz/batch/device/kernels.h"
#include "fuzz/batch/device/laid_pages.h"
#include "fuzz/batch/prepare.h"
#include "properties/case/places/geometry.h"
#include "properties/case/words.h"
#include "properties/draw/generator.h"
#include "properties/draw/long_rows.h"
#include "properties/memory/layout.h"
#include "properties/operations/operation.h"
#include "tests/fuzz/batch/cases.h"
#include "tests/fuzz/batch/fake_batch_target.h"
#include "tests/fuzz/batch/oracle_target.h"
#include "tests/fuzz/batch/same_as_alone.h"
#include "tests/properties/support/random_case.h"

namespace attnfuzz {
namespace {

// The case with a remap like those of the relations.
Case rearranged(Case c, uint64_t n) {
  const Problem& p = c.problem;
  switch (n % 5) {
    case 0:
      c.remap.batch = Axis{.multiply = -1, .add = p.batch - 1, .modulus = p.batch};
      break;
    case 1:
      c.remap.key = Axis{.multiply = -1, .add = 7, .modulus = Axis::kKeyLength};
      break;
    case 2:
      c.remap.head_q.add = 1;
      c.remap.head_kv.repeat = 2;
      c.remap.seq_k = p.seq_k + 3;
      break;
    case 3:
      c.k = Fill{.kind = FillKind::kSmallInt, .seed = n};
      c.remap.k_shift = Fill{.kind = FillKind::kSmallInt, .seed = n + 1};
      break;
    default:
      c.v = Fill{.kind = FillKind::kSmallInt, .seed = n};
      c.remap.v_added = Fill{.kind = FillKind::kSmallInt, .seed = n + 1};
  }
  return c;
}

// Cases with every kind of bias in every format, and with every pattern.
std::vector<Case> biased() {
  std::vector<Case> cases;
  uint64_t seed = 5;
  for (const int32_t dtype : {ATTN_F16, ATTN_BF16, ATTN_F32}) {
    for (int kind = 0; kind < std::max(kBiasKinds, kPatternKinds); ++kind) {
      Case c;
      Problem& p = c.problem;
      p.batch = 2;
      p.heads_q = 3;
      p.seq_q = 11;
      p.seq_k = 13;
      const Pattern pattern = {static_cast<PatternKind>(kind % kPatternKinds), 3, ++seed};
      p.bias = Bias{.dtype = dtype,
                    .kind = static_cast<BiasKind>(kind % kBiasKinds),
                    .finite = pattern,
                    .broadcast = {.batch = kind % 2 == 0, .head = kind % 3 == 0, .query = kind % 4 == 0},
                    .seed = ++seed};
      p.mask = Mask{.visible = pattern, .broadcast = {.batch = kind % 3 == 0}};
      p.key_lengths = std::vector<int64_t>{-4, 9};
      c.nan_beyond_lengths = kind % 2 == 1;
      cases.push_back(c);
    }
  }
  return cases;
}

// Cases with every kind of fill in all formats: scaled up, scaled down and unscaled.
std::vector<Case> filled() {
  std::vector<Case> cases;
  for (int kind = 0; kind < kFillKinds; ++kind) {
    for (const int32_t dtype : {ATTN_F16, ATTN_BF16, ATTN_F32}) {
      Case c;
      c.problem.dtype = dtype;
      c.problem.batch = c.problem.heads_q = 2;
      c.problem.seq_q = c.problem.seq_k = 19;
      c.problem.dim_qk = c.problem.dim_v = 17;
      int exponent = -12;
      for (Fill* fill : {&c.q, &c.k, &c.v})
        *fill = {.kind = static_cast<FillKind>(kind),
                 .exponent = exponent += 6,
                 .seed = 77u + static_cast<uint64_t>(kind)};
      cases.push_back(c);
    }
  }
  return cases;
}

// Cases of every feature, layout, remap, fill and operation.
std::vector<Case> cases_to_lay_out() {
  std::vector<Case> cases = cases_for_it(120, 1000);
  for (uint64_t n = 0; n < 30; ++n) cases.push_back(rearranged(cases[n], n));
  for (const Case& c : biased()) cases.push_back(c);
  for (Case& c : laid_oddly(cases, 80)) cases.push_back(std::move(c));
  for (size_t n = 0; n < 90; n += 3) {
    Case c = cases[n];
    c.problem.dtype = ATTN_F32;
    std::string why;
    if (!illegal(c) && batch::prepare(c, ATTN_CPU, &why)) cases.push_back(c);
  }
  for (const Case& c : filled()) cases.push_back(c);
  const std::vector<Case> others = cases_with(OracleTarget::kBatched, 12, 400);
  cases.insert(cases.end(), others.begin(), others.end());
  for (size_t n = 0; n < others.size(); ++n) {
    Case c = n % 2 == 0 ? rearranged(others[n], n) : laid_oddly(others[n], n);
    std::string why;
    if (c.problem.latent && c.remap.v_added) continue;
    if (!illegal(c) && batch::prepare(c, ATTN_CPU, &why)) cases.push_back(std::move(c));
  }
  for (const Case& c : merges(60, 300)) cases.push_back(c);
  for (const Case& c : merges(20, 300)) {
    Case other = c;
    other.remap.batch = Axis{.multiply = -1, .add = c.problem.batch - 1, .modulus = c.problem.batch};
    other.remap.query.add = 1;
    std::string why;
    if (!illegal(other) && batch::prepare(other, ATTN_CPU, &why)) cases.push_back(other);
  }
  return cases;
}

// A pool of 90 pages whose K and V lie in turn: K is a tensor of 90 blocks, more than two pages of memory
// apart.
Case with_pages_in_turn() {
  Case c;
  Problem& p = c.problem;
  p.batch = 3, p.heads_q = p.heads_kv = 2, p.seq_q = 1, p.seq_k = 480, p.dim_qk = p.dim_v = 64;
  p.key_lengths = {480, 470, 465};
  p.features |= ATTN_FEATURE_PAGED;
  p.paging = Paging{.size = 16, .spare = 3};
  for (const TensorId t : {TensorId::kK, TensorId::kV})
    c.layout[static_cast<size_t>(t)].spread = 8 * 2 * 16 * 64;
  tidy(c);
  return c;
}

TEST(BatchJudge, LaysOutWhatLaidOutDoes) {
  Arena arena;
  std::vector<Case> cases = cases_to_lay_out();
  cases.push_back(with_pages_in_turn());
  int spread = 0, backwards = 0, apart = 0, once = 0;
  for (const Case& c : cases) {
    std::string why;
    const auto call = batch::prepare(c, ATTN_CPU, &why);
    ASSERT_TRUE(call) << why;
    std::vector<std::byte> slot(call->bytes + 4096);
    PlainEnds ends;
    batch::Work work = {};
    batch::Counts counts;
    work.call = &*call;
    for (int t = 0; t <= batch::kTensors; ++t) {
      work.base[t] = slot.data() + (-reinterpret_cast<uintptr_t>(slot.data()) & 4095);
      const bool at_end = call->at_page_end >> t & 1;
      if (call->spread >> t & 1) {
        ASSERT_FALSE(ends.reach(std::vector<PlainEnds::Far>{{t, 0, PlainEnds::kFarBytes}}));
        const uint64_t end = address_of(call->tensor[t], call->tensor[t].end);
        work.base[t] = ends.far(t) + (at_end ? PlainEnds::kFarBytes - end : 0);
        ++spread;
      } else if (at_end) {
        ends.room(t, call->tensor[t].end);
        work.base[t] = ends.end(t) - call->tensor[t].end;
      }
    }
    work.counts = &counts;
    std::optional<batch::LaidPages> pages;
    if (call->paged != 0)
      pages.emplace(*call), work.table = pages->table.data(), work.held = pages->held.data();
    // The oracle's inputs are laid out with the tensors.
    const Problem& p = c.problem;
    cuda::RowsInput& in = work.input;
    in.rows = static_cast<int32_t>(p.batch * p.heads_q * p.seq_q);
    in.groups = static_cast<int32_t>(p.batch * p.heads_kv);
    in.keys = static_cast<int32_t>(p.seq_k);
    in.stride_qk = in.stride_v = static_cast<int32_t>((std::max(p.dim_qk, p.dim_v) + 15) / 16 * 16);
    in.slopes = p.slopes.has_value();
    const auto slots = static_cast<size_t>(in.groups) * static_cast<size_t>(in.keys),
               stride = static_cast<size_t>(in.stride_qk);
    std::vector<uint32_t> q(static_cast<size_t>(in.rows) * stride), k(slots * stride), v(slots * stride);
    std::vector<cuda::RowTask> tasks(static_cast<size_t>(in.rows));
    std::vector<cuda::GroupFacts> facts(static_cast<size_t>(in.groups));
    std::vector<int32_t> lengths(static_cast<size_t>(in.groups));
    in.q = q.data(), in.k = k.data(), in.v = v.data();
    in.tasks = tasks.data(), in.facts = facts.data(), in.lengths = lengths.data();
    std::vector<float> sides[2], lse_of_sides[2];
    for (int side = 0; side < 2; ++side) {
      sides[side].resize(static_cast<size_t>(in.rows) * stride);
      lse_of_sides[side].resize(static_cast<size_t>(in.rows));
      work.merge.o[side] = sides[side].data(), work.merge.lse[side] = lse_of_sides[side].data();
    }
    work.merge.dtype = p.dtype;
    work.merge.rows = in.rows, work.merge.columns = static_cast<int32_t>(p.dim_v);
    attn_env env = {};
    env.size = sizeof env;
    env.shared_memory_limit = 48 * 1024;
    attn_status status = ATTN_FAULT;
    ExecutorThread::run([&] { status = lay_out(*call, work, &env); });
    ASSERT_EQ(status, ATTN_OK);
    const LaidOut laid(c, arena);
    expect_laid(*call, c, laid, arena, work.base);
    if (HasFatalFailure()) return;
    for (int t = 0; t < batch::kTensors; ++t) {
      backwards += call->tensor[t].backwards != 0;
      apart += call->tensor[t].order[3] != 3 || call->tensor[t].stride[3] > 1;
    }
    once += !(c.once == StoredOnce{});
  }
  EXPECT_GT(spread, 10);
  EXPECT_GT(backwards, 10);
  EXPECT_GT(apart, 10);
  EXPECT_GT(once, 3);
}

TEST(BatchJudge, TakesManyBlocksThatLieTogether) {
  const Case c = with_pages_in_turn();
  std::string why;
  ASSERT_FALSE(illegal(c));
  const auto call = batch::prepare(c, ATTN_CPU, &why);
  ASSERT_TRUE(call) << why;
  EXPECT_GT(call->tensor[batch::kKey].blocks, 64u);
  Case far = c;
  far.layout[static_cast<size_t>(TensorId::kK)].spread = int64_t{1} << 24;
  ASSERT_FALSE(illegal(far));
  EXPECT_FALSE(batch::prepare(far, ATTN_CPU, &why));
  EXPECT_NE(why.find("spread widely"), std::string::npos) << "each block would need memory of its own; " << why;
}

TEST(BatchJudge, LeavesFewDrawnCasesToTheOrdinaryWay) {
  GeneratorConfig config;
  config.features = OracleTarget::kBatched;
  config.device_work = kDeviceWork, config.in_batches = true;
  int left = 0, of = 0;
  for (uint64_t n = 0; n < 3000; ++n) {
    const Case c = draw(config, 7, n);
    if (illegal(c)) continue;
    std::string why;
    ++of;
    if (batch::prepare(c, ATTN_CUDA, &why)) continue;
    ++left;
    std::printf("  left, %s: %s\n", why.c_str(), describe(c).c_str());
  }
  EXPECT_LT(left, of / 700);
}

// Regression: a campaign drew a tensor of 37 GB, which has no geometry, and the batch used the geometry of the
// tensor before it.
TEST(BatchJudge, RefusesATensorThatFitsNoMemory) {
  Case c;
  c.problem.batch = 3, c.problem.seq_k = 1480, c.problem.dim_qk = c.problem.dim_v = 256;
  c.layout[static_cast<size_t>(TensorId::kK)] = {.order = {2, 0, 1}, .spread = 12'632'264};
  ASSERT_TRUE(illegal(c));
  std::string why;
  EXPECT_FALSE(batch::prepare(c, ATTN_CUDA, &why));
  EXPECT_EQ(why, "a case that cannot be run");
}

TEST(BatchJudge, RefusesAKindOfProblemThatItDoesNotKnow) {
  Case c;
  c.problem.features = uint64_t{1} << 62;
  std::string why;
  EXPECT_FALSE(batch::prepare(c, ATTN_CPU, &why));
  EXPECT_NE(why.find("attn_problem.features has the bits 0x4000000000000000"), std::string::npos) << why;
}

TEST(BatchJudge, KnowsOrRefusesEachBitAndOperation) {
  constexpr uint64_t kKnown = OracleTarget::kBatched | ATTN_FEATURE_MERGE | ATTN_FEATURE_BACKWARD |
                              ATTN_FEATURE_SELECTED | ATTN_FEATURE_SELECTED_BACKWARD;
  const auto refusal = [](const Case& c) {
    std::string why;
    EXPECT_FALSE(batch::prepare(c, ATTN_CPU, &why)) << features_of(c);
    return why;
  };
  for (int n = 0; n < 64; ++n) {
    Case c;
    c.problem.features = uint64_t{1} << n;
    if ((c.problem.features & kKnown) != 0) continue;
    std::ostringstream bits;
    bits << "a batch on a GPU does not know this kind of problem: attn_problem.features has the bits 0x"
         << std::hex << c.problem.features;
    EXPECT_EQ(refusal(c), bits.str());
  }
  for (const Operation* operation : all_operations()) {
    Case c = draw({}, 1, 2);
    make_call(*operation, c, operation->feature);
    if ((operation->feature & ~kKnown) == 0) continue;
    EXPECT_NE(refusal(c).find("does not know this kind of problem"), std::string::npos) << operation->name;
  }
  Case narrow;
  narrow.problem.kv8.emplace();
  EXPECT_NE(refusal(narrow).find("has the bits 0x10000"), std::string::npos) << "K and V of 8 bits";
}

}  // namespace
}  // namespace attnfuzz
