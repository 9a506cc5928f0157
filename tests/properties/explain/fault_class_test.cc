// The likely class of a fault, on verdicts and reduced cases as bugs of each
// class leave them behind.
#include "properties/explain/fault_class.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace attnfuzz {
namespace {

struct Finding {
  Case c;
  Verdict v;
  std::vector<std::string> needs;
  std::string lane = "plain";

  explicit Finding(Kind kind) {
    v.outcome = Outcome::kFail;
    v.kind = kind;
    v.plan.tile_q = v.plan.tile_k = 64;
    v.where = Where{};
    v.where->bound = 0.001;
  }
  Finding& fault(attn_report_kind kind, const std::string& message) {
    v.kind = Kind::kFault;
    v.where.reset();
    v.fault = Fault{.kind = kind, .block = {}, .thread = {}, .message = message, .file = "", .line = 0};
    return *this;
  }
  Finding& lengths(int64_t seq_q, int64_t seq_k) {
    c.problem.seq_q = seq_q;
    c.problem.seq_k = seq_k;
    return *this;
  }
  Finding& need(std::vector<std::string> what) {
    for (const std::string& n : what) needs.push_back("needs " + n);
    return *this;
  }
  FaultGuess guess() const { return guess_fault(c, v, needs, lane); }
};

void expect(const Finding& f, FaultClass likely) {
  const FaultGuess guess = f.guess();
  EXPECT_STREQ(to_string(guess.likely), to_string(likely)) << guess.text();
  EXPECT_FALSE(guess.why.empty());
  EXPECT_EQ(std::ranges::count(guess.also, likely), 0);
}

TEST(FaultClass, ATileThatARowDoesNotSee) {
  Finding f(Kind::kNonFinite);
  f.lengths(1, 65).need({"seq_q >= 1", "seq_k >= 65", "mask: only the first key"});
  f.c.problem.mask.emplace().visible.kind = PatternKind::kFirstKey;
  f.v.shape = "all NaN";
  expect(f, FaultClass::kSoftmax);
  EXPECT_NE(f.guess().why.find("exp(-inf - -inf)"), std::string::npos);
}

TEST(FaultClass, AccumulatorNotRescaled) {
  Finding f(Kind::kWrong);
  f.lengths(1, 65).need({"seq_k >= 65", "values of q: constant or uniform", "values of k: uniform"});
  f.c.k.kind = FillKind::kUniform;
  expect(f, FaultClass::kSoftmax);
}

TEST(FaultClass, AResultWhereNothingIsVisible) {
  Finding f(Kind::kWrong);
  f.lengths(1, 2).need({"seq_k >= 1", "mask: nothing"});
  f.c.problem.mask.emplace().visible.kind = PatternKind::kNothing;
  f.v.where->bound = 0;
  f.v.shape = "values where nothing is visible";
  expect(f, FaultClass::kSoftmax);
}

TEST(FaultClass, NoKeys) {
  Finding hang(Kind::kHang);
  hang.v.where.reset();
  expect(hang.lengths(1, 0), FaultClass::kZeroLength);
  Finding unwritten(Kind::kUnwritten);
  expect(unwritten.lengths(1, 0).need({"seq_q >= 1", "seq_k = 0"}), FaultClass::kZeroLength);
  // The smallest case has no key where keys do not matter: that says nothing.
  Finding smallest(Kind::kUnwritten);
  smallest.lengths(65, 0).need({"seq_q >= 65"});
  expect(smallest, FaultClass::kTail);
}

TEST(FaultClass, TheLastTile) {
  Finding f(Kind::kNonFinite);
  expect(f.lengths(1, 65).need({"seq_k >= 65"}), FaultClass::kTail);
  Finding beyond(Kind::kNonFinite);
  beyond.lengths(1, 8).need({"NaN beyond the key lengths", "key lengths 7"});
  beyond.c.problem.key_lengths = {7};
  beyond.c.nan_beyond_lengths = true;
  expect(beyond, FaultClass::kTail);
  Finding residue(Kind::kWrong);
  residue.v.shape = "the last key's contribution is missing";
  expect(residue.lengths(1, 65).need({"seq_k = 1 (mod 64)"}), FaultClass::kTail);
  Finding guard(Kind::kGuard);
  guard.v.where.reset();
  expect(guard.lengths(1, 1), FaultClass::kTail);
}

TEST(FaultClass, OffsetsAndGrids) {
  Finding grid(Kind::kUnwritten);
  grid.c.problem.batch = 65536;
  expect(grid.need({"batch >= 65536"}), FaultClass::kOverflow);
  Finding crash(Kind::kCrash);
  crash.v.where.reset();
  crash.c.layout[1].spread = int64_t{1} << 32;
  expect(crash.need({"the layout of k"}), FaultClass::kOverflow);
  expect(Finding(Kind::kFault).fault(ATTN_REPORT_UNDEFINED, "signed integer overflow: 65536 * 65536"),
         FaultClass::kOverflow);
}

TEST(FaultClass, Strides) {
  Finding f(Kind::kWrong);
  f.c.layout[2].row_gap = 8;
  expect(f.need({"seq_k >= 2", "the layout of v"}), FaultClass::kLayout);
  expect(Finding(Kind::kFault).fault(ATTN_REPORT_ALIGNMENT, "address not aligned to 16"), FaultClass::kLayout);
}

TEST(FaultClass, WhatAMaskMeans) {
  Finding causal(Kind::kWrong);
  causal.c.problem.causal = true;
  causal.c.problem.align = ATTN_BOTTOM_RIGHT;
  causal.v.shape = "holds the result of row i + 1";
  expect(causal.lengths(1, 3).need({"seq_k >= 3", "causal (bottom-right)"}), FaultClass::kMask);
  Finding window(Kind::kWrong);
  window.c.problem.window_left = 1;
  expect(window.lengths(3, 3).need({"window_left >= 1", "seq_q >= 3"}), FaultClass::kMask);
}

TEST(FaultClass, Races) {
  expect(Finding(Kind::kFault).fault(ATTN_REPORT_DEADLOCK, "every thread waits"), FaultClass::kRace);
  expect(Finding(Kind::kFault).fault(ATTN_REPORT_RACE, "a race on shared memory"), FaultClass::kRace);
  expect(Finding(Kind::kFault).fault(ATTN_REPORT_DISAGREEMENT, "lane 1 holds 1.5"), FaultClass::kRace);
  Finding schedule(Kind::kWrong);
  schedule.c.env.schedule_seed = 3;
  expect(schedule.lengths(1, 65).need({"seq_k >= 65", "schedule 3"}), FaultClass::kRace);
  Finding hang(Kind::kHang);
  hang.v.where.reset();
  expect(hang, FaultClass::kRace);
}

TEST(FaultClass, GroupsAndHeadDims) {
  Finding gqa(Kind::kWrong);
  gqa.c.problem.heads_q = 4;
  gqa.c.problem.heads_kv = 2;
  gqa.v.shape = "holds the result of head 1";
  expect(gqa.need({"heads_q / heads_kv >= 2", "heads_kv >= 2"}), FaultClass::kDispatch);
  Finding dims(Kind::kWrong);
  dims.c.problem.dim_v = 65;
  dims.v.shape = "columns >= 64 only";
  expect(dims.need({"dim_v >= 65"}), FaultClass::kDispatch);
}

TEST(FaultClass, SplitsAndLse) {
  Finding split(Kind::kWrong);
  split.c.problem.num_splits = 2;
  expect(split.lengths(1, 2).need({"seq_k >= 2", "num_splits >= 2"}), FaultClass::kSplit);
  Finding lse(Kind::kWrong);
  lse.v.message = "lse(b=0,h=0,q=0) is 1, must be 0.693; 1 of 1 elements are outside; O is right";
  expect(lse.need({"seq_q >= 1"}), FaultClass::kSplit);
}

TEST(FaultClass, AnLseThatCountsKeys) {
  Finding tail(Kind::kWrong);
  tail.v.message = "O is right";
  tail.c.q.kind = tail.c.v.kind = FillKind::kZero;
  tail.v.where->got = 4.158883;
  expect(tail.lengths(1, 3).need({"seq_k >= 1"}), FaultClass::kTail);
  Finding one_more = tail;
  one_more.v.where->got = 1.3862944;
  one_more.v.where->expected = 1.0986123;
  expect(one_more, FaultClass::kSoftmax);
  EXPECT_NE(one_more.guess().why.find("counts 4 keys for 3"), std::string::npos) << one_more.guess().why;
}

TEST(FaultClass, FreedMemoryIsState) {
  expect(Finding(Kind::kFault).fault(ATTN_REPORT_ADDRESS, "AddressSanitizer: heap-use-after-free"),
         FaultClass::kState);
  expect(Finding(Kind::kFault).fault(ATTN_REPORT_ADDRESS, "AddressSanitizer: heap-buffer-overflow"),
         FaultClass::kTail);
}

TEST(FaultClass, Numbers) {
  Finding softcap(Kind::kNonFinite);
  softcap.c.problem.softcap = 1;
  softcap.c.q.exponent = 8;
  expect(softcap.need({"softcap 1"}), FaultClass::kNumerics);
  Finding huge(Kind::kNonFinite);
  huge.c.q.kind = huge.c.k.kind = FillKind::kHuge;
  expect(huge.need({"values of q: huge"}), FaultClass::kNumerics);
}

TEST(FaultClass, WhatACallLeavesBehind) {
  Finding dirty(Kind::kDirty);
  dirty.c.calls = {Call{}, Call{.dirty_workspace = true}};
  expect(dirty.need({"2 calls", "a dirty workspace"}), FaultClass::kState);
}

TEST(FaultClass, WithoutReductionFeaturesCountForLess) {
  Finding f(Kind::kWrong);
  f.lengths(1, 8);
  f.c.problem.num_splits = 4;
  expect(f, FaultClass::kSplit);
  Finding none(Kind::kWrong);
  expect(none, FaultClass::kUnknown);
  EXPECT_NE(none.guess().line().find("not clear"), std::string::npos);
}

TEST(FaultClass, SaysWhatElseItCouldBe) {
  Finding f(Kind::kWrong);
  f.c.problem.num_splits = 2;
  f.c.problem.causal = true;
  const FaultGuess guess = f.lengths(1, 3).need({"num_splits >= 2", "causal (top-left)"}).guess();
  EXPECT_EQ(guess.likely, FaultClass::kSplit);
  EXPECT_EQ(guess.also, std::vector<FaultClass>{FaultClass::kMask});
  EXPECT_NE(guess.line().find("could also be meaning of a mask or window"), std::string::npos) << guess.line();
  EXPECT_NE(guess.text().find("look at: "), std::string::npos);
}

TEST(FaultClass, APassHasNone) { EXPECT_EQ(guess_fault({}, {}, {}, "plain").likely, FaultClass::kUnknown); }

TEST(FaultClass, EveryClassSaysWhereToLook) {
  for (int i = 0; i < kFaultClasses; ++i) {
    const auto fault = static_cast<FaultClass>(i);
    EXPECT_GT(std::string(where_to_look(fault)).size(), 20u);
    EXPECT_EQ(std::string(to_string(fault)) == "unknown", i == 0);
  }
}

}  // namespace
}  // namespace attnfuzz
