// A target that records what its runs show: the time inside the kernel, and the combined coverage of all
// runs of one judged case.
//
//   ObservedTarget observed(*target);
//   observed.begin_case();
//   judge(c, property, observed, calibration);
//   observed.coverage_of_case()[edge]   // buckets, one bit each
#pragma once

#include <vector>

#include "properties/judge/target/target.h"

namespace attnfuzz {

class ObservedTarget : public Target {
 public:
  explicit ObservedTarget(Target& inner) : inner_(inner) {
    oracles = inner.oracles;
    peer = inner.peer;
  }

  void begin_case() { seen_.assign(seen_.size(), 0); }
  const std::vector<uint8_t>& coverage_of_case() const { return seen_; }
  double kernel_seconds() const { return kernel_seconds_; }

  const KernelInfo& info() const override { return inner_.info(); }
  Turn turn() override { return inner_.turn(); }
  Arena& arena() override { return inner_.arena(); }
  void memory(std::span<const MemoryRange> ranges) override { inner_.memory(ranges); }
  void watch(Watch watch) override { inner_.watch(watch); }
  void renew() override { inner_.renew(); }
  void probe(const std::optional<ProbeRequest>& request) override { inner_.probe(request); }
  std::span<const uint8_t> coverage() const override { return inner_.coverage(); }
  PlanReply plan(const attn_problem& problem, const attn_tensors& tensors, const attn_env& env) override {
    return inner_.plan(problem, tensors, env);
  }
  RunReply run(Stage stage, const attn_problem& problem, const attn_tensors& tensors, const attn_plan& plan,
               const attn_env& env, int stream) override {
    RunReply reply = inner_.run(stage, problem, tensors, plan, env, stream);
    kernel_seconds_ += reply.seconds;
    const std::span<const uint8_t> edges = inner_.coverage();
    if (seen_.size() < edges.size()) seen_.resize(edges.size(), 0);
    for (size_t i = 0; i < edges.size(); ++i) seen_[i] |= edges[i];
    return reply;
  }
  std::optional<attn_partials> partials(const attn_problem& problem, const attn_plan& plan,
                                        std::string* why) override {
    return inner_.partials(problem, plan, why);
  }

 private:
  Target& inner_;
  std::vector<uint8_t> seen_;
  double kernel_seconds_ = 0;
};

}  // namespace attnfuzz
