// Tests the places of a laid-out case's bytes, and that they hold the recipe's values.
#include "properties/memory/layout.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <set>

#include "properties/case/codec/codec.h"
#include "properties/case/features/shrink_toggles.h"
#include "properties/data/recipe.h"
#include "properties/draw/generator.h"
#include "reference/numbers/formats.h"
#include "tests/properties/memory/layout_support.h"
#include "tests/properties/memory/resident_bytes.h"

namespace attnfuzz {
namespace {

// Expects that every element of every input has the recipe's value.
void expect_inputs(const LaidOut& laid, const Case& c) {
  for (TensorId t : {TensorId::kQ, TensorId::kK, TensorId::kV, TensorId::kBias}) {
    if (!is_present(c, t)) continue;
    const int32_t dtype = t == TensorId::kBias ? c.problem.bias->dtype : c.problem.dtype;
    for_each_element(c.problem, t, [&](int64_t b, int64_t h, int64_t s, int64_t d) {
      const double got = decode(dtype, element(laid, c.problem, t, b, h, s, d), 0);
      const double due = value_at(c, t, b, h, s, d);
      ASSERT_TRUE(got == due || (std::isnan(got) && std::isnan(due)))
          << kTensorNames[static_cast<size_t>(t)] << "(" << b << "," << h << "," << s << "," << d << ") is "
          << got << ", not " << due << "\n"
          << encode(c);
    });
  }
  if (c.problem.mask) {
    for_each_element(c.problem, TensorId::kMask, [&](int64_t b, int64_t h, int64_t i, int64_t j) {
      ASSERT_EQ(*element(laid, c.problem, TensorId::kMask, b, h, i, j) != std::byte{0}, mask_at(c, b, h, i, j));
    });
  }
  if (c.problem.key_lengths) {
    for (size_t b = 0; b < c.problem.key_lengths->size(); ++b) {
      EXPECT_EQ(laid.tensors().key_lengths[b], (*c.problem.key_lengths)[b]);
    }
  }
}

// A latent V is in K's memory, which is laid out and checked once.
TEST(Layout, ALatentVIsK) {
  Arena arena;
  Case c = small_case();
  c.problem.dim_qk = 12, c.problem.dim_v = 5;
  c.problem.latent = true;
  c.v = Fill{};
  c.layout[static_cast<size_t>(TensorId::kK)] = {.offset = 3, .row_gap = 2};
  tidy(c);
  ASSERT_EQ(illegal(c), std::nullopt);
  const LaidOut laid(c, arena);
  expect_inputs(laid, c);
  EXPECT_EQ(laid.tensors().v.data, laid.tensors().k.data);
  for (int n = 0; n < 4; ++n) EXPECT_EQ(laid.tensors().v.stride[n], laid.tensors().k.stride[n]);
  EXPECT_EQ(laid.problem().latent, 1);
  EXPECT_EQ(laid.problem().features & ATTN_FEATURE_LATENT, ATTN_FEATURE_LATENT);
  for (const MemoryRange& range : laid.ranges()) EXPECT_NE(range.tensor, TensorId::kV);
  for_each_element(c.problem, TensorId::kV, [&](int64_t b, int64_t h, int64_t s, int64_t d) {
    ASSERT_EQ(decode(c.problem.dtype, element(laid, c.problem, TensorId::kV, b, h, s, d), 0),
              value_at(c, TensorId::kK, b, h, s, d));
  });
}

// A write to a latent V is a write to K.
TEST(Layout, FindsAWrittenLatentV) {
  Case c = small_case();
  c.problem.latent = true;
  c.v = Fill{};
  tidy(c);
  const auto fault = after(c, [&](const LaidOut& laid) {
    write_outputs(laid, c);
    *element(laid, c.problem, TensorId::kV, 0, 0, 1, 0) ^= std::byte{1};
  });
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, MemoryFault::Kind::kInputChanged);
  EXPECT_EQ(fault->tensor, TensorId::kK);
}

TEST(Layout, FillsInputsByTheRecipe) {
  Arena arena;
  Case c = small_case();
  expect_inputs(LaidOut(c, arena), c);
  c.problem.dtype = ATTN_BF16;
  c.problem.bias->dtype = ATTN_F32;
  c.nan_beyond_lengths = true;
  c.planted = {{.tensor = TensorId::kV, .b = 1, .h = 1, .s = 6, .d = 2, .bits = 0x7f80},
               {.tensor = TensorId::kBias, .b = 1, .h = 0, .s = 4, .d = 6, .bits = 0x7fc00001}};
  ASSERT_EQ(illegal(c), std::nullopt);
  expect_inputs(LaidOut(c, arena), c);
  c.remap.key = {.multiply = -1, .add = 6, .modulus = 7};
  ASSERT_EQ(illegal(c), std::nullopt);
  expect_inputs(LaidOut(c, arena), c);
}

TEST(Layout, TheProblemHasTheFieldsOfTheCase) {
  Arena arena;
  Case c = small_case();
  c.problem.scale = -0.5f;
  c.problem.causal = true;
  c.problem.align = ATTN_BOTTOM_RIGHT;
  c.problem.window_left = 3;
  c.env.schedule_seed = 9;
  c.want_lse = false;
  const LaidOut laid(c, arena);
  EXPECT_EQ(laid.problem().size, sizeof(attn_problem));
  EXPECT_EQ(laid.problem().scale, -0.5f);
  EXPECT_EQ(laid.problem().causal, 1);
  EXPECT_EQ(laid.problem().align, ATTN_BOTTOM_RIGHT);
  EXPECT_EQ(laid.problem().window_left, 3);
  EXPECT_EQ(laid.problem().window_right, -1);
  EXPECT_EQ(laid.problem().bias_dtype, ATTN_F16);
  EXPECT_EQ(laid.problem().has_mask, 1);
  EXPECT_EQ(laid.problem().has_key_lengths, 1);
  EXPECT_EQ(laid.env().schedule_seed, 9u);
  EXPECT_EQ(laid.tensors().lse.data, nullptr);
  EXPECT_EQ(LaidOut(Case{}, arena).tensors().bias.data, nullptr);
  EXPECT_EQ(LaidOut(Case{}, arena).problem().bias_dtype, ATTN_NONE);
}

// No two elements share a byte, whatever the order and the gaps.
TEST(Layout, ElementsDoNotOverlap) {
  Arena arena;
  for (const std::array<uint8_t, 3>& order :
       {std::array<uint8_t, 3>{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {2, 1, 0}}) {
    for (int64_t gap : {0, 1, 13}) {
      Case c = small_case();
      for (TensorLayout& layout : c.layout) layout = {.order = order, .offset = 3, .row_gap = gap};
      const LaidOut laid(c, arena);
      expect_inputs(laid, c);
      for (TensorId t : {TensorId::kQ, TensorId::kV, TensorId::kO, TensorId::kLse}) {
        std::set<std::byte*> seen;
        for_each_element(c.problem, t, [&](int64_t b, int64_t h, int64_t s, int64_t d) {
          EXPECT_TRUE(seen.insert(element(laid, c.problem, t, b, h, s, d)).second);
        });
        // Dense except for the gaps.
        const int64_t rows = 2 * logical_size(c.problem, t)[1] * logical_size(c.problem, t)[2];
        const int64_t bytes = *seen.rbegin() - *seen.begin();
        const int64_t width = logical_size(c.problem, t)[3];
        EXPECT_EQ(bytes, (rows * (width + gap) - gap - 1) * element_bytes(c.problem, t));
        EXPECT_EQ(reinterpret_cast<uintptr_t>(*seen.begin()) % 256, 3u * element_bytes(c.problem, t));
      }
      // Outermost dimension has the largest stride.
      const attn_tensor& q = laid.tensors().q;
      EXPECT_GT(q.stride[order[0]], q.stride[order[1]]);
      EXPECT_GT(q.stride[order[1]], q.stride[order[2]]);
    }
  }
}

TEST(Layout, BroadcastIsStrideZeroAndUnitStridesAreJunk) {
  Arena arena;
  Case c = small_case();
  c.problem.batch = 1;
  c.problem.key_lengths.reset();
  for (TensorLayout& layout : c.layout) layout.junk_unit_strides = true;
  const LaidOut laid(c, arena);
  EXPECT_GT(laid.tensors().q.stride[0], int64_t{1} << 32);
  EXPECT_EQ(laid.tensors().q.stride[1], 5 * 6);
  EXPECT_GT(laid.tensors().lse.stride[3], int64_t{1} << 32);
  EXPECT_EQ(laid.tensors().bias.stride[1], 0);
  EXPECT_EQ(laid.tensors().mask.stride[3], 1);
  expect_inputs(laid, c);
}

TEST(Layout, PageEndIsTheLastByteOfTheSlot) {
  Arena arena;
  Case c = small_case();
  for (TensorLayout& layout : c.layout) layout = {.offset = 5, .row_gap = 3, .placement = Placement::kPageEnd};
  LaidOut laid(c, arena);
  for (TensorId t : {TensorId::kQ, TensorId::kK, TensorId::kV, TensorId::kO, TensorId::kLse, TensorId::kBias,
                     TensorId::kMask}) {
    const std::array<int64_t, 4> n = logical_size(c.problem, t);
    std::byte* last = element(laid, c.problem, t, n[0] - 1, n[1] - 1, n[2] - 1, n[3] - 1);
    EXPECT_EQ(last + element_bytes(c.problem, t), arena.slot_end(t)) << kTensorNames[static_cast<size_t>(t)];
  }
  laid.give_workspace(100, 32);
  auto* workspace = static_cast<std::byte*>(laid.tensors().workspace);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(workspace) % 32, 0u);
  EXPECT_EQ(arena.slot_end(TensorId::kWorkspace) - (workspace + 100), 28);
  laid.before_call({});
  write_outputs(laid, c);
  EXPECT_FALSE(laid.check_memory());
}

TEST(Layout, SpreadTensorsTouchFewPages) {
  Arena arena;
  Case c = small_case();
  for (TensorId t : {TensorId::kQ, TensorId::kK, TensorId::kO}) {
    c.layout[static_cast<size_t>(t)].spread = (int64_t{1} << 32) + 8;
  }
  ASSERT_EQ(illegal(c), std::nullopt);
  {
    LaidOut laid(c, arena);
    EXPECT_EQ(laid.tensors().k.stride[0], (int64_t{1} << 32) + 8);
    laid.give_workspace(64, 16);
    laid.before_call({});
    expect_inputs(laid, c);
    write_outputs(laid, c);
    EXPECT_FALSE(laid.check_memory());
    EXPECT_LT(resident_bytes(arena), 1 << 20);
    std::byte* o = element(laid, c.problem, TensorId::kO, 1, 0, 0, 0);
    o[-1] = std::byte{1};
    const auto fault = laid.check_memory();
    ASSERT_TRUE(fault);
    EXPECT_EQ(fault->kind, MemoryFault::Kind::kGap);
  }
  // The pages are given back, so that a long run of such cases does not fill the memory.
  c.layout = {};
  LaidOut laid(c, arena);
  EXPECT_LT(resident_bytes(arena), 256 << 10);
}

TEST(Layout, ATensorThatDoesNotFitIsIllegal) {
  Case c = small_case();
  c.layout[0].spread = int64_t{1} << 34;  // 2 steps of 32 GiB
  ASSERT_TRUE(illegal(c));
  EXPECT_NE(illegal(c)->find("layout.q"), std::string::npos) << *illegal(c);
  c = Case{};
  c.problem.seq_q = c.problem.seq_k = int64_t{1} << 30;
  c.problem.dim_qk = 256;
  EXPECT_TRUE(illegal(c));
  c = Case{};
  c.problem.batch = c.problem.heads_q = c.problem.heads_kv = int64_t{1} << 31;
  c.problem.seq_q = c.problem.seq_k = 0;
  EXPECT_TRUE(illegal(c)) << "loops over batches and heads would not end";
}

TEST(Layout, OutputsAreReadInIndexOrder) {
  Arena arena;
  for (int32_t dtype : {ATTN_F16, ATTN_BF16, ATTN_F32}) {
    Case c = small_case();
    c.problem.dtype = dtype;
    c.layout[static_cast<size_t>(TensorId::kO)] = {.order = {2, 1, 0}, .row_gap = 2};
    c.layout[static_cast<size_t>(TensorId::kLse)] = {.order = {1, 2, 0}, .row_gap = 2};
    LaidOut laid(c, arena);
    laid.before_call({});
    float next = 0;
    for_each_element(c.problem, TensorId::kO, [&](int64_t b, int64_t h, int64_t s, int64_t d) {
      const uint32_t bits = bits_of(dtype, next++);
      std::memcpy(element(laid, c.problem, TensorId::kO, b, h, s, d), &bits, dtype == ATTN_F32 ? 4 : 2);
    });
    const std::vector<float> o = laid.read(TensorId::kO);
    ASSERT_EQ(o.size(), 2u * 4 * 5 * 3);
    for (size_t n = 0; n < o.size(); ++n) EXPECT_EQ(o[n], static_cast<float>(n));
    next = 0;
    for_each_element(c.problem, TensorId::kLse, [&](int64_t b, int64_t h, int64_t s, int64_t d) {
      std::memcpy(element(laid, c.problem, TensorId::kLse, b, h, s, d), &next, 4);
      next += 1;
    });
    const std::vector<float> lse = laid.read(TensorId::kLse);
    ASSERT_EQ(lse.size(), 2u * 4 * 5);
    for (size_t n = 0; n < lse.size(); ++n) EXPECT_EQ(lse[n], static_cast<float>(n));
  }
}

// Strided or transposed columns, or any dimension backwards, only move the same elements.
TEST(Layout, ElementsMayLieAnywhere) {
  Arena arena;
  const Case c = small_case();
  const auto plain = LaidOut(c, arena).digests();
  for (const TensorLayout& form : {TensorLayout{.step = 3},
                                   {.row_gap = 2, .step = 2},
                                   {.across = true},
                                   {.order = {1, 2, 0}, .row_gap = 1, .across = true},
                                   {.step = 2, .across = true},
                                   {.backwards = 4},
                                   {.order = {2, 0, 1}, .offset = 5, .backwards = 7},
                                   {.placement = Placement::kPageEnd, .step = 2, .backwards = 15},
                                   {.spread = 1 << 20, .backwards = 3}}) {
    Case moved = c;
    for (TensorLayout& layout : moved.layout) layout = form;
    ASSERT_EQ(illegal(moved), std::nullopt) << encode(moved);
    LaidOut laid(moved, arena);
    expect_inputs(laid, moved);
    EXPECT_EQ(laid.digests(), plain) << encode(moved);
    laid.before_call({});
    std::set<std::byte*> seen;
    float next = 0;
    for_each_element(moved.problem, TensorId::kO, [&](int64_t b, int64_t h, int64_t s, int64_t d) {
      std::byte* const at = element(laid, moved.problem, TensorId::kO, b, h, s, d);
      EXPECT_TRUE(seen.insert(at).second);
      const uint32_t bits = bits_of(ATTN_F16, next++);
      std::memcpy(at, &bits, 2);
    });
    const std::vector<float> o = laid.read(TensorId::kO);
    ASSERT_EQ(o.size(), seen.size());
    for (size_t n = 0; n < o.size(); ++n) EXPECT_EQ(o[n], static_cast<float>(n)) << encode(moved);
    const attn_tensor& q = laid.tensors().q;
    for (int n = 0; n < 4; ++n) EXPECT_EQ(q.stride[n] < 0, (form.backwards >> n & 1) != 0);
    EXPECT_EQ(std::abs(q.stride[3]) == 1, !form.across && form.step == 1);
  }
  Case far = c;
  far.layout[0] = {.spread = 1 << 20, .step = 2};
  EXPECT_TRUE(illegal(far));
  tidy(far);
  EXPECT_EQ(illegal(far), std::nullopt);
}

// A dimension that is stored once has stride 0, and the values of index 0 for all indices.
TEST(Layout, ADimensionStoredOnceHasTheSameValuesForAll) {
  Arena arena;
  Case c = small_case();
  c.once = {.q = {.head = true}, .k = {.batch = true, .head = true}, .v = {.batch = true}};
  c.nan_beyond_lengths = true;
  c.planted = {{.tensor = TensorId::kV, .b = 1, .h = 1, .s = 6, .d = 2, .bits = 0x7c00}};
  EXPECT_TRUE(illegal(c)) << "planted where nothing is stored";
  tidy(c);
  ASSERT_EQ(illegal(c), std::nullopt);
  const LaidOut laid(c, arena);
  EXPECT_EQ(laid.tensors().q.stride[1], 0);
  EXPECT_NE(laid.tensors().q.stride[0], 0);
  EXPECT_EQ(laid.tensors().k.stride[0], 0);
  EXPECT_EQ(laid.tensors().k.stride[1], 0);
  EXPECT_EQ(laid.tensors().v.stride[0], 0);
  expect_inputs(laid, c);
  for (const int64_t b : {0, 1}) {
    // The lengths are 7 and 3. The keys of the longer entry are stored for both.
    EXPECT_EQ(value_at(c, TensorId::kK, b, b, 6, 1), value_at(c, TensorId::kK, 0, 0, 6, 1));
    EXPECT_FALSE(std::isnan(value_at(c, TensorId::kK, b, 0, 6, 1)));
    EXPECT_TRUE(std::isinf(value_at(c, TensorId::kV, b, 1, 6, 2)));
  }
  c.remap.batch = {.multiply = -1, .add = 1, .modulus = 2};
  c.planted.clear();
  const LaidOut turned(c, arena);
  expect_inputs(turned, c);
  EXPECT_EQ(turned.digests()[1], laid.digests()[1]) << "K is the same for all";
}

TEST(Layout, DigestsDependOnlyOnElements) {
  Arena arena;
  const Case c = small_case();
  const auto plain = LaidOut(c, arena).digests();
  Case moved = c;
  for (TensorLayout& layout : moved.layout) layout = {.order = {1, 2, 0}, .offset = 7, .row_gap = 3};
  EXPECT_EQ(LaidOut(moved, arena).digests(), plain);
  Case other = c;
  other.k.seed = 77;
  const auto digests = LaidOut(other, arena).digests();
  for (int n = 0; n < kTensorCount; ++n) EXPECT_EQ(digests[n] == plain[n], n != 1 || plain[n] == 0) << n;
  EXPECT_EQ(plain[static_cast<size_t>(TensorId::kO)], 0u);
  EXPECT_NE(plain[static_cast<size_t>(TensorId::kMask)], 0u);
  EXPECT_EQ(LaidOut(Case{}, arena).digests()[static_cast<size_t>(TensorId::kMask)], 0u);
}

// All cases use one arena, as in a worker: the bytes of one case must not reach the next.
TEST(Layout, DrawnCasesAreLaidOutByTheirRecipe) {
  Arena arena;
  for (uint64_t n = 0; n < 400; ++n) {
    const Case c = draw(GeneratorConfig{.variants = 2, .splits = true, .work = 20'000}, 11, n);
    LaidOut laid(c, arena);
    laid.give_workspace(n, 16);
    for (const Call& call : c.calls) {
      laid.before_call(call);
      write_outputs(laid, c);
      const auto fault = laid.check_memory();
      ASSERT_FALSE(fault) << fault->message << "\n" << encode(c);
    }
    expect_inputs(laid, c);
  }
  EXPECT_LT(resident_bytes(arena), 64 << 20);
}

TEST(Layout, IsFast) {
  Arena arena;
  Case c;
  c.problem.seq_q = c.problem.seq_k = 65;
  c.problem.dim_qk = c.problem.dim_v = 64;
  c.q = c.k = c.v = {.kind = FillKind::kGaussian, .seed = 1};
  double best = 1e9;
  for (int round = 0; round < 50; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    LaidOut laid(c, arena);
    laid.give_workspace(0, 16);
    laid.before_call({});
    std::memset(laid.tensors().o.data, 0, 65 * 64 * 2);
    std::memset(laid.tensors().lse.data, 0, 65 * 4);
    EXPECT_FALSE(laid.check_memory());
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    best = std::min(best, took.count());
  }
  RecordProperty("lay_out_and_check_us", std::to_string(best));
  EXPECT_LT(best, 200) << "50 us on a quiet machine";
}

}  // namespace
}  // namespace attnfuzz
