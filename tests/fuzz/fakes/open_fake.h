// Opens a fake kernel and prepares a small call for it.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>

#include "fuzz/host/worker_target.h"

namespace attnfuzz {

inline WorkerOptions fake_options(const std::string& library, const std::string& kernel = "") {
  WorkerOptions options;
  options.worker = ATTNFUZZ_WORKER;
  options.library = std::string(ATTNFUZZ_FAKES) + "/" + library + ".so";
  options.kernel = kernel;
  options.watchdog = 0.5;
  options.patience = 2;
  return options;
}

// One call of a kernel of fakes/behaviours.cc, by name.
struct FakeCall {
  explicit FakeCall(const std::string& kernel, const std::string& library = "behaviours")
      : FakeCall(fake_options(library, kernel)) {}
  explicit FakeCall(const WorkerOptions& options) {
    std::string error;
    target = open_target(options, &error);
    EXPECT_TRUE(target) << error;
    if (!target) return;
    problem.size = sizeof problem;
    problem.batch = problem.heads_q = problem.heads_kv = 1;
    problem.seq_q = problem.seq_k = 4;
    problem.dim_qk = problem.dim_v = 8;
    env.size = sizeof env;
    tensors.size = sizeof tensors;
    tensors.q.data = target->arena().slot(TensorId::kQ) + 256;
    tensors.o.data = target->arena().slot(TensorId::kO) + 512;
  }
  PlanReply plan() { return target->plan(problem, tensors, env); }
  RunReply run(Stage stage = Stage::kAll) { return target->run(stage, problem, tensors, planned, env, 0); }

  std::unique_ptr<Target> target;
  attn_problem problem = {};
  attn_tensors tensors = {};
  attn_env env = {};
  attn_plan planned = {};
};

}  // namespace attnfuzz
