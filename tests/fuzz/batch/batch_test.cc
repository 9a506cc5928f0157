// Tests the batch's kernels on the CPU executor, with fake kernels whose flaws are known. The batch must lay
// out the same tensors as LaidOut, and must judge a run as a trial does. (On a GPU: attnfuzz bench --batch.)
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <cstring>
#include <map>
#include <sstream>

#include "fuzz/batch/batch_judge.h"
#include "fuzz/batch/device.h"
#include "fuzz/batch/kernels.h"
#include "fuzz/batch/laid_pages.h"
#include "fuzz/batch/prepare.h"
#include "properties/case/codec/as_contract.h"
#include "properties/case/places/geometry.h"
#include "properties/case/words.h"
#include "properties/draw/generator.h"
#include "properties/draw/long_rows.h"
#include "properties/judge/property.h"
#include "properties/judge/trial.h"
#include "properties/memory/layout.h"
#include "properties/operations/operation.h"
#include "tests/fuzz/batch/fake_batch_target.h"
#include "tests/fuzz/batch/oracle_target.h"
#include "tests/fuzz/batch/same_as_alone.h"
#include "tests/properties/support/fake_target.h"
#include "tests/properties/support/random_case.h"

namespace attnfuzz {
namespace {

// Drawn cases that a batch takes, with few rows, because a row takes the executor some milliseconds.
std::vector<Case> cases_for_it(size_t count, int64_t most_rows) {
  std::vector<Case> cases;
  for (uint64_t seed = 1; cases.size() < count; ++seed) {
    Case c = random_case(seed);
    std::string why;
    const Problem& p = c.problem;
    if (p.batch * p.heads_q * p.seq_q > most_rows || illegal(c)) continue;
    if (batch::prepare(c, ATTN_CPU, &why)) cases.push_back(c);
  }
  return cases;
}

std::vector<Case> laid_oddly(const std::vector<Case>& cases, size_t count) {
  std::vector<Case> odd;
  for (size_t n = 0; n < count; ++n) {
    std::string why;
    Case c = laid_oddly(cases[n % cases.size()], n);
    if (!illegal(c) && batch::prepare(c, ATTN_CPU, &why)) odd.push_back(std::move(c));
  }
  EXPECT_GT(odd.size(), count / 2);
  return odd;
}

// Returns attn_problem.features: what a case has beyond a dense 16-bit call with heads of up to 256 columns.
uint64_t features_of(const Case& c) { return problem_of(c.problem).features; }

// Drawn cases with each of these features, alone and together, `each` times or more.
std::vector<Case> cases_with(uint64_t features, int each, int64_t most_rows) {
  GeneratorConfig config;
  config.work = 60'000;
  config.features = features;
  std::vector<Case> cases;
  std::map<uint64_t, int> seen;
  const auto lacking = [&] {
    for (uint64_t bit = 1; bit <= features; bit <<= 1)
      if ((features & bit) != 0 && seen[bit] < each) return true;
    return false;
  };
  for (uint64_t n = 0; n < 20'000 && lacking(); ++n) {
    Case c = draw(config, 11, n);
    const Problem& p = c.problem;
    std::string why;
    if ((features & ATTN_FEATURE_F32) != 0 && n % 3 == 0) c.problem.dtype = ATTN_F32, c.planted.clear();
    const uint64_t has = features_of(c);
    if (has == 0 || p.batch * p.heads_q * p.seq_q > most_rows || p.seq_k > 400 || illegal(c)) continue;
    bool wanted = false;
    for (uint64_t bit = 1; bit <= has; bit <<= 1) wanted |= (has & bit) != 0 && seen[bit] < each;
    if (!wanted || !batch::prepare(c, ATTN_CPU, &why)) continue;
    for (uint64_t bit = 1; bit <= has; bit <<= 1) seen[bit] += (has & bit) != 0;
    cases.push_back(std::move(c));
  }
  EXPECT_FALSE(lacking());
  return cases;
}

// Drawn merges that a batch takes.
std::vector<Case> merges(size_t count, int64_t most_rows) {
  GeneratorConfig config;
  config.work = 60'000;
  config.features = OracleTarget::kMerge;
  std::vector<Case> cases;
  for (uint64_t n = 0; cases.size() < count; ++n) {
    Case c = draw(config, 12, n);
    operation_of(ATTN_FEATURE_MERGE).shape(c, 0);
    const Problem& p = c.problem;
    std::string why;
    if (n % 3 == 0) c.problem.dtype = ATTN_F32, c.problem.features |= ATTN_FEATURE_F32, c.planted.clear();
    if (p.batch * p.heads_q * p.seq_q > most_rows || illegal(c) || !batch::prepare(c, ATTN_CPU, &why)) continue;
    cases.push_back(std::move(c));
  }
  return cases;
}

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

// A pool of 90 pages whose K and V lie in turn: K is a tensor of 90 blocks, more than two pages of memory apart.
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

TEST(BatchUse, SaysWhatTheOrdinaryWayTook) {
  BatchUse use;
  use.cleared = 100, use.run_s = 4, use.wait_s = 2, use.own_wait_s = 1, use.again_s = 3;
  use.map_s = 0.5, use.send_s = 0.2, use.launch_s = 0.1, use.flight_s = 3;
  use.again_by = {{BatchUse::kTwice, 2}, {"large", 0.95}, {"rare", 0.05}};
  const std::string text = words(use);
  EXPECT_NE(text.find("on the device 40 % (mapping memory 5 %, copying calls 2 %, launching 1 %, waiting for "
                      "the batch to end 30 %)"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("waiting for the shared worker 20 % and for a worker of one's own 10 %"), std::string::npos) << text;
  EXPECT_NE(text.find("the ordinary way 30 % (judged twice 20 %, large 10 %)"), std::string::npos) << text;
}

TEST(BatchUse, TakesAwayWhatWasMerged) {
  BatchUse before;
  before.cleared = 7, before.left["large"] = 2, before.wait_s = 1.5, before.again_by["large"] = 0.25;
  before.map_s = 1, before.own_wait_s = 0.5;
  BatchUse use = before, more;
  more.cleared = 3, more.both = 1, more.left["large"] = 1, more.run_s = 4, more.again_by["large"] = 0.5;
  more.map_s = 2;
  use.merge(more);
  EXPECT_EQ(use.cleared, 10u);
  EXPECT_EQ(use.left.at("large"), 3u);
  EXPECT_EQ(use.again_by.at("large"), 0.75);
  use.take(before);
  EXPECT_EQ(use.cleared, 3u);
  EXPECT_EQ(use.both, 1u);
  EXPECT_EQ(use.left.at("large"), 1u);
  EXPECT_EQ(use.run_s, 4);
  EXPECT_EQ(use.wait_s, 0);
  EXPECT_EQ(use.map_s, 2);
  EXPECT_EQ(use.own_wait_s, 0);
  EXPECT_EQ(use.again_by.at("large"), 0.5);
}

TEST(BatchJudge, JudgesFewerLargeCasesTwice) {
  Problem p;
  p.batch = p.heads_q = p.heads_kv = 1, p.seq_q = p.seq_k = 1024, p.dim_qk = p.dim_v = 16;
  EXPECT_EQ(one_judged_twice_of(p), 100u) << "2^25 multiply-adds";
  p.seq_k = 1025;
  EXPECT_EQ(one_judged_twice_of(p), 1000u);
}

TEST(BatchJudge, SaysOfARightKernelWhatATrialDoes) {
  FakeTarget fake;
  FakeBatchTarget device(fake);
  const Calibration calibration = documented();
  BatchJudge batch_judge(device, fake, calibration);
  fake.take_fp32();
  std::vector<Case> some = cases_for_it(30, 40);
  for (size_t n = 0; n < 30; n += 3) some[n].problem.dtype = ATTN_F32, some[n].planted.clear();
  for (Case& c : laid_oddly(some, 20)) some.push_back(std::move(c));
  // There may be no query, or no batch entry.
  Case& none = some.emplace_back();
  none.problem.seq_q = 0;
  none.problem.seq_k = 17;
  some.push_back(none);
  some.back().problem.batch = 0;
  const std::vector<BatchCase> cases = by_reference(some);
  const std::vector<Verdict> verdicts = batch_judge.judge(cases);
  ASSERT_EQ(verdicts.size(), cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    const Verdict v = ordinary(cases[i], fake);
    EXPECT_EQ(verdicts[i].outcome, v.outcome) << verdicts[i].message;
    EXPECT_NEAR(verdicts[i].worst, v.worst, 1e-5);
    EXPECT_EQ(verdicts[i].rows, v.rows);
    EXPECT_EQ(verdicts[i].sampled, v.sampled);
    EXPECT_EQ(verdicts[i].dead_rows, v.dead_rows);
    EXPECT_EQ(verdicts[i].uninformative_rows, v.uninformative_rows);
    EXPECT_EQ(verdicts[i].unconstrained_rows, v.unconstrained_rows);
    EXPECT_EQ(verdicts[i].assumptions, v.assumptions);
    EXPECT_STREQ(verdicts[i].plan.path, v.plan.path);
  }
  EXPECT_GT(batch_judge.use().cleared, cases.size() / 2);
  EXPECT_GE(batch_judge.use().both, 1u);
  EXPECT_EQ(batch_judge.use().doubted, 0u);
  EXPECT_EQ(batch_judge.use().left.count("no head"), 0u);
}

// Nearly all packed and paged cases are laid out on the device, as they are drawn for batches.
TEST(BatchJudge, TakesPackedEntriesAndPages) {
  GeneratorConfig config;
  config.features = OracleTarget::kBatched;
  config.device_work = kDeviceWork, config.in_batches = true;
  std::map<std::string, int> left;
  int packed = 0, paged = 0;
  for (uint64_t n = 0; n < 3000; ++n) {
    const Case c = draw(config, 13, n);
    const Problem& p = c.problem;
    if (illegal(c) || (!p.packed_q && !p.packed_k && !p.paging)) continue;
    ++(p.paging ? paged : packed);
    std::string why;
    if (!batch::prepare(c, ATTN_CUDA, &why)) ++left[(p.paging ? "paged: " : "packed: ") + why];
  }
  int of_packed = 0, of_paged = 0;
  for (const auto& [why, count] : left) {
    (why.starts_with("paged") ? of_paged : of_packed) += count;
    std::printf("  left, %s: %d\n", why.c_str(), count);
  }
  std::printf("  left of %d packed and %d paged cases: %d and %d\n", packed, paged, of_packed, of_paged);
  EXPECT_LT(of_packed, packed / 150);
  EXPECT_LT(of_paged, paged / 50);
}

TEST(BatchJudge, SaysOfEveryKindOfForwardProblemWhatATrialDoes) {
  OracleTarget right(nullptr, OracleTarget::kBatched);
  EXPECT_EQ(expect_equal_verdicts(cases_with(OracleTarget::kBatched, 8, 48), right), 0);
}

TEST(BatchJudge, SaysOfMergesWhatATrialDoes) {
  const std::vector<Case> cases = merges(60, 60);
  OracleTarget right(nullptr, OracleTarget::kMerge);
  EXPECT_EQ(expect_equal_verdicts(cases, right), 0);
  const auto swapped = [](attn_problem&, attn_tensors& t) { std::swap(t.lse1, t.lse2); };
  OracleTarget wrong(swapped, OracleTarget::kMerge);
  EXPECT_GT(expect_equal_verdicts(cases, wrong), 20);
}

// Each kernel misreads one feature. The batch must find it in the same cases as a trial.
TEST(BatchJudge, DoubtsAMisreadFeatureAsATrialDoes) {
  struct Misreading {
    uint64_t feature;
    OracleTarget::Misreads misreads;
  };
  static std::vector<int32_t> borders;
  static std::vector<int64_t> table;
  const Misreading all[] = {
      {ATTN_FEATURE_SINK,
       [](attn_problem& p, attn_tensors&) { p.has_sink = 0, p.features &= ~ATTN_FEATURE_SINK; }},
      {ATTN_FEATURE_ALIBI,
       [](attn_problem& p, attn_tensors&) { p.has_alibi = 0, p.features &= ~ATTN_FEATURE_ALIBI; }},
      {ATTN_FEATURE_LATENT,
       [](attn_problem& p, attn_tensors& t) {
         if (p.latent && p.dim_qk > p.dim_v)
           t.v.data = static_cast<char*>(t.v.data) + t.v.stride[3] * (p.dtype == ATTN_F32 ? 4 : 2);
       }},
      {ATTN_FEATURE_WIDE, [](attn_problem& p, attn_tensors&) { p.dim_qk = std::min<int64_t>(p.dim_qk, 256); }},
      // Keys of every entry but the first are read one row too early.
      {ATTN_FEATURE_RAGGED,
       [](attn_problem& p, attn_tensors& t) {
         if ((p.ragged & ATTN_RAGGED_KEYS) == 0) return;
         borders.clear();
         for (int64_t b = 0; b <= p.batch; ++b) {
           const auto border = static_cast<int32_t>(index_at(p.index_dtype, t.cu_k, b));
           borders.push_back(b > 0 && border > 0 ? border - 1 : border);
         }
         t.cu_k = borders.data();
         p.index_dtype = ATTN_INDEX_32;
         p.has_key_lengths = 0;
       }},
      // An entry finds its first page where its second should be.
      {ATTN_FEATURE_PAGED,
       [](attn_problem& p, attn_tensors& t) {
         if (p.page_size == 0) return;
         table.clear();
         for (int64_t b = 0; b < p.batch; ++b) {
           const auto* row = static_cast<const int64_t*>(t.block_table.data) + b * t.block_table.stride[0];
           table.insert(table.end(), row, row + p.pages_per_seq);
           if (key_length(p, t, b) > p.page_size) (table.end() - p.pages_per_seq)[1] = row[0];
         }
         t.block_table = {table.data(), {p.pages_per_seq, 0, 0, 1}};
       }},
      {ATTN_FEATURE_KEY_STEP, [](attn_problem& p, attn_tensors&) { p.key_offset /= 2; }},
      {ATTN_FEATURE_INDEX32, [](attn_problem& p, attn_tensors&) {
         if (p.ragged == 0) p.index_dtype = ATTN_INDEX_64, p.features &= ~ATTN_FEATURE_INDEX32;
       }}};
  for (const auto& [feature, misreads] : all) {
    OracleTarget wrong(misreads, OracleTarget::kBatched);
    EXPECT_GT(expect_equal_verdicts(cases_with(feature, 6, 40), wrong), 0) << feature;
  }
}

// Writes beyond the last entry, and an unwritten row. Only checks of memory show them.
TEST(BatchJudge, DoubtsRowsOfPackedEntriesAsATrialDoes) {
  class Slips : public OracleTarget {
   public:
    explicit Slips(bool beyond) : beyond_(beyond) {}
    RunReply run(Stage stage, const attn_problem& p, const attn_tensors& t, const attn_plan& plan,
                 const attn_env& env, int stream) override {
      const int64_t bytes = p.dtype == ATTN_F32 ? 4 : 2;
      const int64_t owned = (p.ragged & ATTN_RAGGED_QUERIES) != 0 ? Sequences(p, t).queries.owned() : 0;
      const bool some = owned > 0 && (!beyond_ || owned < p.total_q);
      auto* const row = static_cast<char*>(t.o.data) + (beyond_ ? owned : owned - 1) * t.o.stride[2] * bytes;
      char before[4];
      if (some) std::memcpy(before, row, sizeof before);
      const RunReply reply = OracleTarget::run(stage, p, t, plan, env, stream);
      if (!some) return reply;
      if (beyond_)
        std::memset(row, 0, 2);
      else
        std::memcpy(row, before, static_cast<size_t>(bytes));
      return reply;
    }

   private:
    const bool beyond_;
  };
  std::vector<Case> cases = cases_with(ATTN_FEATURE_RAGGED, 14, 40);
  for (Case& c : cases) c.poison = Poison::kNan;
  for (const bool beyond : {false, true}) {
    Slips slips(beyond);
    EXPECT_GT(expect_equal_verdicts(cases, slips), 0) << beyond;
  }
}

// A kernel may write neither to a slot without a key nor to an entry of the table that names no page.
TEST(BatchJudge, DoubtsWritesToPagesAsATrialDoes) {
  class Writes : public OracleTarget {
   public:
    explicit Writes(bool to_table) : to_table_(to_table) {}
    RunReply run(Stage stage, const attn_problem& p, const attn_tensors& t, const attn_plan& plan,
                 const attn_env& env, int stream) override {
      const RunReply reply = OracleTarget::run(stage, p, t, plan, env, stream);
      if (p.page_size == 0) return reply;
      for (int64_t b = 0; b < p.batch; ++b) {
        const int64_t keys = key_length(p, t, b);
        auto* const row =
            static_cast<int64_t*>(const_cast<void*>(t.block_table.data)) + b * t.block_table.stride[0];
        const int64_t next = (keys + p.page_size - 1) / p.page_size;
        if (to_table_ && next < p.pages_per_seq) row[next] = 3;
        if (to_table_ || keys % p.page_size == 0) continue;
        const int64_t at = offset_of(t.k, row[keys / p.page_size], 0, keys % p.page_size, 0);
        if (p.dtype == ATTN_F32)
          static_cast<uint32_t*>(const_cast<void*>(t.k.data))[at] = 0;
        else
          static_cast<uint16_t*>(const_cast<void*>(t.k.data))[at] = 0;
      }
      return reply;
    }

   private:
    const bool to_table_;
  };
  const std::vector<Case> cases = cases_with(ATTN_FEATURE_PAGED, 10, 40);
  for (const bool to_table : {false, true}) {
    Writes writes(to_table);
    EXPECT_GT(expect_equal_verdicts(cases, writes), 0) << to_table;
  }
}

TEST(BatchJudge, DoubtsEveryCaseThatATrialFails) {
  // Case 0: one key more than a tile, grouped heads, different widths of K and V. Case 1: rows that see no key.
  // Case 2: splits, key lengths, a bias and a mask, and a second call on a dirty workspace. The others are
  // variants.
  std::vector<Case> cases(3);
  cases[0].problem.heads_q = 4;
  cases[0].problem.heads_kv = 2;
  cases[0].problem.seq_q = 6;
  cases[1].problem.seq_q = 19;
  for (Case& c : cases) {
    c.problem.seq_k = 17;
    c.problem.dim_qk = 5;
    c.problem.dim_v = 7;
    c.problem.causal = true;
    c.problem.align = ATTN_BOTTOM_RIGHT;
    c.q.kind = c.k.kind = c.v.kind = FillKind::kGaussian;
    c.q.seed = 1, c.k.seed = 2, c.v.seed = 3;
  }
  Problem& all = cases[2].problem;
  all.batch = all.heads_q = 2;
  all.seq_q = 5;
  all.causal = false;
  all.num_splits = 2;
  all.key_lengths = std::vector<int64_t>{17, 9};
  all.bias = Bias{.kind = BiasKind::kVeryNegative, .finite = {}, .broadcast = {.head = true}, .seed = 4};
  all.mask = Mask{.visible = {PatternKind::kRandom, 4, 5}, .broadcast = {.batch = true}};
  cases[2].calls = {attnfuzz::Call{}, attnfuzz::Call{.dirty_workspace = true, .stream = 1}};
  cases.push_back(cases[0]);
  cases.back().problem.dtype = ATTN_F32;
  for (const uint64_t n : {3, 8}) cases.push_back(laid_oddly(cases[n == 3 ? 0 : 2], n));
  for (const Flaw flaw :
       {Flaw::kDropsLastKey, Flaw::kWholeTileLost, Flaw::kHeadMap, Flaw::kAlignIgnored, Flaw::kLseBase,
        Flaw::kNanOnDeadRow, Flaw::kConstantAdded, Flaw::kWritesPast, Flaw::kSkipsLastRow, Flaw::kSkipsLse,
        Flaw::kWritesInput, Flaw::kPlanNonsense, Flaw::kBiasClipped, Flaw::kMaskBroadcast, Flaw::kLengthIgnored,
        Flaw::kWorkspaceTrusted}) {
    FakeTarget fake(flaw);
    fake.take_fp32();
    FakeBatchTarget device(fake);
    const Calibration calibration = documented();
    const std::vector<BatchCase> asked = by_reference(cases);
    const std::vector<Verdict> verdicts = BatchJudge(device, fake, calibration).judge(asked);
    int failures = 0;
    for (size_t i = 0; i < cases.size(); ++i) {
      const Verdict v = ordinary(asked[i], fake);
      EXPECT_EQ(verdicts[i].kind, v.kind)
          << to_string(flaw) << ": " << verdicts[i].message << " / " << v.message;
      failures += v.outcome == Outcome::kFail;
    }
    EXPECT_GT(failures, 0) << to_string(flaw);
  }
}

// Two batch entries of two heads, some keys hidden by lengths, values that differ.
Case two_entries(int64_t seq_q, int64_t dim_qk, int64_t dim_v, const std::vector<int64_t>& key_lengths,
                 int64_t seq_k) {
  Case c;
  Problem& p = c.problem;
  p.batch = p.heads_q = 2;
  p.seq_q = seq_q, p.seq_k = seq_k;
  p.dim_qk = dim_qk, p.dim_v = dim_v;
  p.key_lengths = key_lengths;
  c.q.kind = c.k.kind = c.v.kind = FillKind::kGaussian;
  c.q.seed = 1, c.k.seed = 2, c.v.seed = 3;
  return c;
}

TEST(BatchJudge, SaysOfRelationsWhatATrialDoes) {
  FakeTarget fake;
  const Case c = two_entries(3, 4, 3, {17, 18}, 18);
  EXPECT_GT(expect_equal_relations(c, fake), 20u);
}

struct Judged {
  Verdict verdict;  // by the batch
  Verdict alone;    // by a trial
  BatchUse use;
};

// Judges a kernel with this flaw in a batch of one case.
Judged judge_flaw(Flaw flaw, const char* property_name) {
  FakeTarget fake(flaw);
  FakeBatchTarget device(fake);
  const Calibration calibration = documented();
  Case c = two_entries(5, 8, 9, {33, 37}, 40);
  const Property* property = find_property(property_name);
  std::string why;
  EXPECT_TRUE(property->adapt(c, fake.info(), &why)) << why;
  BatchJudge batch_judge(device, fake, calibration);
  const BatchCase asked = {c, property};
  Verdict verdict = batch_judge.judge(std::span(&asked, 1))[0];
  return {std::move(verdict), ordinary(asked, fake), batch_judge.use()};
}

// Errors that no bound shows, but a relation does.
TEST(BatchJudge, DoubtsWhatARelationFails) {
  const std::pair<Flaw, const char*> flaws[] = {{Flaw::kBatchRounds, "permute_batch"},
                                                {Flaw::kHeadRounds, "permute_heads"},
                                                {Flaw::kHiddenKeyRounds, "future"},
                                                {Flaw::kLayoutRounds, "layout"}};
  for (const auto& [flaw, name] : flaws) {
    const Judged judged = judge_flaw(flaw, name);
    const Verdict& v = judged.verdict;
    EXPECT_EQ(v.kind, judged.alone.kind) << name;
    EXPECT_EQ(v.kind, Kind::kRelation) << name << ": " << v.message;
    EXPECT_EQ(judged.use.doubted, 1u) << name;
  }
}

// State that a kernel keeps between calls shows in `repeat`; plans that accept too much show in `contract`.
TEST(BatchJudge, DoubtsWhatRepeatAndContractFail) {
  struct Expected {
    Flaw flaw;
    const char* property;
    bool in_batch;  // the batch itself finds an error
  };
  for (const auto& [flaw, name, in_batch] : {Expected{Flaw::kKeepsPartials, "repeat", true},
                                             {Flaw::kCountsCalls, "repeat", true},
                                             {Flaw::kWorkspaceTrusted, "repeat", true},
                                             {Flaw::kAcceptsDims, "contract", false},
                                             {Flaw::kPlansIn32Bits, "contract", false}}) {
    const Judged judged = judge_flaw(flaw, name);
    const Verdict& v = judged.verdict;
    EXPECT_EQ(v.kind, judged.alone.kind) << to_string(flaw) << ": " << v.message;
    EXPECT_EQ(v.outcome, Outcome::kFail) << to_string(flaw);
    EXPECT_EQ(judged.use.doubted, in_batch ? 1u : 0u) << to_string(flaw);
    EXPECT_EQ(judged.use.left.count("plans that do not hold"), in_batch ? 0u : 1u) << to_string(flaw);
  }
}

TEST(BatchJudge, MoreRunsThanABatchHoldsAreMadeInSeveralRounds) {
  FakeTarget fake;
  FakeBatchTarget device(fake);
  const Calibration calibration = documented();
  Case c;
  std::string why;
  const Property* repeat = find_property("repeat");
  ASSERT_TRUE(repeat->adapt(c, fake.info(), &why));
  const std::vector<BatchCase> asked(batch::kMostCalls, {c, repeat});  // two runs each, in one place
  BatchJudge batch_judge(device, fake, calibration);
  for (const Verdict& v : batch_judge.judge(asked)) EXPECT_EQ(v.outcome, Outcome::kPass) << v.message;
  EXPECT_EQ(batch_judge.use().cleared, asked.size());
}

TEST(BatchJudge, CasesOfALostBatchAreJudgedOneByOne) {
  FakeTarget fake(Flaw::kCrashes);
  FakeBatchTarget device(fake);
  device.fault = "CUDA error 700";
  const Calibration calibration = documented();
  BatchJudge batch_judge(device, fake, calibration);
  std::vector<Case> cases(3);
  cases[0].problem.seq_k = cases[2].problem.seq_k = 5;
  cases[1].problem.seq_k = 17;
  std::vector<Verdict> verdicts = batch_judge.judge(by_reference(cases));
  EXPECT_EQ(verdicts[0].outcome, Outcome::kPass);
  EXPECT_EQ(verdicts[1].kind, Kind::kCrash);
  EXPECT_EQ(verdicts[2].outcome, Outcome::kPass);
  // If the batch ends with a fault that no case has by itself, that is a failure.
  cases[1].problem.seq_k = 5;
  verdicts = batch_judge.judge(by_reference(cases));
  EXPECT_EQ(verdicts[0].kind, Kind::kCrash);
  EXPECT_NE(verdicts[0].message.find("CUDA error 700"), std::string::npos);
  EXPECT_NE(verdicts[0].message.find("ended badly 3 of 3 times"), std::string::npos) << verdicts[0].message;
  EXPECT_NE(verdicts[0].message.find("one that ends so in a batch of its own"), std::string::npos);
  // The message says so if the fault does not come again.
  device.faults = 1;
  verdicts = batch_judge.judge(by_reference(cases));
  EXPECT_EQ(verdicts[0].kind, Kind::kCrash);
  EXPECT_NE(verdicts[0].message.find("ended badly 0 of 3 times"), std::string::npos) << verdicts[0].message;
}

TEST(BatchJudge, MemoryThatADeviceLacksIsNoFaultOfTheKernel) {
  FakeTarget fake;
  FakeBatchTarget device(fake);
  device.fault = std::string(batch::kNoMemory) + "memory for a batch: CUDA error 2";
  const Calibration calibration = documented();
  BatchJudge batch_judge(device, fake, calibration);
  std::vector<Case> cases(3);
  for (Case& c : cases) c.problem.seq_q = c.problem.seq_k = 20;
  for (const Verdict& v : batch_judge.judge(by_reference(cases)))
    EXPECT_EQ(v.outcome, Outcome::kPass) << v.message;
  EXPECT_EQ(batch_judge.use().lost, 0u);
  EXPECT_EQ(batch_judge.use().left.at("too little free memory on the device"), 3u);
}

TEST(BatchJudge, AResultThatIsWrongOnlyInTheBatchIsAnOracleFailure) {
  FakeTarget fake;
  FakeBatchTarget device(fake);
  FakeBatchTarget::disturb = true;
  const Calibration calibration = documented();
  Case c;
  c.problem.seq_q = c.problem.seq_k = 20;
  const std::vector<Verdict> verdicts = BatchJudge(device, fake, calibration).judge(by_reference({c}));
  EXPECT_EQ(verdicts[0].kind, Kind::kOracle) << verdicts[0].message;
  EXPECT_NE(verdicts[0].message.find("(1 elements outside of their bound)"), std::string::npos)
      << verdicts[0].message;
}

TEST(BatchJudge, ARefusalInRunIsJudgedByATrial) {
  FakeTarget fake;
  FakeBatchTarget device(fake);
  FakeBatchTarget::refuse = true;
  const Calibration calibration = documented();
  Case c;
  c.problem.seq_q = c.problem.seq_k = 20;
  BatchJudge batch_judge(device, fake, calibration);
  EXPECT_EQ(batch_judge.judge(by_reference({c}))[0].outcome, Outcome::kPass);
  EXPECT_EQ(batch_judge.use().left.at("a refusal as it ran"), 1u);
  EXPECT_EQ(batch_judge.use().doubted, 0u);
}

TEST(BatchJudge, SaysThatMostRowsCannotBeJudgedAsATrialDoes) {
  FakeTarget fake;
  const Calibration calibration = documented();
  std::vector<Case> some;
  for (uint64_t seed = 1; some.size() < 3; ++seed) {
    const Case c = random_case(seed);
    std::string why;
    if (illegal(c) || c.problem.batch * c.problem.heads_q * c.problem.seq_q > 40) continue;
    if (!batch::prepare(c, ATTN_CPU, &why)) continue;
    if (ordinary(by_reference({c})[0], fake).outcome == Outcome::kNotJudged) some.push_back(c);
  }
  FakeBatchTarget device(fake);
  BatchJudge batch_judge(device, fake, calibration);
  for (const Verdict& v : batch_judge.judge(by_reference(some))) {
    EXPECT_EQ(v.outcome, Outcome::kNotJudged);
    EXPECT_NE(v.message.find("uninformative and"), std::string::npos) << v.message;
  }
  EXPECT_EQ(batch_judge.use().cleared, some.size());
  EXPECT_EQ(batch_judge.use().both, 1u);  // the first
}

TEST(BatchJudge, CountsNonFiniteInputsWithinTheLengths) {
  const Calibration calibration = documented();
  Case c;
  c.problem.batch = 2;
  c.problem.heads_q = c.problem.heads_kv = 2;
  c.problem.seq_q = 20;
  c.problem.seq_k = 70;
  c.problem.key_lengths = {{40, 70}};
  c.calls.resize(2);  // counted once
  for (const auto& [dtype, inf, nan] : {std::array<uint32_t, 3>{ATTN_F16, 0x7c00, 0xfe00},
                                        {ATTN_BF16, 0xff80, 0x7fc0},
                                        {ATTN_F32, 0x7f800000, 0xffc00000}}) {
    c.problem.dtype = static_cast<attn_dtype>(dtype);
    c.planted = {{TensorId::kQ, 1, 1, 19, 0, inf},
                 {TensorId::kK, 0, 1, 39, 0, nan},
                 {TensorId::kK, 0, 1, 40, 0, nan},  // beyond the entry's length
                 {TensorId::kV, 1, 0, 69, 0, nan}};
    for (const bool once : {false, true}) {  // true: both batch entries share K, and one sees key 40
      c.once.k.batch = once;
      FakeTarget fake;
      fake.take_fp32();
      FakeBatchTarget device(fake);
      BatchJudge(device, fake, calibration).judge(by_reference({c}));
      EXPECT_EQ(device.not_finite, once ? 5u : 3u);
    }
  }
}

TEST(BatchJudge, ThreadsJudgeWhatIsDrawnAndFailuresAreDeferred) {
  FakeTarget fake;
  FakeBatchTarget device(fake);
  const Calibration calibration = documented();
  std::vector<Case> cases(3);
  for (Case& c : cases) c.problem.seq_q = c.problem.seq_k = 20;
  // The threads judge a sample again, on another kernel. If that kernel is wrong, the batch seems to be wrong
  // about the first case, which is always in the sample.
  for (const Flaw flaw : {Flaw::kNone, Flaw::kConstantAdded}) {
    BatchJudge batch_judge(device, fake, calibration, 1, [&] { return std::make_unique<FakeTarget>(flaw); }, 2);
    EXPECT_TRUE(batch_judge.deferred(true).empty());
    for (const Verdict& v : batch_judge.judge(by_reference(cases)))
      EXPECT_EQ(v.outcome, Outcome::kPass) << v.message;
    const std::vector<Deferred> deferred = batch_judge.deferred(true);
    ASSERT_EQ(deferred.size(), flaw == Flaw::kNone ? 0u : 1u);
    if (deferred.empty()) continue;
    EXPECT_EQ(deferred[0].number, 0u);
    EXPECT_EQ(deferred[0].verdict.kind, Kind::kOracle) << deferred[0].verdict.message;
  }
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
