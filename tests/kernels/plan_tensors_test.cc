// Tests the checks that plan() makes of pointers, strides and alignment.
#include <vector>

#include "tests/kernels/offer.h"

namespace attnfuzz {
namespace {

class PlanTensors : public PlanTest {};

TEST_P(PlanTensors, PointersMissingOrMisplaced) {
  using Tensor = attn_tensor attn_tensors::*;
  const auto move = [](attn_tensor& t, int bytes) { t.data = static_cast<char*>(t.data) + bytes; };
  for (const auto& [name, tensor] : std::vector<std::pair<const char*, Tensor>>{{"q", &attn_tensors::q},
                                                                                {"k", &attn_tensors::k},
                                                                                {"v", &attn_tensors::v},
                                                                                {"o", &attn_tensors::o}}) {
    const std::string missing = std::string(name) + " is a null pointer",
                      odd = std::string(name) + " is not aligned";
    refuses(ATTN_INVALID, missing.c_str(), [&](Offer& x) { (x.tensors.*tensor).data = nullptr; });
    refuses(ATTN_INVALID, odd.c_str(), [&](Offer& x) { move(x.tensors.*tensor, 1); });
    accepts("2 bytes on", [&](Offer& x) { move(x.tensors.*tensor, 2); });
    for (int64_t attn_problem::* none : {&attn_problem::batch, &attn_problem::seq_q})
      accepts("no queries", [&](Offer& x) { x.problem.*none = 0, (x.tensors.*tensor).data = nullptr; });
    if (tensor == &attn_tensors::o) continue;
    accepts("no keys", [&](Offer& x) { x.problem.seq_k = 0, (x.tensors.*tensor).data = nullptr; });
  }
  accepts("no query heads", [](Offer& x) {
    x.problem.heads_q = 0, x.problem.heads_kv = 2;
    x.tensors.q.data = x.tensors.k.data = x.tensors.v.data = x.tensors.o.data = nullptr;
  });
  refuses(ATTN_INVALID, "o is a null pointer",
          [](Offer& x) { x.problem.seq_k = 0, x.tensors.o.data = nullptr; });
  accepts("no LSE", [](Offer& x) { x.tensors.lse.data = nullptr; });
  refuses(ATTN_INVALID, "lse is not aligned", [&](Offer& x) { move(x.tensors.lse, 2); });
  accepts("LSE 4 bytes on", [&](Offer& x) { move(x.tensors.lse, 4); });

  const auto biased = [](Offer& x, int32_t dtype, uintptr_t at) {
    x.problem.bias_dtype = dtype;
    x.tensors.bias.data = reinterpret_cast<void*>(at);
  };
  for (int32_t dtype : {ATTN_F16, ATTN_BF16, ATTN_F32}) {
    refuses(ATTN_INVALID, "bias is a null pointer", [&](Offer& x) { biased(x, dtype, 0); });
    refuses(ATTN_INVALID, "bias is not aligned", [&](Offer& x) { biased(x, dtype, 0x60001); });
    accepts("bias", [&](Offer& x) { biased(x, dtype, 0x60004); });
    accepts("bias", [&](Offer& x) { biased(x, dtype, 0x60008); });
    accepts("a bias of no keys", [&](Offer& x) { biased(x, dtype, 0), x.problem.seq_k = 0; });
  }
  accepts("16-bit bias 2 bytes on", [&](Offer& x) { biased(x, ATTN_F16, 0x60002); });
  refuses(ATTN_INVALID, "bias is not aligned", [&](Offer& x) { biased(x, ATTN_F32, 0x60002); });

  refuses(ATTN_INVALID, "mask is a null pointer", [](Offer& x) { x.problem.has_mask = 1; });
  accepts("a mask of no keys", [](Offer& x) { x.problem.has_mask = 1, x.problem.seq_k = 0; });
  accepts("mask", [](Offer& x) {
    x.problem.has_mask = 1;
    x.tensors.mask.data = reinterpret_cast<void*>(uintptr_t{0x70001});
  });
  const auto lengths = [](Offer& x, uintptr_t at) {
    x.problem.has_key_lengths = 1;
    x.tensors.key_lengths = reinterpret_cast<const int64_t*>(at);
  };
  refuses(ATTN_INVALID, "key_lengths is a null pointer", [&](Offer& x) { lengths(x, 0); });
  refuses(ATTN_INVALID, "key_lengths is not aligned", [&](Offer& x) { lengths(x, 0x80004); });
  accepts("key_lengths", [&](Offer& x) { lengths(x, 0x80008); });
  accepts("lengths of no queries", [&](Offer& x) { lengths(x, 0), x.problem.batch = 0; });
}

TEST_P(PlanTensors, OutputsThatOverlapThemselves) {
  const auto shape = [](Offer& x) {
    x.problem.batch = 2, x.problem.heads_q = x.problem.heads_kv = 3, x.problem.seq_q = 5, x.problem.dim_v = 8;
    x.dense();
  };
  for (int i = 0; i < 4; ++i) {
    SCOPED_TRACE(i);
    const auto less = [&](Offer& x) { shape(x), x.tensors.o.stride[i] -= 1; };
    refuses(ATTN_INVALID, "o make its elements overlap", less);
    accepts("further apart", [&](Offer& x) {
      shape(x);
      for (int j = 0; j <= i; ++j) x.tensors.o.stride[j] *= 2;
    });
    accepts("backwards", [&](Offer& x) { shape(x), x.tensors.o.stride[i] *= -1; });
    refuses(ATTN_INVALID, "o make", [&](Offer& x) { shape(x), x.tensors.o.stride[i] = 0; });
    if (i == 3) continue;
    refuses(ATTN_INVALID, "o make",
            [&](Offer& x) { shape(x), x.tensors.o.stride[i] = 1 - x.tensors.o.stride[i]; });
  }
  accepts("transposed", [&](Offer& x) { shape(x), x.tensors.o.stride[2] = 24, x.tensors.o.stride[1] = 8; });
  accepts("gaps that do not touch", [&](Offer& x) {
    shape(x), x.tensors.o.stride[3] = 2, x.tensors.o.stride[2] = 15, x.tensors.o.stride[1] = 75,
              x.tensors.o.stride[0] = 225;
  });
  refuses(ATTN_INVALID, "o make", [&](Offer& x) {
    shape(x), x.tensors.o.stride[3] = 2, x.tensors.o.stride[2] = 14, x.tensors.o.stride[1] = 75,
              x.tensors.o.stride[0] = 225;
  });
  for (int i = 0; i < 3; ++i) {
    refuses(ATTN_INVALID, "lse make its elements overlap",
            [&](Offer& x) { shape(x), x.tensors.lse.stride[i] -= 1; });
    accepts("LSE not wanted",
            [&](Offer& x) { shape(x), x.tensors.lse.stride[i] = 0, x.tensors.lse.data = nullptr; });
  }
  accepts("one query, any stride", [&](Offer& x) {
    shape(x), x.problem.seq_q = 1, x.dense(), x.tensors.o.stride[2] = 0, x.tensors.lse.stride[2] = 0;
  });
  accepts("one batch entry, any stride", [&](Offer& x) {
    shape(x), x.problem.batch = 1, x.dense(), x.tensors.o.stride[0] = 0, x.tensors.lse.stride[0] = 0;
  });
  const auto grouped = [&](Offer& x) { shape(x), x.problem.heads_q = 4, x.problem.heads_kv = 1, x.dense(); };
  refuses(ATTN_INVALID, "o make", [&](Offer& x) { grouped(x), x.tensors.o.stride[1] = 0; });
  refuses(ATTN_INVALID, "lse make", [&](Offer& x) { grouped(x), x.tensors.lse.stride[1] = 0; });
  accepts("backwards, in steps of two",
          [&](Offer& x) { x.problem.seq_q = 3, x.problem.dim_v = 2, x.dense(), x.tensors.o.stride[2] = -2; });
  accepts("the last stride of LSE", [&](Offer& x) { shape(x), x.tensors.lse.stride[3] = 0; });
  accepts("nothing to overlap", [&](Offer& x) { shape(x), x.problem.seq_q = 0, x.tensors.o.stride[0] = 0; });
}

TEST_P(PlanTensors, AlignedRowsAreCopiedBy16Bytes) {
  const auto path = [&](const std::function<void(Offer&)>& change) {
    const Answer answer = ask([&](Offer& x) {
      x.problem.batch = x.problem.heads_q = x.problem.heads_kv = 2;
      x.dense();
      change(x);
    });
    const std::string path = answer.plan.path;
    return path.substr(path.rfind(' ') + 1);
  };
  EXPECT_EQ(path([](Offer&) {}), "cp.async");
  using Tensor = attn_tensor attn_tensors::*;
  for (const auto& [name, tensor] : std::vector<std::pair<std::string, Tensor>>{
           {"q", &attn_tensors::q}, {"k", &attn_tensors::k}, {"v", &attn_tensors::v}}) {
    const std::string slow = "elementwise(" + name + ")";
    EXPECT_EQ(
        path([&](Offer& x) { (x.tensors.*tensor).data = static_cast<char*>((x.tensors.*tensor).data) + 8; }),
        slow);
    EXPECT_EQ(
        path([&](Offer& x) { (x.tensors.*tensor).data = static_cast<char*>((x.tensors.*tensor).data) + 16; }),
        "cp.async");
    EXPECT_EQ(path([&](Offer& x) { (x.tensors.*tensor).stride[3] = 2; }), slow);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(path([&](Offer& x) { (x.tensors.*tensor).stride[i] += 4; }), slow);
      EXPECT_EQ(path([&](Offer& x) { (x.tensors.*tensor).stride[i] += 8; }), "cp.async");
      EXPECT_EQ(path([&](Offer& x) { (x.tensors.*tensor).stride[i] = 0; }), "cp.async") << "broadcast";
    }
    // A dimension of one may have any stride.
    EXPECT_EQ(path([&](Offer& x) { x.problem.batch = 1, (x.tensors.*tensor).stride[0] = 3; }), "cp.async");
  }
  EXPECT_EQ(path([](Offer& x) { x.problem.heads_q = x.problem.heads_kv = 1, x.tensors.q.stride[1] = 3; }),
            "cp.async");
  EXPECT_EQ(path([](Offer& x) { x.problem.seq_q = 1, x.tensors.q.stride[2] = 3; }), "cp.async");
  EXPECT_EQ(path([](Offer& x) { x.problem.seq_k = 1, x.tensors.k.stride[2] = 3; }), "cp.async");
  // Each tensor has its own dimensions: grouped heads, one query, one key.
  EXPECT_EQ(path([](Offer& x) { x.problem.heads_kv = 1, x.dense(), x.tensors.q.stride[1] += 4; }),
            "elementwise(q)");
  EXPECT_EQ(path([](Offer& x) { x.problem.seq_k = 1, x.dense(), x.tensors.q.stride[2] += 4; }),
            "elementwise(q)");
  EXPECT_EQ(path([](Offer& x) { x.problem.seq_q = 1, x.dense(), x.tensors.k.stride[1] += 4; }),
            "elementwise(k)");
  EXPECT_EQ(path([](Offer& x) { x.problem.seq_q = 1, x.dense(), x.tensors.v.stride[1] += 4; }),
            "elementwise(v)");
  EXPECT_EQ(path([](Offer& x) { x.problem.dim_qk = 60, x.dense(); }), "elementwise(qk)");
  EXPECT_EQ(path([](Offer& x) { x.problem.dim_v = 60, x.dense(); }), "elementwise(v)");
  EXPECT_EQ(path([](Offer& x) { x.problem.dim_qk = x.problem.dim_v = 56, x.dense(); }), "cp.async");
}

INSTANTIATE_TEST_SUITE_P(Kernels, PlanTensors, testing::Values("fa1", "splitk"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace attnfuzz
