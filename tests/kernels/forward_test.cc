// Both kernels on the CPU executor, in this process, against the oracle.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "reference/formats.h"
#include "reference/oracle.h"
#include "tests/kernels/libraries.h"

namespace attnfuzz {
namespace {

// A problem on dense random tensors.
class Call {
 public:
  explicit Call(attn_problem problem) : problem_(problem) {
    problem_.size = sizeof(attn_problem);
    tensors_.size = sizeof(attn_tensors);
    env_ = {};
    env_.size = sizeof(attn_env);
    env_.sm_count = 132;
    env_.compute_capability = 90;
    env_.shared_memory_limit = 232448;
    env_.variant = 1;
    env_.user = this;
    env_.report = [](void* user, const attn_report* report) {
      static_cast<Call*>(user)->report_ = std::string(report->message) + " at " +
                                          (report->file ? report->file : "?") + ":" +
                                          std::to_string(report->line);
    };
    const auto& p = problem_;
    q_ = fill(p.batch * p.heads_q * p.seq_q * p.dim_qk, 1);
    k_ = fill(p.batch * p.heads_kv * p.seq_k * p.dim_qk, 2);
    v_ = fill(p.batch * p.heads_kv * p.seq_k * p.dim_v, 3);
    o_.assign(p.batch * p.heads_q * p.seq_q * p.dim_v, 0xFFFF);
    lse_.assign(p.batch * p.heads_q * p.seq_q, NAN);
    tensors_.q = dense(q_.data(), p.heads_q, p.seq_q, p.dim_qk);
    tensors_.k = dense(k_.data(), p.heads_kv, p.seq_k, p.dim_qk);
    tensors_.v = dense(v_.data(), p.heads_kv, p.seq_k, p.dim_v);
    tensors_.o = dense(o_.data(), p.heads_q, p.seq_q, p.dim_v);
    tensors_.lse = dense(lse_.data(), p.heads_q, p.seq_q, 1);
  }

  attn_env& env() { return env_; }

  // Runs and compares; the largest error / bound.
  double worst_ratio(const attn_kernel& kernel) {
    attn_plan plan = {};
    char reason[256] = "";
    EXPECT_EQ(kernel.plan(&problem_, &tensors_, &env_, &plan, reason, sizeof reason), ATTN_OK) << reason;
    workspace_.assign(plan.workspace_bytes / 8 + 2, NAN);
    tensors_.workspace = workspace_.data();
    tensors_.workspace_bytes = plan.workspace_bytes;
    EXPECT_EQ(kernel.run(&problem_, &tensors_, &plan, &env_), ATTN_OK) << report_;
    const Reference reference = evaluate(problem_, tensors_, plan, executor());
    double worst = 0;
    for (int64_t row = 0; row < reference.rows; ++row) {
      worst = std::max(worst, ratio_lse(reference, row, lse_[row]));
      for (int64_t c = 0; c < problem_.dim_v; ++c) {
        const float value = static_cast<float>(decode(problem_.dtype, o_.data(), row * problem_.dim_v + c));
        worst = std::max(worst, ratio_o(reference, row, c, value));
      }
    }
    return worst;
  }

 private:
  static attn_tensor dense(void* data, int64_t heads, int64_t rows, int64_t dim) {
    return {data, {heads * rows * dim, rows * dim, dim, 1}};
  }
  std::vector<uint16_t> fill(int64_t count, unsigned seed) const {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<uint16_t> values(count + 8);
    for (uint16_t& value : values) value = encode16(problem_.dtype, normal(random));
    return values;
  }

  attn_problem problem_;
  attn_tensors tensors_ = {};
  attn_env env_ = {};
  std::string report_;
  std::vector<uint16_t> q_, k_, v_, o_;
  std::vector<float> lse_;
  std::vector<double> workspace_;
};

attn_problem square(int64_t s, int64_t d) {
  attn_problem p = {};
  p.batch = p.heads_q = p.heads_kv = 1;
  p.seq_q = p.seq_k = s;
  p.dim_qk = p.dim_v = d;
  p.scale = 1.0f / std::sqrt(static_cast<float>(d));
  p.causal = 1;
  p.window_left = p.window_right = -1;
  p.bias_dtype = ATTN_NONE;
  return p;
}

class Forward : public testing::TestWithParam<std::string> {
 protected:
  const attn_kernel& kernel() { return *kernel_named(GetParam()); }
};

TEST_P(Forward, LengthsAroundTileBorders) {
  for (int64_t s : {1, 2, 15, 16, 63, 64, 65, 127, 128, 129, 193}) {
    EXPECT_LE(Call(square(s, 64)).worst_ratio(kernel()), 1) << "S=" << s;
  }
}

TEST_P(Forward, HeadDimensions) {
  for (int64_t d : {1, 4, 7, 8, 40, 64, 80, 128, 130, 256}) {
    EXPECT_LE(Call(square(70, d)).worst_ratio(kernel()), 1) << "D=" << d;
  }
}

TEST_P(Forward, FormatsHeadsAndSplits) {
  for (int32_t dtype : {ATTN_F16, ATTN_BF16}) {
    for (int64_t splits : {0, 1, 2, 3, 7}) {
      attn_problem p = square(70, 32);
      p.dtype = dtype;
      p.batch = 2;
      p.heads_q = 6;
      p.heads_kv = 2;
      p.seq_q = 5;
      p.seq_k = 200;
      p.align = ATTN_BOTTOM_RIGHT;
      p.num_splits = splits;
      EXPECT_LE(Call(p).worst_ratio(kernel()), 1) << "dtype " << dtype << ", splits " << splits;
    }
  }
}

TEST_P(Forward, EveryVariantAndSchedule) {
  for (uint32_t variant = 0; variant <= kernel().variant_count; ++variant) {
    for (uint64_t seed : {0, 1, 2, 3, 4, 5, 6, 7, 8}) {
      Call call(square(129, 72));
      call.env().variant = static_cast<int32_t>(variant);
      call.env().schedule_seed = seed;
      EXPECT_LE(call.worst_ratio(kernel()), 1) << "variant " << variant << ", schedule " << seed;
    }
  }
}

TEST_P(Forward, RefusesWithAReason) {
  attn_problem p = square(4, 4);
  p.heads_q = 3;
  p.heads_kv = 2;
  p.size = sizeof p;
  attn_tensors tensors = {};
  tensors.size = sizeof tensors;
  attn_env env = {};
  env.size = sizeof env;
  env.sm_count = 1;
  env.compute_capability = 90;
  attn_plan plan;
  char reason[128] = "";
  EXPECT_EQ(kernel().plan(&p, &tensors, &env, &plan, reason, sizeof reason), ATTN_INVALID);
  EXPECT_STREQ(reason, "heads_kv = 2 does not divide heads_q = 3");
}

INSTANTIATE_TEST_SUITE_P(Kernels, Forward, testing::Values("fa1", "splitk"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace attnfuzz
