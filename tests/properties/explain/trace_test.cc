// Tests that wrong values are traced to their source: flaws of a plain kernel, each with
// the words that name it.
#include "properties/explain/trace.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/properties/support/fake_target.h"

namespace attnfuzz {
namespace {

std::string traced(Flaw flaw, const Case& c) {
  FakeTarget target(flaw);
  std::string text;
  for (const std::string& line : trace_values(c, target, documented()).lines) text += line + "\n";
  return text;
}

Case traced_example() {
  Case c;
  c.problem.batch = 2;
  c.problem.heads_q = 4;
  c.problem.heads_kv = 2;
  c.problem.seq_q = 5;
  c.problem.seq_k = 9;
  c.problem.dim_qk = 4;
  c.problem.dim_v = 3;
  c.problem.scale = 0.5f;
  c.q.kind = c.k.kind = FillKind::kGaussian;
  return c;
}

void expect(Flaw flaw, const Case& c, const std::string& words) {
  const std::string text = traced(flaw, c);
  EXPECT_NE(text.find(words), std::string::npos) << to_string(flaw) << ": " << text;
  EXPECT_EQ(traced(Flaw::kNone, c), "");
}

TEST(Trace, ARightKernelHasNothingToTrace) { EXPECT_EQ(traced(Flaw::kNone, traced_example()), ""); }

TEST(Trace, HeadsMisread) {
  expect(Flaw::kHeadMap, traced_example(), "if query head h read KV head h mod 2");
  // With one key the result is a single value of V.
  Case one = traced_example();
  one.problem.seq_k = 1;
  expect(Flaw::kHeadMap, one, "o(b=0,h=1,q=0,d=0) holds v(b=0,head=1,key=0,d=0), of another head");
}

// With two KV heads, "h mod 2" and "the KV head after" give the same values wherever the result is wrong, so
// both are printed.
TEST(Trace, EachReadingThatFitsIsNamed) {
  expect(Flaw::kHeadMap, traced_example(),
         "if query head h read KV head h mod 2, or if query heads read the KV head after their own");
}

TEST(Trace, MasksMisread) {
  Case window = traced_example();
  window.problem.window_left = 2;
  expect(Flaw::kWindowExclusive, window, "if window_left were 1 instead of 2");
  Case causal = traced_example();
  causal.problem.causal = true;
  causal.problem.align = ATTN_BOTTOM_RIGHT;
  expect(Flaw::kAlignIgnored, causal, "if the diagonal were top-left");
  Case mask = traced_example();
  mask.problem.mask.emplace().visible = {.kind = PatternKind::kRandom, .parameter = 4, .seed = 1};
  expect(Flaw::kMaskBroadcast, mask, "if the mask of head 0 were that of all heads");
  Case lengths = traced_example();
  lengths.problem.key_lengths = {9, 4};
  expect(Flaw::kLengthIgnored, lengths, "if key lengths were ignored");
}

TEST(Trace, ScoresAndKeys) {
  Case softcap = traced_example();
  softcap.problem.softcap = 1;
  softcap.q.exponent = 2;
  expect(Flaw::kSoftcapIgnored, softcap, "if the softcap were ignored");
  expect(Flaw::kDropsLastKey, traced_example(), "if the last visible key were missing");
}

TEST(Trace, ErrorsWithoutAReadingAreNotExplained) {
  // A slightly wrong scale gives nearly right values, and no reading fits.
  EXPECT_EQ(traced(Flaw::kScaleRounded,
                   [] {
                     Case c = traced_example();
                     c.problem.scale = 0.53f;
                     return c;
                   }()),
            "");
  EXPECT_EQ(traced(Flaw::kConstantAdded, traced_example()), "");
  EXPECT_EQ(traced(Flaw::kCrashes,
                   [] {
                     Case c = traced_example();
                     c.problem.seq_k = 17;
                     return c;
                   }()),
            "");
}

}  // namespace
}  // namespace attnfuzz
