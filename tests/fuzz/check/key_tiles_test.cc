// Tests that an output shows the kernel's key tiles.
#include "fuzz/check/key_tiles.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "reference/numbers/formats.h"
#include "tests/properties/support/fake_target.h"

namespace attnfuzz {
namespace {

// Attention row by row and tile by tile, with a running maximum.
class OnlineTarget : public FakeTarget {
 public:
  int64_t said = 64, tile = 64;
  bool descending = false, wide_p = false, whole_maximum = false, fails = false, plan_dies = false;
  attn_status answer = ATTN_OK;

  PlanReply plan(const attn_problem& problem, const attn_tensors& tensors, const attn_env& env) override {
    PlanReply reply = FakeTarget::plan(problem, tensors, env);
    if (answer != ATTN_OK) reply.status = answer, reply.reason = "not this one";
    if (plan_dies) reply.status = ATTN_FAULT, reply.crash = "SIGBUS";
    reply.plan.tile_q = reply.plan.tile_k = said;
    return reply;
  }
  RunReply run(Stage, const attn_problem& p, const attn_tensors& t, const attn_plan&, const attn_env&,
               int) override {
    ++runs;
    RunReply reply;
    if (fails) reply.status = ATTN_FAULT, reply.crash = "SIGSEGV";
    if (p.seq_q > 0) row(p, t, p.seq_q - 1);  // show_key_tiles() reads only the last row
    return reply;
  }
  int runs = 0;

 private:
  static float at(const attn_tensor& t, int64_t row, int64_t column) {
    return static_cast<float>(decode(ATTN_F16, t.data, row * t.stride[2] + column * t.stride[3]));
  }
  static float rounded(float x) {
    const uint16_t bits = encode16(ATTN_F16, x);
    return static_cast<float>(decode(ATTN_F16, &bits, 0));
  }
  void row(const attn_problem& p, const attn_tensors& t, int64_t i) const {
    std::vector<float> x(static_cast<size_t>(p.seq_k)), o(static_cast<size_t>(p.dim_v));
    float all = -INFINITY, sum = 0;
    for (int64_t j = 0; j < p.seq_k; ++j) {
      float dot = 0;
      for (int64_t d = 0; d < p.dim_qk; ++d) dot += at(t.q, i, d) * at(t.k, j, d);
      x[static_cast<size_t>(j)] = dot * p.scale;
      all = std::max(all, dot * p.scale);
    }
    float max = whole_maximum ? all : -INFINITY;
    const int64_t tiles = (p.seq_k + tile - 1) / tile;
    for (int64_t n = 0; n < tiles; ++n) {
      const int64_t first = (descending ? tiles - 1 - n : n) * tile, last = std::min(p.seq_k, first + tile);
      float next = max;
      for (int64_t j = first; j < last; ++j) next = std::max(next, x[static_cast<size_t>(j)]);
      const float alpha = std::exp(max - next);
      max = next;
      sum *= alpha;
      for (float& value : o) value *= alpha;
      for (int64_t j = first; j < last; ++j) {
        const float weight = std::exp(x[static_cast<size_t>(j)] - max), w = wide_p ? weight : rounded(weight);
        sum += weight;
        for (int64_t d = 0; d < p.dim_v; ++d) o[static_cast<size_t>(d)] += w * at(t.v, j, d);
      }
    }
    for (int64_t d = 0; d < p.dim_v; ++d)
      static_cast<uint16_t*>(t.o.data)[i * t.o.stride[2] + d * t.o.stride[3]] =
          encode16(ATTN_F16, o[static_cast<size_t>(d)] / sum);
  }
};

TEST(KeyTiles, AreShownByAnOutput) {
  for (const int64_t tile : {1, 16, 32, 48, 64, 128}) {
    for (const bool descending : {false, true}) {
      OnlineTarget target;
      target.tile = target.said = tile, target.descending = descending;
      const KeyTiles tiles = show_key_tiles(target, std::nullopt);
      EXPECT_EQ(tiles.shown, tile) << descending;
      EXPECT_FALSE(tiles.contradicted());
    }
  }
}

TEST(KeyTiles, ContradictAPlan) {
  OnlineTarget target;
  for (const int64_t said : {7, 48, 997, 4096 + 64 + 8}) {
    target.said = said;
    const KeyTiles tiles = show_key_tiles(target, std::nullopt);
    EXPECT_TRUE(tiles.contradicted()) << said;
    EXPECT_NE(words(tiles).find("WRONG of the keys: its output changes at multiples of 64"), std::string::npos);
  }
  // A plan may have another tile if one is a multiple of the other: a kernel may update the maximum more often
  // or less often than once a tile.
  for (const int64_t said : {16, 32, 128, 256}) {
    target.said = said;
    EXPECT_FALSE(show_key_tiles(target, std::nullopt).contradicted()) << said;
  }
}

TEST(KeyTiles, OfAPlanAreBelievedIfTheOutputShowsNone) {
  const auto shown = [](void (*change)(OnlineTarget&)) {
    OnlineTarget target;
    change(target);
    const KeyTiles tiles = show_key_tiles(target, std::nullopt);
    EXPECT_LE(target.runs, 10);
    return tiles;
  };
  const KeyTiles wide = shown([](OnlineTarget& t) { t.wide_p = true; });
  EXPECT_EQ(wide.shown, 0);
  EXPECT_EQ(words(wide), "tiles: 64 queries and 64 keys by plan(), believed: its output does not show them");
  EXPECT_EQ(shown([](OnlineTarget& t) { t.whole_maximum = true; }).shown, 0);
  EXPECT_EQ(shown([](OnlineTarget& t) { t.tile = 600; }).shown, 0);
  // A kernel that dies is not run again.
  OnlineTarget broken;
  broken.fails = true;
  const KeyTiles died = show_key_tiles(broken, std::nullopt);
  EXPECT_EQ(died.shown, 0);
  EXPECT_EQ(died.broken, "the worker died: SIGSEGV");
  EXPECT_EQ(words(died), "tiles: asked for them by a simple case, the worker died: SIGSEGV");
  EXPECT_EQ(broken.runs, 1);
  const KeyTiles refused = shown([](OnlineTarget& t) { t.answer = ATTN_UNSUPPORTED; });
  EXPECT_EQ(refused.keys, 0);
  EXPECT_EQ(refused.broken, "");
  EXPECT_EQ(shown([](OnlineTarget& t) { t.plan_dies = true; }).broken, "plan() died: SIGBUS");
  EXPECT_NE(words(refused).find(
                "believed: there is none for a simple one (the kernel refuses the case: not this one)"),
            std::string::npos);
}

// The domain has fewer columns, and as many queries as keys.
TEST(KeyTiles, AreShownInsideADomain) {
  attn_domain domain = {};
  domain.size = sizeof domain;
  domain.equal_lengths = 1;
  domain.usual_scale = 1;
  domain.dim_qk = domain.dim_v = {.least = 0, .most = 0, .multiple = 0, .count = 1, .list = {64}};
  OnlineTarget target;
  target.tile = target.said = 32;
  EXPECT_EQ(show_key_tiles(target, domain).shown, 32);
  domain.dtypes = 1u << ATTN_BF16;
  EXPECT_EQ(show_key_tiles(target, domain).shown, 0) << "bf16 has no such underflow";
}

}  // namespace
}  // namespace attnfuzz
