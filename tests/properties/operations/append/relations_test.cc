// Tests properties of operations that write caches, on a right kernel and on kernels that are wrong in a second call.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "properties/case/features/shrink_toggles.h"
#include "properties/draw/generator.h"
#include "properties/judge/oracles.h"
#include "properties/judge/trial.h"
#include "properties/memory/layout.h"
#include "properties/operations/forward/relations/tools.h"
#include "properties/operations/operation.h"
#include "reference/caches.h"
#include "reference/call/sequences.h"
#include "tests/properties/support/fake_target.h"

namespace attnfuzz {
namespace {

using enum TensorId;

constexpr uint64_t kKernel = ATTN_FEATURE_APPEND | ATTN_FEATURE_COPY_PAGES | ATTN_FEATURE_NO_FORWARD |
                             ATTN_FEATURE_RAGGED | ATTN_FEATURE_INDEX32 | ATTN_FEATURE_PAGED;

// A kernel that writes the oracle's results. With `change` it changes its tensors first, and is wrong.
class CacheTarget final : public FakeTarget {
 public:
  using Change = void (*)(const attn_problem& p, attn_tensors& t, int run, std::vector<std::byte>& memory);
  explicit CacheTarget(Change change = nullptr) : FakeTarget(Flaw::kNone, /*stages=*/false), change_(change) {
    take_features(kKernel);
  }
  PlanReply plan(const attn_problem& p, const attn_tensors&, const attn_env&) override {
    PlanReply reply;
    if (terms && p.seq_q < terms->seq_q.least) {
      reply.status = ATTN_UNSUPPORTED;
      reply.reason = "too few rows";
      return reply;
    }
    attn_plan& plan = reply.plan;
    plan.size = sizeof plan;
    plan.tile_q = plan.tile_k = 16;
    plan.num_splits = plan.split_tiles = plan.workspace_align = 1;
    plan.deterministic = 1;
    return reply;
  }
  RunReply run(Stage, const attn_problem& p, const attn_tensors& tensors, const attn_plan&, const attn_env&,
               int) override {
    written = tensors.k.data;
    attn_tensors t = tensors;
    if (change_) change_(p, t, run_++, memory_);
    const bool append = (p.features & ATTN_FEATURE_APPEND) != 0;
    const Reference due = append ? evaluate_append(p, t) : evaluate_copies(p, t);
    for (const Expected& cache : due.outputs) write(p, cache, view_of(tensors, spec_of(cache.tensor)));
    if (after) after(tensors);
    return {};
  }
  const void* written = nullptr;                   // K of the last run
  void (*after)(const attn_tensors& t) = nullptr;  // changes a table once the results are written

 private:
  static void write(const attn_problem& p, const Expected& due, const attn_tensor& to) {
    const auto size = stored_shape_of(spec_of(due.tensor), p);
    const int64_t bytes = element_bytes(spec_of(due.tensor), formats_of(p));
    int64_t n = 0;
    const auto step = [&](size_t dimension, int64_t i) { return size[dimension] > 1 ? i * to.stride[dimension] : 0; };
    for (int64_t a = 0; a < size[0]; ++a)
      for (int64_t h = 0; h < size[1]; ++h)
        for (int64_t s = 0; s < size[2]; ++s)
          for (int64_t d = 0; d < size[3]; ++d, ++n)
            std::memcpy(static_cast<char*>(to.data) + (step(0, a) + step(1, h) + step(2, s) + step(3, d)) * bytes,
                        &due.integer[static_cast<size_t>(n)], static_cast<size_t>(bytes));
  }

