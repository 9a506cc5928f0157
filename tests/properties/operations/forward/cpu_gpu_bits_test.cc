// Tests that differences from a peer build are found, and how they are reported.
#include <gtest/gtest.h>

#include "properties/explain/first_bits.h"
#include "properties/judge/target/peer.h"
#include "properties/judge/trial.h"
#include "tests/properties/support/fake_target.h"

namespace attnfuzz {
namespace {

Case simple() {
  Case c;
  Problem& p = c.problem;
  p.seq_q = p.seq_k = 33;
  p.batch = p.heads_q = p.heads_kv = 2;
  p.dim_qk = p.dim_v = 8;
  p.scale = 0.35f;
  c.q = c.k = c.v = Fill{.kind = FillKind::kGaussian, .seed = 1};
  c.calls = {Call{}, Call{}};
  return c;
}

std::shared_ptr<Peer> peer_of(Flaw flaw) {
  return std::make_shared<Peer>([flaw](std::string*) { return std::make_unique<FakeTarget>(flaw); });
}

Verdict judged(Target& target, Flaw peer) {
  target.peer = peer_of(peer);
  return judge(simple(), *find_property("cpu_gpu_bits"), target, documented());
}

// This flaw adds in another order, within the bound.
constexpr Flaw kOther = Flaw::kHeadRounds;

TEST(CpuGpuBits, TheSameBitsPass) {
  for (const Flaw flaw : {Flaw::kNone, kOther}) {
    FakeTarget target(flaw);
    const Verdict v = judged(target, flaw);
    EXPECT_EQ(v.outcome, Outcome::kPass) << v.message;
  }
}

TEST(CpuGpuBits, OtherBitsFailAndSayWhere) {
  FakeTarget target;
  Verdict v = judged(target, kOther);
  EXPECT_EQ(v.outcome, Outcome::kFail);
  EXPECT_STREQ(to_string(v.kind), "bits") << v.message;
  ASSERT_TRUE(v.where);
  EXPECT_EQ(v.where->h % 2, 1);
  EXPECT_NE(v.message.find("it repeats itself"), std::string::npos) << v.message;
  EXPECT_EQ(reduction_key(target.info(), v), target.info().name + " bits plain");
  // The target has no probes.
  tell_first_bits(simple(), target, v);
  EXPECT_NE(v.message.find("where it begins is not known: this target does not support probes"),
            std::string::npos)
      << v.message;
}

// In every second call the last bit of one LSE differs.
class Restless : public FakeTarget {
 public:
  RunReply run(Stage stage, const attn_problem& p, const attn_tensors& t, const attn_plan& plan,
               const attn_env& env, int stream) override {
    const RunReply reply = FakeTarget::run(stage, p, t, plan, env, stream);
    static_cast<uint32_t*>(t.lse.data)[0] ^= ++calls_ & 1;
    return reply;
  }

 private:
  uint32_t calls_ = 0;
};

TEST(CpuGpuBits, BitsThatVaryBetweenRunsAreReported) {
  Restless target;
  const Verdict v = judged(target, Flaw::kNone);
  EXPECT_EQ(v.kind, Kind::kDirty) << v.message;
  EXPECT_NE(v.message.find("a race, or a fault of the device"), std::string::npos) << v.message;
}

TEST(CpuGpuBits, AWrongResultIsReportedAsWrong) {
  FakeTarget target(Flaw::kDropsLastKey);
  EXPECT_EQ(judged(target, Flaw::kNone).kind, Kind::kWrong);
}

TEST(CpuGpuBits, ACaseThatCannotBeComparedIsNoPass) {
  FakeTarget target;
  const Property& property = *find_property("cpu_gpu_bits");
  EXPECT_EQ(judge(simple(), property, target, documented()).outcome, Outcome::kRefused);
  target.peer = std::make_shared<Peer>([](std::string* error) {
    *error = "none";
    return nullptr;
  });
  EXPECT_EQ(judge(simple(), property, target, documented()).outcome, Outcome::kRefused);
  EXPECT_EQ(target.peer->error(), "none");
  const Verdict refused = judged(target, Flaw::kPlanNonsense);
  EXPECT_EQ(refused.outcome, Outcome::kRefused) << refused.message;
  const Verdict fault = judged(target, Flaw::kFaults);
  EXPECT_EQ(fault.kind, Kind::kFault) << fault.message;
}

TEST(CpuGpuBits, ThePeerGetsTheDevicesEnvironment) {
  KernelInfo gpu, cpu;
  gpu.backend = ATTN_CUDA, gpu.device = "NVIDIA H200, sm_90";
  Case c = simple();
  c.env.compute_capability = 100;
  EXPECT_EQ(case_of_peer(c, gpu, cpu).env.arithmetic, ATTN_ARITHMETIC_H200);
  EXPECT_EQ(case_of_peer(c, gpu, cpu).env.compute_capability, 90);
  EXPECT_EQ(case_of_peer(c, cpu, cpu), c);
  EXPECT_EQ(cannot_be_compared(gpu, cpu), "");
  gpu.device = "NVIDIA A100-SXM4-80GB, sm_80";
  EXPECT_NE(cannot_be_compared(gpu, cpu).find("device:a100 (as published, not proven)"), std::string::npos);
  EXPECT_NE(cannot_be_compared(gpu, cpu, ATTN_ARITHMETIC_L40S), "");
  EXPECT_EQ(cannot_be_compared(gpu, cpu, ATTN_ARITHMETIC_A100), "");
  EXPECT_EQ(case_of_peer(c, gpu, cpu).env.arithmetic, ATTN_ARITHMETIC_A100);
  gpu.device = "NVIDIA L4, sm_89";
  EXPECT_EQ(case_of_peer(c, gpu, cpu).env.arithmetic, ATTN_ARITHMETIC_L40S);
  gpu.device = "NVIDIA GeForce RTX 5090, sm_120";
  EXPECT_NE(cannot_be_compared(gpu, cpu, ATTN_ARITHMETIC_A100), "");
}

// Only a check that names the property judges by it.
TEST(CpuGpuBits, IsUsedOnlyIfItIsNamed) {
  for (const Property* property : properties()) EXPECT_STRNE(property->name, "cpu_gpu_bits");
  EXPECT_NE(find_property("cpu_gpu_bits"), nullptr);
  EXPECT_GT(all_properties().size(), properties().size());
}

}  // namespace
}  // namespace attnfuzz
