// Tests that a case that cannot run is refused by name, before anything is allocated.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "properties/case/case.h"

namespace attnfuzz {
namespace {

Case legal_case() {
  Case c;
  c.problem.batch = 2;
  c.problem.heads_q = 4;
  c.problem.heads_kv = 2;
  c.problem.seq_q = c.problem.seq_k = 9;
  c.problem.dim_qk = c.problem.dim_v = 8;
  c.problem.bias = Bias{};
  c.problem.bias->broadcast.head = true;
  c.problem.mask = Mask{};
  c.problem.key_lengths = std::vector<int64_t>{9, -1};
  return c;
}

struct Spoilt {
  const char* message;  // a part of the refusal
  std::function<void(Case&)> spoil;
};

TEST(Illegal, NamesTheFieldAndItsLegalValues) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const Spoilt cases[] = {
      {"dtype is 3, must be f16 (0), bf16 (1) or f32 (2)", [](Case& c) { c.problem.dtype = 3; }},
      {"align is 2", [](Case& c) { c.problem.align = 2; }},
      {"scale is not finite", [](Case& c) { c.problem.scale = std::numeric_limits<float>::quiet_NaN(); }},
      {"scale is not finite", [](Case& c) { c.problem.scale = std::numeric_limits<float>::infinity(); }},
      {"softcap must be", [](Case& c) { c.problem.softcap = -1; }},
      {"batch is -1, must be 0..", [](Case& c) { c.problem.batch = -1; }},
      {"seq_k is 9223372036854775807", [=](Case& c) { c.problem.seq_k = kMost; }},
      {"dim_qk is 0, must be 1..1024", [](Case& c) { c.problem.dim_qk = 0; }},
      {"dim_v is 1025, must be 1..1024", [](Case& c) { c.problem.dim_v = 1025; }},
      {"v has values, but latent makes it K's first columns",
       [](Case& c) { c.problem.latent = true, c.v = Fill{.kind = FillKind::kZero}; }},
      {"dim_v is 3, must be 1..2", [](Case& c) { c.problem.latent = true, c.problem.dim_qk = 2, c.problem.dim_v = 3; }},
      {"planted[0].tensor is v, but the case has none",
       [](Case& c) { c.problem.latent = true, c.planted = {{.tensor = TensorId::kV, .bits = 0x7e00}}; }},
      {"heads_kv is 0, must be at least 1", [](Case& c) { c.problem.heads_kv = 0; }},
      {"heads_q is 5, must be a multiple of heads_kv, which is 2", [](Case& c) { c.problem.heads_q = 5; }},
      {"num_splits is -1", [](Case& c) { c.problem.num_splits = -1; }},
      {"key_lengths has 1 entries, batch is 2", [](Case& c) { c.problem.key_lengths->pop_back(); }},
      {"bias.dtype is -1", [](Case& c) { c.problem.bias->dtype = ATTN_NONE; }},
      {"bias.finite.parameter is 0", [](Case& c) { c.problem.bias->finite.parameter = 0; }},
      {"mask.visible.parameter is -3", [](Case& c) { c.problem.mask->visible.parameter = -3; }},
      {"k.version is 2", [](Case& c) { c.k.version = 2; }},
      {"v.exponent is 300", [](Case& c) { c.v.exponent = 300; }},
      {"env.sm_count is 0", [](Case& c) { c.env.sm_count = 0; }},
      {"env.variant is -1", [](Case& c) { c.env.variant = -1; }},
      {"number of calls is 0", [](Case& c) { c.calls.clear(); }},
      {"calls.stream is 2", [](Case& c) { c.calls[0].stream = 2; }},
      {"layout.o.order", [](Case& c) { c.layout[3].order = {0, 0, 2}; }},
      {"layout.q.offset is -1", [](Case& c) { c.layout[0].offset = -1; }},
      {"layout.v.row_gap", [=](Case& c) { c.layout[2].row_gap = kMost; }},
      {"layout.k.spread", [=](Case& c) { c.layout[1].spread = kMost; }},
      {"layout.k: the tensor does not fit 32 GiB", [](Case& c) { c.layout[1].spread = int64_t{1} << 34; }},
      {"touch more than", [](Case& c) { c.problem.seq_q = c.problem.seq_k = 1 << 14; }},
      {"remap.key.repeat is 0", [](Case& c) { c.remap.key.repeat = 0; }},
      {"remap.key leads outside", [](Case& c) { c.remap.key.multiply = -1; }},
      {"remap.query leads outside", [](Case& c) { c.remap.query.add = int64_t{1} << 40; }},
      {"remap.k_shift.version is 3", [](Case& c) { c.remap.k_shift = Fill{.version = 3}; }},
      {"planted[0].tensor must be an input with a fill, or bias",
       [](Case& c) { c.planted = {{.tensor = TensorId::kO}}; }},
      {"planted[1] lies at index 9 of dimension 2 of k, which has 9",
       [](Case& c) { c.planted = {{}, {.tensor = TensorId::kK, .s = 9}}; }},
      {"planted[0] lies at index 1 of dimension 1 of bias, which has 1",  // broadcast
       [](Case& c) { c.planted = {{.tensor = TensorId::kBias, .h = 1}}; }},
      {"planted[0].bits do not fit", [](Case& c) { c.planted = {{.bits = 0x10000}}; }},
      {"planted[0].bits mark an output", [](Case& c) { c.planted = {{.bits = 0x7fa5}}; }},
      {"the case has none",
       [](Case& c) {
         c.problem.bias.reset();
         c.planted = {{.tensor = TensorId::kBias}};
       }},
  };
  ASSERT_EQ(illegal(legal_case()), std::nullopt);
  for (const Spoilt& spoilt : cases) {
    Case c = legal_case();
    spoilt.spoil(c);
    const auto why = illegal(c);
    ASSERT_TRUE(why) << spoilt.message;
    EXPECT_NE(why->find(spoilt.message), std::string::npos) << "\"" << *why << "\" for " << spoilt.message;
  }
}

// The judge holds results as if each packed entry were as long as the longest.
TEST(Illegal, PackedEntriesThatAreTooMuchToJudge) {
  Case c = legal_case();
  c.problem = {};
  c.problem.seq_q = int64_t{1} << 31;
  c.problem.packed_q = Packing{.lengths = {1}};
  const auto why = illegal(c);
  ASSERT_TRUE(why);
  EXPECT_NE(why->find("packed_q: judging the results takes 84 GiB"), std::string::npos) << *why;
  c.problem.seq_q = 1 << 16;
  EXPECT_EQ(illegal(c), std::nullopt);
  c.problem.batch = 64, c.problem.heads_q = c.problem.heads_kv = 32, c.problem.dim_v = 128;
  c.problem.packed_q->lengths.assign(64, 1);
  EXPECT_TRUE(illegal(c));
  c.problem.seq_q = 1 << 11;
  EXPECT_EQ(illegal(c), std::nullopt) << *illegal(c);
}

TEST(Illegal, ExtremesThatAreLegal) {
  const std::function<void(Case&)> extremes[] = {
      [](Case& c) { c.problem.seq_q = c.problem.seq_k = 0; },
      [](Case& c) { c.problem.window_left = c.problem.window_right = std::numeric_limits<int64_t>::max(); },
      [](Case& c) { c.problem.key_lengths = {std::numeric_limits<int64_t>::min(), 1 << 30}; },
      [](Case& c) { c.problem.scale = 0; },
      [](Case& c) { c.problem.scale = std::numeric_limits<float>::lowest(); },
      [](Case& c) { c.problem.num_splits = std::numeric_limits<int64_t>::max(); },
      [](Case& c) { c.problem.dim_qk = 256, c.problem.dim_v = 1; },
      [](Case& c) { c.layout[1].spread = int64_t{1} << 33; },
      // In a remapped case planted indices are those of the recipe, which need not exist in the tensor.
      [](Case& c) {
        c.remap.key.add = 5;
        c.planted = {{.tensor = TensorId::kK, .s = 1000}};
      },
  };
  for (const auto& make : extremes) {
    Case c = legal_case();
    make(c);
    EXPECT_EQ(illegal(c), std::nullopt);
  }
}

}  // namespace
}  // namespace attnfuzz