  const Change change_;
  int run_ = 0;
  std::vector<std::byte> memory_;
};

Verdict first_failure(CacheTarget::Change change, const char* property, int cases) {
  Verdict last;
  int passed = 0;
  for (int index = 0; index < cases; ++index) {
    CacheTarget target(change);
    GeneratorConfig config;
    config.features = kKernel;
    last = judge(draw(config, 3, static_cast<uint64_t>(index)), *find_property(property), target, documented());
    if (last.outcome == Outcome::kFail) return last;
    passed += last.outcome == Outcome::kPass;
  }
  EXPECT_GT(passed, cases * 9 / 10) << property << ": " << last.message;
  return last;
}

TEST(CacheRelations, ARightKernelPasses) {
  for (const char* property : {"append_in_two", "copies_reversed", "repeat", "layout"}) {
    const Verdict v = first_failure(nullptr, property, 120);
    EXPECT_NE(v.outcome, Outcome::kFail) << property << ": " << v.message;
  }
}

// A case that appends to caches, or copies their pages. The caches hold numbers.
Case cache_case(uint64_t operation) {
  Case c;
  Problem& p = c.problem;
  p.features = operation;
  p.batch = 2, p.heads_q = p.heads_kv = 2, p.dim_qk = 4, p.dim_v = 3;
  if (operation == ATTN_FEATURE_APPEND) {
    p.seq_q = 2, p.seq_k = 5;
    p.key_lengths = {3, 1};
  } else {
    p.seq_k = 0;
    p.paging = Paging{.size = 2, .spare = 4};
    c.copies = {{0, 1}, {2, 3}};
  }
  tidy(c);
  return c;
}

TEST(CacheRelations, OtherContentsIncludeThoseOfCaches) {
  for (const uint64_t operation : {ATTN_FEATURE_APPEND, ATTN_FEATURE_COPY_PAGES}) {
    const Case c = cache_case(operation);
    ASSERT_EQ(illegal(c), std::nullopt) << *illegal(c);
    Case other = c;
    relations::change_contents(other);
    Arena arena;
    const auto before = LaidOut(c, arena).digests(), after = LaidOut(other, arena).digests();
    for (const TensorSpec& spec : kTensors) {
      const auto t = static_cast<size_t>(spec.id);
      if (before[t] != 0 && fill_of(spec.id)) EXPECT_NE(before[t], after[t]) << spec.name;
    }
    EXPECT_NE(before[static_cast<size_t>(kCacheK)], 0u);
    EXPECT_EQ(other.k.seed, c.k.seed + 1) << "one step, though several tensors have the fill";
  }
}

// The oracle uses the elements of tables as indices. It must not use those that a kernel has left.
TEST(CacheRelations, AKernelThatAdvancesALengthOrAPairIsReported) {
  CacheTarget append, copy;
  append.after = [](const attn_tensors& t) {
    const_cast<int64_t*>(static_cast<const int64_t*>(t.key_lengths))[0] = 16;
  };
  copy.after = [](const attn_tensors& t) { static_cast<int64_t*>(t.copies.data)[1] = int64_t{1} << 40; };
  for (const PageJunk junk : {PageJunk::kLargest, PageJunk::kMinusOne}) {
    Case c;
    Problem& p = c.problem;
    p.features = ATTN_FEATURE_APPEND;
    p.seq_q = 16, p.seq_k = 40, p.dim_qk = p.dim_v = 64;
    p.key_lengths = {0};
    p.paging = Paging{.size = 16, .junk = junk};
    tidy(c);
    const Verdict v = judge(c, *find_property("reference"), append, documented());
    EXPECT_STREQ(to_string(v.kind), to_string(Kind::kInputChanged)) << v.message;
    EXPECT_NE(v.message.find("key_lengths was written"), std::string::npos) << v.message;
  }
  const Verdict v = judge(cache_case(ATTN_FEATURE_COPY_PAGES), *find_property("reference"), copy, documented());
  EXPECT_STREQ(to_string(v.kind), to_string(Kind::kInputChanged)) << v.message;
}

// Half of one row is none, which the kernel's domain excludes.
TEST(CacheRelations, AnAppendOfOneRowHasNoHalves) {
  CacheTarget target;
  target.terms.emplace().size = sizeof(attn_domain);
  target.terms->seq_q.least = 1;
  Case c = cache_case(ATTN_FEATURE_APPEND);
  c.problem.seq_q = 1;
  const Verdict v = judge(c, *find_property("append_in_two"), target, documented());
  EXPECT_EQ(v.outcome, Outcome::kRefused) << v.message;
  EXPECT_FALSE(v.refused);
  EXPECT_NE(v.message.find("the relation does not apply"), std::string::npos) << v.message;
  c.problem.seq_q = 2;
  EXPECT_EQ(judge(c, *find_property("append_in_two"), target, documented()).message, "");
}

// Copies a pair only if its destination is above that of the pair before.
void ascending_pairs(const attn_problem& p, attn_tensors& t, int, std::vector<std::byte>& memory) {
  if ((p.features & ATTN_FEATURE_COPY_PAGES) == 0) return;
  std::vector<int64_t> pairs;
  int64_t last = -1;
  for (int64_t n = 0; n < p.batch; ++n) {
    const int64_t pair = p.batch > 1 ? n * t.copies.stride[0] : 0,
                  to = index_at(p.index_dtype, t.copies.data, pair + 1);
    pairs.push_back(to > last ? index_at(p.index_dtype, t.copies.data, pair) : to);
    pairs.push_back(to);
    last = std::max(last, to);
  }
  memory.resize(pairs.size() * sizeof(int64_t));
  std::memcpy(memory.data(), pairs.data(), memory.size());
  t.copies = {memory.data(), {2, 1, 1, 1}};
}

TEST(CacheRelations, AnOrderOfPairsThatHasAMeaningIsFound) {
  CacheTarget target(ascending_pairs);
  Case c = cache_case(ATTN_FEATURE_COPY_PAGES);
  c.k = c.v = {.kind = FillKind::kPosition};
  const Verdict reference = judge(c, *find_property("reference"), target, documented());
  EXPECT_EQ(reference.outcome, Outcome::kPass) << reference.message;
  const Verdict v = judge(c, *find_property("copies_reversed"), target, documented());
  EXPECT_EQ(v.outcome, Outcome::kFail);
  EXPECT_NE(v.message.find("pairs in reverse"), std::string::npos) << v.message;
}

// Records the address of the cache, and leaves the case to the CPU's oracle.
class CacheOracle final : public FastOracle {
 public:
  explicit CacheOracle(const void** found) : found_(found) {}
  std::optional<Reference> evaluate(const attn_problem&, const attn_tensors& host, const attn_plan&,
                                    const Calibration&, RowSample, std::string* why) override {
    *found_ = host.k.data;
    *why = "it writes caches";
    return std::nullopt;
  }
  std::string device() const override { return "a fake"; }

