// A forward call on random tensors, run in this process and compared with the oracle.
//
//   attn_problem p = square(70, 64);
//   Call call(p);
//   call.lay_out(&Call::o, {0, 0, 130, 2});
//   EXPECT_LE(call.worst_ratio(kernel), 1);
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/attention.h"
#include "reference/oracle.h"
#include "tests/kernels/libraries.h"
#include "tests/kernels/tensor.h"

namespace attnfuzz {

// One head, as many queries as keys, causal.
attn_problem square(int64_t length, int64_t dim);

class Call {
 public:
  // Makes dense tensors; bias and mask only if the problem has them. A mask hides one key in four.
  explicit Call(const attn_problem& problem);

  // Lays a tensor out anew and fills it again.
  void lay_out(Tensor Call::* tensor, const Index& strides);

  // Runs the kernel and returns the largest error / bound. Any other fault fails the test.
  double worst_ratio(const attn_kernel& kernel);

  attn_problem problem;
  attn_env env = {};
  attn_tensors tensors = {};  // run() gets these; the problem's tensors are taken from the members below
  Tensor q, k, v, o, lse, bias, mask;
  std::vector<int64_t> key_lengths;
  Reference reference;  // of the last run
  attn_plan plan = {};

 private:
  std::string report_;
};

// Tests of fa1, splitk and their fast paths on the executor. The test's parameter is the kernel's name.
class OfKernel : public testing::TestWithParam<std::string> {
 protected:
  const attn_kernel& kernel() { return *kernel_named(GetParam()); }
  bool has_fast_path() { return GetParam() != "fa1" && GetParam() != "splitk"; }

  void holds(Call& call) { EXPECT_LE(call.worst_ratio(kernel()), 1); }
  // Checks the call without splits and, if the kernel splits keys, with three splits.
  void holds_in_parts(Call& call) {
    for (int64_t splits : {1, 3}) {
      if (splits > 1 && kernel().partial == nullptr) continue;
      SCOPED_TRACE("splits " + std::to_string(splits));
      call.problem.num_splits = splits;
      holds(call);
    }
  }
  // The same, and checks that a kernel with a fast path takes it.
  void holds_its_way(Call& call) {
    holds_in_parts(call);
    if (has_fast_path())
      EXPECT_NE(std::string(call.plan.path).find("mma"), std::string::npos) << call.plan.path;
  }
};

}  // namespace attnfuzz
