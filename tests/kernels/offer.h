// Calls plan() and checks its answers, for tests at the limits of its decisions and
// refusals. Most of these problems are too large to run.
//
//   class PlanSizes : public PlanTest {};
//   TEST_P(PlanSizes, NoBatch) { accepts("no batch", [](Offer& x) { x.problem.batch = 0; }); }
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>

#include "tests/kernels/libraries.h"

namespace attnfuzz {

// Blocks of a CUDA grid.
inline constexpr int64_t kGrid = 2147483647;

// Everything plan() sees. Addresses are made up: it must not read there.
struct Offer {
  attn_problem problem = {};
  attn_tensors tensors = {};
  attn_env env = {};

  Offer() {
    problem.size = sizeof problem;
    problem.dtype = ATTN_F16;
    problem.batch = problem.heads_q = problem.heads_kv = 1;
    problem.seq_q = problem.seq_k = 128;
    problem.dim_qk = problem.dim_v = 64;
    problem.scale = 0.125f;
    problem.window_left = problem.window_right = -1;
    problem.bias_dtype = ATTN_NONE;
    tensors.size = sizeof tensors;
    env.size = sizeof env;
    env.sm_count = 132;
    env.compute_capability = 90;
    env.shared_memory_limit = 232448;
    env.variant = 1;
    dense();
  }

  // Sets the strides of dense tensors for the present sizes.
  Offer& dense() {
    const attn_problem& p = problem;
    const auto view = [](uintptr_t at, int64_t heads, int64_t rows, int64_t columns) {
      return attn_tensor{reinterpret_cast<void*>(at), {heads * rows * columns, rows * columns, columns, 1}};
    };
    tensors.q = view(0x10000, p.heads_q, p.seq_q, p.dim_qk);
    tensors.k = view(0x20000, p.heads_kv, p.seq_k, p.dim_qk);
    tensors.v = view(0x30000, p.heads_kv, p.seq_k, p.dim_v);
    tensors.o = view(0x40000, p.heads_q, p.seq_q, p.dim_v);
    tensors.lse = view(0x50000, p.heads_q, p.seq_q, 1);
    return *this;
  }
};

struct Answer {
  attn_status status;
  attn_plan plan;
  std::string reason;
  bool ok() const { return status == ATTN_OK; }
};

// Tests of plan(). The parameter is the kernel's name.
class PlanTest : public testing::TestWithParam<std::string> {
 protected:
  const attn_kernel& kernel() { return *kernel_named(GetParam()); }
  bool splits() { return kernel().partial != nullptr; }

  Answer ask(const Offer& offer) {
    Answer answer = {};
    char reason[256] = "";
    std::memset(static_cast<void*>(&answer.plan), 0xA5, sizeof answer.plan);  // plan() must write all of it
    answer.status =
        kernel().plan(&offer.problem, &offer.tensors, &offer.env, &answer.plan, reason, sizeof reason);
    answer.reason = reason;
    return answer;
  }
  Answer ask(const std::function<void(Offer&)>& change) {
    Offer offer;
    change(offer);
    return ask(offer);
  }
  void accepts(const char* what, const std::function<void(Offer&)>& change) {
    const Answer answer = ask(change);
    EXPECT_EQ(answer.status, ATTN_OK) << what << ": " << answer.reason;
  }
  // `says`: what the reason must name.
  void refuses(attn_status status, const char* says, const std::function<void(Offer&)>& change) {
    const Answer answer = ask(change);
    EXPECT_EQ(answer.status, status) << says;
    EXPECT_NE(answer.reason.find(says), std::string::npos)
        << "'" << answer.reason << "' does not name " << says;
  }
};

}  // namespace attnfuzz