 private:
  const void** const found_;
};

TEST(CacheRelations, AFastOracleReadsCachesAsTheyWereBeforeTheCall) {
  const void* found = nullptr;
  CacheTarget target;
  target.oracles = std::make_shared<Oracles>(std::make_unique<CacheOracle>(&found));
  const Verdict v = judge(cache_case(ATTN_FEATURE_APPEND), *find_property("repeat"), target, documented());
  EXPECT_EQ(v.outcome, Outcome::kPass) << v.message;
  EXPECT_GT(target.oracles->use().left_in_all(), 0u);
  ASSERT_NE(found, nullptr);
  EXPECT_NE(found, target.written) << "the kernel writes there";
}

// Uses the key lengths of the first call for all calls.
void keep_lengths(const attn_problem& p, attn_tensors& t, int run, std::vector<std::byte>& memory) {
  if ((p.features & ATTN_FEATURE_APPEND) == 0) return;
  const size_t bytes = static_cast<size_t>(p.batch) * (p.index_dtype == ATTN_INDEX_32 ? 4 : 8);
  const auto* lengths = reinterpret_cast<const std::byte*>(t.key_lengths);
  if (run == 0) memory.assign(lengths, lengths + bytes);
  if (memory.size() == bytes) t.key_lengths = reinterpret_cast<const int64_t*>(memory.data());
}

TEST(CacheRelations, LengthsThatOutliveACallAreFound) {
  EXPECT_EQ(first_failure(keep_lengths, "append_in_two", 60).kind, Kind::kWrong);
}

TEST(CacheRelations, AWriteIsNamedByItsPlaceAndBits) {
  const Verdict v = first_failure(
      [](const attn_problem& p, attn_tensors& t, int, std::vector<std::byte>&) {
        if (p.dim_qk == p.dim_v) std::swap(t.k_new, t.v_new);
      },
      "append_in_two", 60);
  EXPECT_EQ(v.outcome, Outcome::kFail);
  EXPECT_NE(v.message.find("cache_"), std::string::npos) << v.message;
  EXPECT_NE(v.message.find("store="), std::string::npos) << v.message;
  EXPECT_NE(v.message.find("must be exactly 0x"), std::string::npos) << v.message;
}

}  // namespace
}  // namespace attnfuzz
