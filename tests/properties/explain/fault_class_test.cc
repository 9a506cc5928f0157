// Tests the guessed class of fault, with verdicts and reduced cases that are typical of
// bugs of each class.
#include "properties/explain/fault_class.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace attnfuzz {
namespace {

struct Finding {
  Case c;
  Verdict v;
  std::vector<Need> needs;
  std::string build_kind = "plain";
  Clues clues = {};

  explicit Finding(Kind kind) {
    v.outcome = Outcome::kFail;
    v.kind = kind;
    v.plan.tile_q = v.plan.tile_k = 64;
    v.where = Where{};
    v.where->bound = 0.001;
  }
  Finding& fault(attn_report_kind kind, const std::string& message,
                 Fault::Detail detail = Fault::Detail::kNone) {
    v.kind = Kind::kFault;
    v.where.reset();
    v.fault = Fault{
        .kind = kind, .block = {}, .thread = {}, .message = message, .file = "", .line = 0, .detail = detail};
    return *this;
  }
  Finding& lengths(int64_t seq_q, int64_t seq_k) {
    c.problem.seq_q = seq_q;
    c.problem.seq_k = seq_k;
    return *this;
  }
  Finding& need(std::vector<Need> what) {
    needs.insert(needs.end(), what.begin(), what.end());
    return *this;
  }
  FaultGuess guess() const { return guess_fault({c, v, needs, build_kind, clues}); }
};

Need at_least(const char* part, int64_t value) {
  return {.part = part, .relation = Relation::kAtLeast, .value = value};
}
Need exactly(const char* part, int64_t value) {
  return {.part = part, .relation = Relation::kExactly, .value = value};
}

void expect(const Finding& f, FaultClass likely) {
  const FaultGuess guess = f.guess();
  EXPECT_STREQ(to_string(guess.likely), to_string(likely)) << guess.text();
  EXPECT_EQ(guess.why.empty(), likely == FaultClass::kUnknown);
  if (guess.known()) EXPECT_NE(guess.also, likely);
}

TEST(FaultClass, ATileThatARowDoesNotSee) {
  Finding f(Kind::kNonFinite);
  f.lengths(1, 65).need({at_least("seq_q", 1), at_least("seq_k", 65), {.part = "mask"}});
  f.c.problem.mask.emplace().visible.kind = PatternKind::kFirstKey;
  f.v.shapes = {"all NaN"};
  expect(f, FaultClass::kSoftmax);
  EXPECT_NE(f.guess().why.find("exp(-inf - -inf)"), std::string::npos);
}

// Another row may not see a tile. But a wrong row that sees all tiles, and whose softmax is right, has met no
// -inf.
TEST(FaultClass, ARowThatSeesEveryTileIsNotMasked) {
  Finding f(Kind::kNonFinite);
  f.lengths(17, 65).need({at_least("seq_q", 17), at_least("seq_k", 65), exactly("window_right", 48)});
  f.c.problem.window_right = 48;
  f.v.where->tensor = TensorId::kO;
  f.v.where->q = 16;
  f.clues.whole_tiles = f.clues.whole_vectors = Clues::Answer::kFails;
  expect(f, FaultClass::kSoftmax);
  f.clues.probed = Clues::Probed::kAllRight;
  expect(f, FaultClass::kRace);
  f.v.where->q = 15;
  expect(f, FaultClass::kSoftmax);
}

TEST(FaultClass, AccumulatorNotRescaled) {
  Finding f(Kind::kWrong);
  f.lengths(1, 65).need({at_least("seq_k", 65), {.part = "values of q"}, {.part = "values of k"}});
  f.c.k.kind = FillKind::kUniform;
  expect(f, FaultClass::kSoftmax);
}

// A sum in 16 bits is off by 0.05 %, so no weight is missing.
TEST(FaultClass, ASmallErrorIsNoMissingWeight) {
  Finding f(Kind::kWrong);
  f.lengths(1, 8192).need({at_least("seq_k", 8192), {.part = "values of q"}, {.part = "values of k"}});
  f.c.k.kind = FillKind::kOneHot;
  f.v.where->expected = 9.06322;
  f.v.where->got = 9.06778;
  expect(f, FaultClass::kUnknown);
  f.v.where->got = 8.2;
  expect(f, FaultClass::kSoftmax);
}

// The LSE of equal scores gives the number of keys that were counted, whatever tiles the plan names.
TEST(FaultClass, KeysThatTheLseCounts) {
  const auto counted = [](int64_t keys, double got) {
    Finding f(Kind::kWrong);
    f.lengths(1, keys).need({at_least("seq_k", keys), at_least("dim_v", 65), {.part = "LSE"}});
    f.c.q.kind = f.c.k.kind = FillKind::kZero;
    f.v.where->tensor = TensorId::kLse;
    f.v.where->expected = std::log(static_cast<double>(keys));
    f.v.where->got = std::log(got);
    return f;
  };
  expect(counted(513, 512), FaultClass::kTail);    // the last, partly filled tile is left out
  expect(counted(2049, 2080), FaultClass::kTail);  // or counts as a whole one of 32 keys
}

TEST(FaultClass, ARowFarBelowZeroThatCountsAsDead) {
  Finding f(Kind::kNonFinite);
  f.lengths(1, 1).need({{.part = "LSE"}, {.part = "values of q"}, {.part = "values of k"}});
  f.v.where->tensor = TensorId::kLse;
  f.v.where->expected = -17929;
  f.v.where->got = -std::numeric_limits<float>::infinity();
  expect(f, FaultClass::kSoftmax);
}

// The layout of O only makes it visible that columns were not written.
TEST(FaultClass, ColumnsFromABorderOnOfLargeHeads) {
  Finding f(Kind::kNonFinite);
  f.lengths(1, 1).need({at_least("dim_qk", 192), {.part = "the layout of o"}});
  f.c.problem.dim_qk = f.c.problem.dim_v = 192;
  f.v.shapes = {{"columns >= 128 only", ShapeKind::kColumnsFrom}};
  expect(f, FaultClass::kDispatch);
}

TEST(FaultClass, AResultWhereNothingIsVisible) {
  Finding f(Kind::kWrong);
  f.lengths(1, 2).need({at_least("seq_k", 1), {.part = "mask"}});
  f.c.problem.mask.emplace().visible.kind = PatternKind::kNothing;
  f.v.where->bound = 0;
  f.v.shapes = {{"values where nothing is visible", ShapeKind::kDeadRows}};
  expect(f, FaultClass::kSoftmax);
}

TEST(FaultClass, NoKeys) {
  Finding hang(Kind::kHang);
  hang.v.where.reset();
  expect(hang.lengths(1, 0), FaultClass::kZeroLength);
  Finding unwritten(Kind::kUnwritten);
  expect(unwritten.lengths(1, 0).need({at_least("seq_q", 1), exactly("seq_k", 0)}), FaultClass::kZeroLength);
  // A packed entry without a key, where the failure needs packed entries.
  Finding packed(Kind::kHang);
  packed.v.where.reset();
  packed.c.problem.packed_k = Packing{.lengths = {1, 0}};
  packed.c.problem.batch = 2;
  expect(packed.lengths(1, 1).need({{.part = "packed keys"}}), FaultClass::kZeroLength);
  // If keys do not matter, the smallest case has no key. That is no evidence.
  Finding smallest(Kind::kUnwritten);
  smallest.lengths(65, 0).need({at_least("seq_q", 65)});
  expect(smallest, FaultClass::kTail);
}

TEST(FaultClass, TheLastTile) {
  Finding f(Kind::kNonFinite);
  expect(f.lengths(1, 65).need({at_least("seq_k", 65)}), FaultClass::kTail);
  Finding beyond(Kind::kNonFinite);
  beyond.lengths(1, 8).need({{.part = "NaN beyond the key lengths"}, {.part = "key lengths"}});
  beyond.c.problem.key_lengths = {7};
  beyond.c.nan_beyond_lengths = true;
  expect(beyond, FaultClass::kTail);
  Finding residue(Kind::kWrong);
  residue.v.shapes = {{"the last key's contribution is missing", ShapeKind::kLastKeyMissing}};
  expect(residue.lengths(1, 65).need(
             {{.part = "seq_k", .relation = Relation::kRemainder, .value = 1, .period = 64}}),
         FaultClass::kTail);
  Finding redzone(Kind::kRedzone);
  redzone.v.where.reset();
  expect(redzone.lengths(1, 1), FaultClass::kTail);
}

TEST(FaultClass, OffsetsAndGrids) {
  Finding grid(Kind::kUnwritten);
  grid.c.problem.batch = 65536;
  expect(grid.need({at_least("batch", 65536)}), FaultClass::kOverflow);
  Finding crash(Kind::kCrash);
  crash.v.where.reset();
  crash.c.layout[1].spread = int64_t{1} << 32;
  expect(crash.need({{.part = "the layout of k"}}), FaultClass::kOverflow);
  expect(
      Finding(Kind::kFault)
          .fault(ATTN_REPORT_UNDEFINED, "signed integer overflow: 65536 * 65536", Fault::Detail::kArithmetic),
      FaultClass::kOverflow);
}

TEST(FaultClass, Strides) {
  Finding f(Kind::kWrong);
  f.c.layout[2].row_gap = 8;
  expect(f.need({at_least("seq_k", 2), {.part = "the layout of v"}}), FaultClass::kLayout);
  expect(Finding(Kind::kFault).fault(ATTN_REPORT_ALIGNMENT, "address not aligned to 16"), FaultClass::kLayout);
}

TEST(FaultClass, MaskSemantics) {
  Finding causal(Kind::kWrong);
  causal.c.problem.causal = true;
  causal.c.problem.align = ATTN_BOTTOM_RIGHT;
  causal.v.shapes = {{"holds the result of row i + 1", ShapeKind::kOtherRow}};
  expect(causal.lengths(1, 3).need({at_least("seq_k", 3), {.part = "causal"}}), FaultClass::kMask);
  Finding window(Kind::kWrong);
  window.c.problem.window_left = 1;
  expect(window.lengths(3, 3).need({at_least("window_left", 1), at_least("seq_q", 3)}), FaultClass::kMask);
}

TEST(FaultClass, Races) {
  expect(Finding(Kind::kFault).fault(ATTN_REPORT_DEADLOCK, "every thread waits"), FaultClass::kRace);
  expect(Finding(Kind::kFault).fault(ATTN_REPORT_RACE, "a race on shared memory"), FaultClass::kRace);
  expect(Finding(Kind::kFault).fault(ATTN_REPORT_DISAGREEMENT, "lane 1 holds 1.5"), FaultClass::kRace);
  Finding schedule(Kind::kWrong);
  schedule.c.env.schedule_seed = 3;
  expect(schedule.lengths(1, 65).need({at_least("seq_k", 65), {.part = "the schedule"}}), FaultClass::kRace);
  Finding hang(Kind::kHang);
  hang.v.where.reset();
  expect(hang, FaultClass::kRace);
}

TEST(FaultClass, GroupsAndHeadDims) {
  Finding gqa(Kind::kWrong);
  gqa.c.problem.heads_q = 4;
  gqa.c.problem.heads_kv = 2;
  gqa.v.shapes = {{"holds the result of head 1", ShapeKind::kOtherHead}};
  expect(gqa.need({at_least("heads_q / heads_kv", 2), at_least("heads_kv", 2)}), FaultClass::kDispatch);
  Finding dims(Kind::kWrong);
  dims.c.problem.dim_v = 65;
  dims.v.shapes = {{"columns >= 64 only", ShapeKind::kColumnsFrom}};
  expect(dims.need({at_least("dim_v", 65)}), FaultClass::kDispatch);
}

// The last columns of a large head dim are not stored, and smaller head dims do not show it.
TEST(FaultClass, UnwrittenColumns) {
  Finding f(Kind::kUnwritten);
  f.c.problem.dim_qk = f.c.problem.dim_v = 192;
  expect(f.need({at_least("dim_qk", 192)}), FaultClass::kDispatch);
}

// If the case passes when all splits have keys, the empty split is at fault. If each split is right, the merge
// is.
TEST(FaultClass, EmptySplitsAndMerges) {
  Finding empty(Kind::kNonFinite);
  empty.c.problem.num_splits = 2;
  empty.lengths(1, 1).need({at_least("num_splits", 2)});
  expect(empty, FaultClass::kSplit);
  empty.clues.full_splits = Clues::Answer::kPasses;
  expect(empty, FaultClass::kZeroLength);
  Finding merged(Kind::kWrong);
  merged.v.plan.num_splits = 55;
  merged.lengths(1, 4096).need({at_least("seq_k", 4096)});
  merged.clues.probed = Clues::Probed::kAllRight;
  expect(merged, FaultClass::kSplit);
  merged.v.plan.num_splits = 1;
  expect(merged, FaultClass::kSoftmax);
}

// For a kernel without probes, the class follows from the values that the failure needs.
TEST(FaultClass, NeededValuesAreEvidence) {
  const auto other = [](const char* part) { return Need{.part = part, .relation = Relation::kOtherThan}; };
  Finding scores(Kind::kWrong);
  scores.lengths(2, 2).need({at_least("seq_k", 2), other("values of q"), other("values of k")});
  scores.c.k.kind = FillKind::kOneHot;
  scores.v.where->expected = 0.5;
  scores.v.where->got = 0.88;
  expect(scores, FaultClass::kUnknown);
  scores.c.v.kind = FillKind::kOneHot;
  scores.need({other("values of v")});
  expect(scores, FaultClass::kLayout);
  scores.v.where->got = 0.501;
  expect(scores, FaultClass::kNumerics);
  // The failure needs keys of a second tile, and a K that is neither zero nor constant.
  scores.lengths(1, 65);
  scores.v.where->got = 0.88;
  expect(scores, FaultClass::kSoftmax);

  Finding values(Kind::kWrong);
  values.lengths(1, 17).need({at_least("seq_k", 17), other("values of v")});
  values.c.q.kind = values.c.k.kind = FillKind::kZero;
  values.c.v.kind = FillKind::kPosition;
  values.v.where->expected = 5.7;
  values.v.where->got = 5.2;
  expect(values, FaultClass::kLayout);
  values.c.v.kind = FillKind::kConstant;
  expect(values, FaultClass::kUnknown);
}

TEST(FaultClass, ACausalMaskThatHidesNothingAndGivesNaN) {
  Finding f(Kind::kNonFinite);
  f.c.problem.causal = true;
  f.v.where->expected = 0;
  expect(f.lengths(1, 1).need({{.part = "causal"}}), FaultClass::kMask);
}

TEST(FaultClass, AProductOfSizes) {
  Finding f(Kind::kWrong);
  f.lengths(1, 4097).need({at_least("seq_k", 4097)});
  expect(f, FaultClass::kUnknown);
  f.clues.product_border = 4096 * 128;
  expect(f, FaultClass::kOverflow);
}

// The kernel takes a full last tile for an empty one.
TEST(FaultClass, AFullLastTile) {
  Finding f(Kind::kWrong);
  f.lengths(1, 64).need({{.part = "seq_k", .relation = Relation::kRemainder, .value = 64, .period = 64}});
  f.clues.whole_tiles = Clues::Answer::kFails;
  expect(f, FaultClass::kTail);
}

TEST(FaultClass, SplitsAndLse) {
  Finding split(Kind::kWrong);
  split.c.problem.num_splits = 2;
  expect(split.lengths(1, 2).need({at_least("seq_k", 2), at_least("num_splits", 2)}), FaultClass::kSplit);
  Finding lse(Kind::kWrong);
  lse.v.where->tensor = TensorId::kLse;
  expect(lse.need({at_least("seq_q", 1)}), FaultClass::kSplit);
}

TEST(FaultClass, AnLseThatCountsKeys) {
  Finding tail(Kind::kWrong);
  tail.v.where->tensor = TensorId::kLse;
  tail.c.q.kind = tail.c.v.kind = FillKind::kZero;
  tail.v.where->got = 4.158883;
  expect(tail.lengths(1, 3).need({at_least("seq_k", 1)}), FaultClass::kTail);
  Finding one_more = tail;
  one_more.v.where->got = 1.3862944;
  one_more.v.where->expected = 1.0986123;
  expect(one_more, FaultClass::kSoftmax);
}

TEST(FaultClass, FreedMemoryIsState) {
  expect(Finding(Kind::kFault)
             .fault(ATTN_REPORT_ADDRESS, "AddressSanitizer: heap-use-after-free", Fault::Detail::kFreed),
         FaultClass::kState);
  expect(Finding(Kind::kFault).fault(ATTN_REPORT_ADDRESS, "AddressSanitizer: heap-buffer-overflow"),
         FaultClass::kTail);
}

// CUDA's errors and what host code throws arrive as one kind of report.
TEST(FaultClass, AnErrorOfTheHostIsNoAddress) {
  const auto device = [](const char* message) {
    return Finding(Kind::kFault).fault(ATTN_REPORT_DEVICE, message).lengths(1, 4).need({at_least("seq_k", 4)});
  };
  expect(device("run(): an illegal memory access was encountered"), FaultClass::kTail);
  expect(device("raised AcceleratorError: CUDA error: an illegal memory access was encountered"),
         FaultClass::kTail);
  expect(device("launch: cudaErrorMisalignedAddress (misaligned address)"), FaultClass::kLayout);
  for (const char* thrown :
       {"raised ValueError: no such head dimension (mine.py:4)", "it threw: bad optional access"}) {
    Finding f = device(thrown);
    expect(f, FaultClass::kUnknown);
    f.build_kind = "tsan";
    expect(f, FaultClass::kUnknown);
  }
}

// The text of an exception says enough, so there is no guess, whatever the case needs.
TEST(FaultClass, AnExceptionGetsNoGuess) {
  for (const char* thrown :
       {"raised ValueError: unsupported head dim (mine.py:4)", "it threw: unsupported head dim"}) {
    Finding f(Kind::kFault);
    f.c.problem.dim_v = 65;
    f.fault(ATTN_REPORT_DEVICE, thrown).lengths(0, 1).need({at_least("dim_v", 65), exactly("seq_q", 0)});
    f.c.layout[1].spread = 8;
    f.need({{.part = "the layout of k"}});
    expect(f, FaultClass::kUnknown);
  }
  Finding aborted(Kind::kCrash);
  aborted.v.where.reset();
  aborted.v.message = "the worker died: SIGABRT in run()";
  expect(aborted, FaultClass::kTail);
  aborted.v.message += "\nit printed: terminate called after throwing an instance of 'std::runtime_error'";
  expect(aborted, FaultClass::kUnknown);
}

// If the kernel takes no smaller head dim than 64, 64 is no threshold.
TEST(FaultClass, TheSmallestSizeThatAKernelTakesIsNoNeed) {
  Finding f(Kind::kCrash);
  f.v.where.reset();
  f.lengths(1, 2176).need({at_least("seq_k", 2176), at_least("dim_qk", 64)});
  expect(f, FaultClass::kDispatch);
  f.clues.domain.emplace().dim_qk = {.least = 0, .most = 0, .multiple = 0, .count = 2, .list = {64, 128}};
  expect(f, FaultClass::kTail);
  f.needs.back() = at_least("dim_qk", 128);
  expect(f, FaultClass::kDispatch);
}

// A full last tile passes and other partly filled ones fail, so it is the tail, though the case needs a layout.
TEST(FaultClass, TheTailIsTriedByOtherLengths) {
  Finding f(Kind::kNonFinite);
  f.lengths(1, 5).need({at_least("seq_k", 1), {.part = "the layout of v"}});
  f.c.layout[2].row_gap = 8;
  expect(f, FaultClass::kLayout);
  f.clues.whole_tiles = Clues::Answer::kPasses;
  expect(f, FaultClass::kLayout);
  f.clues.other_tail = Clues::Answer::kFails;
  expect(f, FaultClass::kTail);
  f.v.kind = Kind::kRedzone;
  expect(f, FaultClass::kTail);
  f.v.kind = Kind::kWrong;
  expect(f, FaultClass::kTail);
  // The case needs no layout, and more than one query.
  f.needs = {at_least("seq_k", 1), at_least("seq_q", 2)};
  expect(f, FaultClass::kTail);
}

// A bug of an empty split needs a length, but fails with full tiles as well.
TEST(FaultClass, ALengthThatFailsWithFullTilesIsNoTail) {
  Finding f(Kind::kNonFinite);
  f.lengths(1, 769).need({at_least("seq_k", 769)});
  expect(f, FaultClass::kTail);
  f.clues.whole_tiles = Clues::Answer::kFails;
  expect(f, FaultClass::kUnknown);
  f.clues.whole_tiles = Clues::Answer::kPasses;
  f.clues.other_tail = Clues::Answer::kPasses;
  expect(f, FaultClass::kUnknown);
}

// The executor's own order fails each time, and no random one does.
TEST(FaultClass, OneOrderOfThreadsIsARace) {
  Finding f(Kind::kWrong);
  f.lengths(1, 33).need({at_least("seq_k", 33)});
  f.clues.whole_tiles = Clues::Answer::kPasses;
  expect(f, FaultClass::kTail);
  f.clues.orders = f.clues.orders_failed = 4;
  expect(f, FaultClass::kTail);
  f.clues.orders_failed = 0;
  expect(f, FaultClass::kRace);
  EXPECT_NE(f.guess().why.find("none of 4 random ones; --build tsan"), std::string::npos) << f.guess().why;
  f.clues.orders_failed = 3;
  expect(f, FaultClass::kRace);
}

// The guess names the wrong reading of the problem, and the field that declares it.
TEST(FaultClass, NamesTheReading) {
  Finding f(Kind::kWrong);
  f.clues.traced = FaultClass::kMask;
  f.clues.traced_as = "the diagonal were top-left";
  expect(f, FaultClass::kMask);
  EXPECT_NE(f.guess().why.find("if the diagonal were top-left"), std::string::npos) << f.guess().why;
  EXPECT_NE(f.guess().why.find("align=\"top_left\""), std::string::npos) << f.guess().why;
}

// With grouped heads or batch entries that are mixed up, splits only make the bug visible.
TEST(FaultClass, BatchEntriesAndGroupsAreMixedUp) {
  Finding f(Kind::kNonFinite);
  f.c.problem.num_splits = 2;
  f.need({at_least("num_splits", 2), at_least("batch", 2)});
  expect(f, FaultClass::kSplit);
  f.need({at_least("heads_q / heads_kv", 2)});
  expect(f, FaultClass::kLayout);
}

TEST(FaultClass, Numbers) {
  Finding softcap(Kind::kNonFinite);
  softcap.c.problem.softcap = 1;
  softcap.c.q.exponent = 8;
  expect(softcap.need({{.part = "softcap"}}), FaultClass::kNumerics);
  Finding huge(Kind::kNonFinite);
  huge.c.q.kind = huge.c.k.kind = FillKind::kHuge;
  expect(huge.need({{.part = "values of q"}}), FaultClass::kNumerics);
}

TEST(FaultClass, StateOfAnEarlierCall) {
  Finding dirty(Kind::kDirty);
  dirty.c.calls = {Call{}, Call{.dirty_workspace = true}};
  expect(dirty.need({{.part = "calls"}, {.part = "a dirty workspace"}}), FaultClass::kState);
}

TEST(FaultClass, WithoutReductionFeaturesCountForLess) {
  Finding f(Kind::kWrong);
  f.lengths(1, 8);
  f.c.problem.num_splits = 4;
  expect(f, FaultClass::kSplit);
  Finding none(Kind::kWrong);
  expect(none, FaultClass::kUnknown);
  EXPECT_EQ(none.guess().line(), "");
}

TEST(FaultClass, NamesASecondGuess) {
  Finding f(Kind::kWrong);
  f.c.problem.num_splits = 2;
  f.c.problem.causal = true;
  const FaultGuess guess = f.lengths(1, 3).need({at_least("num_splits", 2), {.part = "causal"}}).guess();
  EXPECT_EQ(guess.likely, FaultClass::kSplit);
  EXPECT_EQ(guess.also, FaultClass::kMask);
  EXPECT_NE(guess.line().find("could also be meaning of a mask or window"), std::string::npos) << guess.line();
  EXPECT_NE(guess.text().find("look at: "), std::string::npos);
}

TEST(FaultClass, TheTraceIsEvidence) {
  Finding f(Kind::kWrong);
  f.need({at_least("seq_k", 2)});
  const FaultQuestion question = {f.c, f.v, f.needs, "plain", {.traced = FaultClass::kDispatch}};
  EXPECT_EQ(guess_fault(question).likely, FaultClass::kDispatch);
}

// With one query, one key and zeros only the results of further runs tell these classes apart.
TEST(FaultClass, FurtherRunsAreEvidence) {
  const auto lse_missing = [] {
    Finding f(Kind::kWrong);
    f.v.where->tensor = TensorId::kLse;
    f.c.q.kind = f.c.v.kind = FillKind::kZero;
    f.v.where->got = -INFINITY;
    f.v.where->expected = 0;
    return f.lengths(1, 1).need({at_least("seq_q", 1), at_least("seq_k", 1)});
  };
  expect(lse_missing(), FaultClass::kUnknown);
  Finding tail = lse_missing();
  tail.clues.whole_tiles = Clues::Answer::kPasses;
  expect(tail, FaultClass::kTail);
  Finding sum = lse_missing();
  sum.clues.whole_tiles = Clues::Answer::kFails;
  sum.clues.probed = Clues::Probed::kAllRight;
  expect(sum, FaultClass::kSoftmax);
  Finding workspace = lse_missing();
  workspace.clues.zeroed = Clues::Answer::kPasses;
  expect(workspace, FaultClass::kState);
  Finding cache = lse_missing();
  cache.clues.alone = Clues::Answer::kPasses;
  expect(cache, FaultClass::kState);
  Finding broadcast = lse_missing();
  broadcast.clues.stored_whole = Clues::Answer::kPasses;
  expect(broadcast, FaultClass::kLayout);
}

TEST(FaultClass, TheFirstWrongIntermediate) {
  const auto first = [](attn_probe_tag tag, double off) {
    Finding f(Kind::kWrong);
    f.clues.probed = Clues::Probed::kFirstWrong;
    f.clues.first_wrong = tag;
    f.clues.off = off;
    return f;
  };
  expect(first(ATTN_PROBE_S, 0x1p-12).lengths(1, 1), FaultClass::kNumerics);
  expect(first(ATTN_PROBE_O, 0.5).lengths(1, 9).need({at_least("seq_k", 9)}), FaultClass::kLayout);
  // The first tile can only depend on the second if they share memory by mistake.
  expect(first(ATTN_PROBE_O, 0.5).lengths(1, 65).need({at_least("seq_k", 65)}), FaultClass::kRace);
  // Rounding would have shown in one tile.
  Finding rescaled = first(ATTN_PROBE_O, 0x1p-9);
  rescaled.c.q.kind = FillKind::kPosition;
  rescaled.clues.first_wrong_tile = 1;
  rescaled.need({{.part = "values of q"}});
  expect(rescaled, FaultClass::kNumerics);
  expect(rescaled.lengths(9, 65).need({at_least("seq_k", 65)}), FaultClass::kSoftmax);
  // A wrong set of keys would have shown in the scores.
  Finding window = first(ATTN_PROBE_O, 0.5);
  window.c.problem.window_right = 63;
  window.clues.first_wrong_tile = 1;
  expect(window.lengths(2, 65).need({at_least("seq_k", 65), exactly("window_right", 63)}),
         FaultClass::kUnknown);
}

// A need of one batch entry, or of a row of one vector, is not a need of a second one or of another
// instantiation.
TEST(FaultClass, TheValueOfANeedCounts) {
  Finding one(Kind::kWrong);
  expect(one.need({exactly("batch", 1)}), FaultClass::kUnknown);
  Finding vector(Kind::kWrong);
  vector.c.problem.dim_v = 8;
  expect(vector.need({at_least("dim_v", 8)}), FaultClass::kUnknown);
  vector.v.kind = Kind::kNonFinite;
  expect(vector, FaultClass::kRace);
  Finding past(Kind::kFault);
  past.c.problem.dim_v = 65;
  expect(past.fault(ATTN_REPORT_DIVERGENCE, "an extent of 80").need({at_least("dim_v", 65)}),
         FaultClass::kDispatch);
}

TEST(FaultClass, ADivisionByZeroAndARunThatDisagreesWithItsPlan) {
  Finding division(Kind::kCrash);
  division.v.exit_reason = ExitReason::kArithmetic;
  expect(division, FaultClass::kDispatch);
  Finding refusal(Kind::kRefusal);
  refusal.v.plan.size = sizeof(attn_plan);
  expect(refusal, FaultClass::kDispatch);
  EXPECT_NE(refusal.guess().why.find("run()"), std::string::npos);
}

// If the kernel refuses problems without a feature, the need of that feature says nothing about the failure.
TEST(FaultClass, ARefusalIsNoEvidence) {
  Finding f(Kind::kWrong);
  f.need({{.part = "causal", .refused = true}, {.part = "bf16", .refused = true}});
  expect(f, FaultClass::kUnknown);
}

TEST(FaultClass, OtherBitsAreNumerics) {
  Finding f(Kind::kRelation);
  f.v.property = "bit_exact";
  f.c.env.arithmetic = ATTN_ARITHMETIC_H200;
  expect(f, FaultClass::kNumerics);
  f.c.env.arithmetic = ATTN_ARITHMETIC_ANY;
  expect(f, FaultClass::kUnknown);
  Finding hardly(Kind::kWrong);
  hardly.c.env.arithmetic = ATTN_ARITHMETIC_H200;
  hardly.v.worst = 1.5;
  expect(hardly, FaultClass::kNumerics);
  hardly.v.worst = 15;
  expect(hardly, FaultClass::kUnknown);
}

TEST(FaultClass, APassHasNone) { EXPECT_EQ(guess_fault({Case{}, Verdict{}, {}}).likely, FaultClass::kUnknown); }

TEST(FaultClass, EveryClassSaysWhereToLook) {
  for (int i = 0; i < kFaultClasses; ++i) {
    const auto fault = static_cast<FaultClass>(i);
    EXPECT_GT(std::string(where_to_look(fault)).size(), 20u);
    EXPECT_EQ(std::string(to_string(fault)) == "unknown", i == 0);
  }
}

// A bias of a single score can only be added wrongly. A bias of zeros has the same effect before and after a
// cap.
TEST(FaultClass, ABiasOfOneScoreOrOfZeros) {
  Finding one(Kind::kWrong);
  one.c.problem.bias.emplace().kind = BiasKind::kRowConstant;
  one.need({{.part = "bias"}});
  expect(one, FaultClass::kNumerics);
  Finding many = one;
  expect(many.lengths(2, 2), FaultClass::kMask);

  one.c.problem.softcap = 1;
  one.need({{.part = "softcap"}});
  expect(one, FaultClass::kMask);
  one.c.problem.bias->kind = BiasKind::kZero;
  expect(one, FaultClass::kNumerics);
}

}  // namespace
}  // namespace attnfuzz
