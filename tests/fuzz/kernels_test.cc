#include "fuzz/kernels.h"

#include <gmock/gmock.h>

#include <fstream>

namespace attnfuzz {
namespace {

using ::testing::HasSubstr;

TEST(FindKernels, TakesAPathForAPlugIn) {
  std::string error;
  EXPECT_FALSE(find_kernel("./there-is-none.so", ATTN_CPU, &error));
  EXPECT_EQ(error, "there is no file ./there-is-none.so");
  const std::string path = std::string(ATTNFUZZ_FAKES) + "/behaviours.so";
  const auto found = find_kernel(path, ATTN_CPU, &error);
  ASSERT_TRUE(found) << error;
  EXPECT_EQ(found->path, path);
  const auto target = open_target(worker_options(*found), &error);
  ASSERT_TRUE(target) << error;
  EXPECT_EQ(target->info().library, path);
}

TEST(FindKernels, SaysWhatThereIsInstead) {
  std::string error;
  EXPECT_FALSE(find_kernel("no-such-kernel", ATTN_CPU, &error));
  EXPECT_THAT(error, HasSubstr("there is no kernel 'no-such-kernel' for the back end cpu"));
}

TEST(FindKernels, FindsEachByItsOwnName) {
  for (const KernelLibrary& k : find_kernels()) {
    std::string error;
    const auto again = find_kernel(k.name, k.backend, &error);
    ASSERT_TRUE(again) << error;
    EXPECT_EQ(again->path, k.path);
    EXPECT_EQ(k.path.substr(k.path.rfind('/') + 1),
              "libattn_" + k.name + (k.backend == ATTN_CUDA ? "_cuda.so" : "_cpu.so"));
  }
}

}  // namespace
}  // namespace attnfuzz
