// Tests plain CUDA code on the executor: the example, and corner cases of the prelude.
#include <dlfcn.h>

#include <cmath>
#include <vector>

#include "kernels/cuda_source/example/softmax.h"
#include "tests/kernels/executor/harness.h"
#include "tests/kernels/executor/plain_kernels.h"

ATTN_EXPORT attn_status run_large_static(const attn_env* env, float* out);

namespace attn {
namespace {

attn_env env_of(uint64_t seed) {
  attn_env env{};
  env.size = sizeof env;
  env.backend = ATTN_CPU;
  env.shared_memory_limit = 48 * 1024;
  env.schedule_seed = seed;
  env.report = [](void*, const attn_report* report) { ADD_FAILURE() << report->message; };
  return env;
}

TEST(PlainCuda, TheExampleIsRight) {
  for (uint64_t seed : kOrders) {
    for (int columns : {1, 37, 128, 1000}) {
      constexpr int kRows = 3;
      std::vector<float> in, out(kRows * columns);
      for (int i = 0; i < kRows * columns; ++i) in.push_back(8 * std::sin(static_cast<float>(i * i)));
      const attn_env env = env_of(seed);
      ASSERT_EQ(softmax(&env, in.data(), out.data(), kRows, columns), ATTN_OK);
      for (int row = 0; row < kRows; ++row) {
        double sum = 0;
        for (int i = 0; i < columns; ++i) sum += std::exp(static_cast<double>(in[row * columns + i]));
        for (int i = 0; i < columns; ++i) {
          const double exact = std::exp(static_cast<double>(in[row * columns + i])) / sum;
          ASSERT_NEAR(out[row * columns + i], exact, 1e-5 * exact);
        }
      }
    }
  }
}

TEST(PlainCuda, StaticSharedArraysStartAsNaNInEveryBlock) {
  std::vector<float> out(128, 0);
  const attn_env env = env_of(0);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(run_unwritten(&env, out.data()), ATTN_OK);
    for (float value : out) EXPECT_TRUE(std::isnan(value));
  }
}

TEST(PlainCuda, EachInstantiationHasItsOwnSharedVariable) {
  for (uint64_t seed : kOrders) {
    std::vector<int> out(164);
    const attn_env env = env_of(seed);
    ASSERT_EQ(run_tickets(&env, out.data()), ATTN_OK);
    for (int i = 0; i < 164; ++i) EXPECT_EQ(out[i], i < 64 || i >= 100) << i;
  }
}

TEST(PlainCuda, WarpsExchange) {
  for (uint64_t seed : kOrders) {
    int wrong = 0;
    const attn_env env = env_of(seed);
    ASSERT_EQ(run_exchange(&env, &wrong), ATTN_OK);
    EXPECT_EQ(wrong, 0);
  }
}

TEST(PlainCuda, NumbersAreCuda) {
  int wrong = 0;
  const attn_env env = env_of(0);
  ASSERT_EQ(run_numbers(&env, &wrong), ATTN_OK);
  EXPECT_EQ(wrong, 0);
}

TEST(PlainCuda, CubAndCublasDoWhatTheyPromise) {
  for (uint64_t seed : {0, 1, 2}) {
    int wrong = 0;
    const attn_env env = env_of(seed);
    ASSERT_EQ(run_reductions(&env, &wrong), ATTN_OK);
    EXPECT_EQ(wrong, 0) << "schedule " << seed;
  }
  EXPECT_EQ(wrong_products(), 0);
}

TEST(PlainCuda, MoreStaticSharedMemoryThanNvccGivesIsRefused) {
  std::vector<float> out(64);
  std::string told;
  attn_env env = env_of(0);
  env.user = &told;
  env.report = [](void* user, const attn_report* report) {
    *static_cast<std::string*>(user) = report->message;
  };
  EXPECT_EQ(run_large_static(&env, out.data()), ATTN_LAUNCH_FAILED);
  EXPECT_NE(told.find("large(float*) has 65536 bytes of static shared memory: nvcc refuses more than 49152"),
            std::string::npos)
      << told;
}

struct Told {
  std::string message;
  int shared_bytes = 0;
  bool holds(const char* words) const { return message.find(words) != std::string::npos; }
};

attn_env env_that_tells(Told* told, int64_t limit) {
  attn_env env = env_of(0);
  env.shared_memory_limit = limit;
  env.user = told;
  env.report = [](void* user, const attn_report* report) {
    *static_cast<Told*>(user) = {report->message, report->shared_bytes};
  };
  return env;
}

// A device has 48 KiB for both, and more only for kernels that ask; attn::launch asks for those of more than 48
// KiB of dynamic memory.
TEST(PlainCuda, StaticAndDynamicSharedMemoryAddUp) {
  constexpr int64_t kOptIn = 227 * 1024;
  constexpr size_t kStatic = 20 * 1024, kKiB = 1024;
  std::vector<float> out(64);
  for (bool calls_function : {false, true}) {
    const auto run = [&](size_t bytes) {
      Told told;
      const attn_env env = env_that_tells(&told, kOptIn);
      EXPECT_EQ(run_mixed(&env, bytes, calls_function, out.data()) == ATTN_OK, told.message.empty());
      return told;
    };
    EXPECT_EQ(run(28 * kKiB).message, "");
    EXPECT_TRUE(
        run(28 * kKiB + 4).holds("49156 bytes of shared memory, of which 20480 are static: without cudaFunc"));
    EXPECT_EQ(run(49 * kKiB).message, "");
    EXPECT_EQ(run(kOptIn - kStatic).message, "");
    const Told more = run(kOptIn - kStatic + 4);
    EXPECT_TRUE(more.holds("232452 bytes of shared memory, of which 20480 are static: a block may have 232448"))
        << more.message;
    EXPECT_EQ(more.shared_bytes, kOptIn + 4);
  }
  Told told;
  const attn_env env = env_that_tells(&told, 100 * kKiB);
  EXPECT_EQ(run_mixed(&env, 110 * kKiB, false, out.data()), ATTN_LAUNCH_FAILED);
  EXPECT_EQ(told.shared_bytes, static_cast<int>(110 * kKiB + kStatic));
  EXPECT_FALSE(may_have(kOptIn - kStatic + 1));
  EXPECT_TRUE(may_have(kOptIn - kStatic));
}

TEST(PlainCuda, ATemplateAsksForSharedMemoryToo) {
  std::vector<float> out(64);
  Told told;
  const attn_env env = env_that_tells(&told, 227 * 1024);
  EXPECT_EQ(run_deduced(&env, 212 * 1024, false, out.data()), ATTN_LAUNCH_FAILED);
  EXPECT_TRUE(told.holds("must ask for more than 48 KiB with cudaFuncSetAttribute")) << told.message;
  EXPECT_EQ(run_deduced(&env, 48 * 1024, false, out.data()), ATTN_OK);
  EXPECT_EQ(run_deduced(&env, 212 * 1024, true, out.data()), ATTN_OK);
}

TEST(PlainCuda, ABlockBeyondLaunchBoundsIsRefused) {
  std::vector<float> out(128);
  Told told;
  const attn_env env = env_that_tells(&told, 227 * 1024);
  EXPECT_EQ(run_bounded(&env, 64, out.data()), ATTN_OK);
  EXPECT_EQ(run_bounded(&env, 65, out.data()), ATTN_FAULT);
  EXPECT_TRUE(told.holds("a block of 65 threads: the kernel has __launch_bounds__(64)")) << told.message;
}

// The loader would place such arrays on the heap, without guards.
TEST(PlainCuda, WritesBesideStaticSharedMemoryAreFound) {
  void* const module = dlopen(SIMT_STATIC_OVERRUN, RTLD_NOW | RTLD_LOCAL);
  ASSERT_TRUE(module) << dlerror();
  using Run = attn_status(const attn_env*, float*, int);
  auto* const run = reinterpret_cast<Run*>(dlsym(module, "run_static_overrun"));
  ASSERT_TRUE(run);
  const struct {
    int at;
    const char* told;
  } cases[] = {{63, ""},
               {64, "a write 0 bytes past the end of the static __shared__ arrays, found when the block ended"},
               {80, "a write 64 bytes past the end of"},
               {-2, "a write 5 bytes before the static __shared__ arrays"},
               {0, ""}};
  for (const auto& c : cases) {
    std::vector<float> out(64);
    std::string told;
    attn_env env = env_of(0);
    env.user = &told;
    env.report = [](void* user, const attn_report* report) {
      *static_cast<std::string*>(user) = report->message;
    };
    EXPECT_EQ(run(&env, out.data(), c.at), *c.told ? ATTN_FAULT : ATTN_OK) << c.at;
    EXPECT_EQ(told.find(c.told), 0u) << told;
  }
}

TEST(PlainCuda, LocksMakeProgress) {
  for (uint64_t seed : kOrders) {
    int mutex = 0, counter = 0;
    const attn_env env = env_of(seed);
    ASSERT_EQ(run_lock(&env, &mutex, &counter), ATTN_OK);
    EXPECT_EQ(counter, 192);
  }
}

}  // namespace
}  // namespace attn
