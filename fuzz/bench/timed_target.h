// A target that measures every call to another target: the time inside the kernel, and the time of the round
// trip to its worker.
//
//   TimedTarget timed(*target);
//   judge(c, property, timed, calibration);
//   timed.times().kernel_s, timed.times().round_trip_s
#pragma once

#include <chrono>

#include "properties/judge/target/target.h"

namespace attnfuzz {

class TimedTarget : public Target {
 public:
  struct Times {
    double kernel_s = 0;      // inside run(), synchronised
    double round_trip_s = 0;  // the rest of plan(), run() and partials(): copies, wire, waking the worker
  };

  explicit TimedTarget(Target& inner) : inner_(inner) { oracles = inner.oracles; }

  const Times& times() const { return times_; }
  void reset() { times_ = {}; }

  const KernelInfo& info() const override { return inner_.info(); }
  Arena& arena() override { return inner_.arena(); }
  void memory(std::span<const MemoryRange> ranges) override { inner_.memory(ranges); }
  void watch(Watch watch) override { inner_.watch(watch); }
  void probe(const std::optional<ProbeRequest>& request) override { inner_.probe(request); }
  PlanReply plan(const attn_problem& problem, const attn_tensors& tensors, const attn_env& env) override {
    const Clock::time_point start = Clock::now();
    PlanReply reply = inner_.plan(problem, tensors, env);
    times_.round_trip_s += since(start);
    return reply;
  }
  RunReply run(Stage stage, const attn_problem& problem, const attn_tensors& tensors, const attn_plan& plan,
               const attn_env& env, int stream) override {
    const Clock::time_point start = Clock::now();
    RunReply reply = inner_.run(stage, problem, tensors, plan, env, stream);
    times_.round_trip_s += since(start) - reply.seconds;
    times_.kernel_s += reply.seconds;
    return reply;
  }
  std::optional<attn_partials> partials(const attn_problem& problem, const attn_plan& plan,
                                        std::string* why) override {
    const Clock::time_point start = Clock::now();
    auto reply = inner_.partials(problem, plan, why);
    times_.round_trip_s += since(start);
    return reply;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static double since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  Target& inner_;
  Times times_;
};

}  // namespace attnfuzz
