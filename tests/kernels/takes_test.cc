// Tests the refusals that follow from an adapter's declaration (Takes), and a fixed scale of the kernel.
#include "kernels/cuda_source/adapter/takes.h"

#include <gtest/gtest.h>

namespace attn {
namespace {

Call call_of(int64_t seq, int64_t dim, float scale) {
  Call call = {};
  attn_problem& p = call.problem;
  p.dtype = ATTN_F16, p.bias_dtype = ATTN_NONE;
  p.batch = 1, p.heads_q = p.heads_kv = 1, p.seq_q = p.seq_k = seq, p.dim_qk = p.dim_v = dim;
  p.scale = scale, p.window_left = p.window_right = -1;
  return call;
}

TEST(Takes, AnOwnScaleIsTheUsualOneOrANumber) {
  constexpr Takes usual = {.scale = Scale::kOwn}, scaled = {.scale = 1.0};
  static_assert(scaled.scale == Scale::kOwn && scaled.domain().usual_scale == 1);
  const Call call = call_of(16, 64, 0.125f);
  EXPECT_EQ(usual.scale.own(call.problem), 0.125f);
  EXPECT_EQ(scaled.scale.own(call.problem), 1.0f);
  EXPECT_EQ(refusal(scaled, call), "");
}

TEST(Takes, OnlyAKernelWhoseCallHasAWindowTakesOne) {
  Call call = call_of(16, 64, 1);
  EXPECT_EQ(refusal(Takes{}, call), "");
  call.problem.window_left = 3;
  EXPECT_EQ(refusal(Takes{}, call), "a window");
  EXPECT_EQ(refusal(Takes{.window = Window::kGiven}, call), "");
}

TEST(Takes, AnIntegerIsASizeThatStandsForItself) {
  constexpr Takes takes = {.dim = 64, .batch = 1};
  static_assert(takes.dim == one_of(64) && takes.batch == one_of(1));
  EXPECT_EQ(refusal(takes, call_of(16, 64, 1)), "");
  EXPECT_EQ(refusal(takes, call_of(16, 32, 1)), "a head dimension of 32: it takes 64");
}

TEST(Takes, KnowsStatementsThatMeanNothing) {
  static_assert(Takes{}.has_tile() && !Takes{.tile = 0}.has_tile());
  static_assert(Takes{.align_bytes = 32}.has_alignment() && !Takes{.align_bytes = 24}.has_alignment() &&
                !Takes{.align_bytes = 0}.has_alignment());
  static_assert(!Takes{.dim_v = 32}.uses_dim_v() && Takes{.dim_v = 32, .equal_dims = false}.uses_dim_v());
  static_assert(Takes{.seq_k = 9}.uses_seq_k() && !Takes{.seq_k = 9, .equal_lengths = true}.uses_seq_k());
}

// flash-attention calls a causal mask a window with nothing to the right.
TEST(Takes, AWindowHasTheDeclaredAlignment) {
  constexpr Takes takes = {.align = ATTN_BOTTOM_RIGHT, .window = Window::kGiven};
  static_assert(takes.domain().align == 1 + ATTN_BOTTOM_RIGHT);
  static_assert(Takes{.align = ATTN_BOTTOM_RIGHT}.domain().align == 0);
  Call call = call_of(16, 64, 1);
  call.problem.window_right = 0;
  EXPECT_EQ(refusal(takes, call), "") << "equal lengths";
  call.problem.seq_k = 20;
  EXPECT_EQ(refusal(takes, call), "a window aligned top-left");
  EXPECT_EQ(refusal(Takes{.window = Window::kGiven}, call), "");
  call.problem.align = ATTN_BOTTOM_RIGHT;
  EXPECT_EQ(refusal(takes, call), "");
  EXPECT_EQ(refusal(Takes{.window = Window::kGiven}, call), "a window aligned bottom-right");
  call.problem.window_right = -1;
  EXPECT_EQ(refusal(Takes{.window = Window::kGiven}, call), "");
}

// A batch entry may have fewer keys than seq_k, as it may if it is packed.
TEST(Takes, KeyLengthsMakeTheAlignmentMatter) {
  Call call = call_of(16, 64, 1);
  call.problem.has_key_lengths = 1;
  call.problem.causal = 1;
  Takes takes = {
      .causal = Causal::kEither, .align = ATTN_BOTTOM_RIGHT, .slopes = Slopes::kOfHeads, .page = kAnyPage};
  EXPECT_EQ(refusal(takes, call), "causal aligned top-left");
  call.problem.align = ATTN_BOTTOM_RIGHT;
  EXPECT_EQ(refusal(takes, call), "");
  takes.align = ATTN_TOP_LEFT;
  EXPECT_EQ(refusal(takes, call), "causal aligned bottom-right");
  call.problem.causal = 0;
  EXPECT_EQ(refusal(takes, call), "");
  call.problem.has_alibi = 1;
  EXPECT_EQ(refusal(takes, call), "slopes aligned bottom-right");
  call.problem.has_key_lengths = 0;
  EXPECT_EQ(refusal(takes, call), "") << "equal lengths";
}

}  // namespace
}  // namespace attn
