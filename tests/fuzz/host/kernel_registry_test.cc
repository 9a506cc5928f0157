#include "fuzz/host/kernel_registry.h"

#include <gmock/gmock.h>

#include <fstream>

namespace attnfuzz {
namespace {

using ::testing::HasSubstr;

TEST(FindKernels, TakesAPathForAPlugIn) {
  std::string error;
  EXPECT_FALSE(find_kernel("./there-is-none.so", {}, &error));
  EXPECT_EQ(error, "there is no file ./there-is-none.so");
  const std::string path = std::string(ATTNFUZZ_FAKES) + "/stages.so";
  const auto found = find_kernel(path, {}, &error);
  ASSERT_TRUE(found) << error;
  EXPECT_EQ(found->path, path);
  const auto target = open_target(worker_options(*found), &error);
  ASSERT_TRUE(target) << error;
  EXPECT_EQ(target->info().library, path);
}

TEST(FindKernels, NamesTheKernelsThatExist) {
  std::string error;
  EXPECT_FALSE(find_kernel("no-such-kernel", {}, &error));
  EXPECT_THAT(error, HasSubstr("there is no kernel 'no-such-kernel' for the back end cpu"));
}

TEST(FindKernels, FindsEachByItsOwnName) {
  for (const KernelLibrary& k : our_kernels()) {
    std::string error;
    const auto again = find_kernel(k.name, {k.backend}, &error);
    ASSERT_TRUE(again) << error;
    EXPECT_EQ(again->path, k.path);
    EXPECT_EQ(k.path.substr(k.path.rfind('/') + 1),
              "libattn_" + k.name + (k.backend == ATTN_CUDA ? "_cuda.so" : "_cpu.so"));
  }
}

TEST(FindKernels, TakesAllKernelsOfAPlugInOrTheOneThatIsNamed) {
  std::string error;
  const std::string path = std::string(ATTNFUZZ_FAKES) + "/behaviours.so";
  const auto all = find_kernels(path, {}, &error);
  ASSERT_GT(all.size(), 2u) << error;
  EXPECT_EQ(all[0].name, path + ":copy");
  EXPECT_EQ(all[1].kernel, "refuse");
  EXPECT_FALSE(find_kernel(path, {}, &error));
  EXPECT_THAT(error, HasSubstr("say which, as in " + path + ":copy; it has: copy refuse null"));
  const auto one = find_kernel(path + ":refuse", {}, &error);
  ASSERT_TRUE(one) << error;
  const auto target = open_target(worker_options(*one), &error);
  ASSERT_TRUE(target) << error;
  EXPECT_EQ(target->info().name, "refuse");
  EXPECT_FALSE(find_kernel(path + ":nobody", {}, &error));
  EXPECT_THAT(error, HasSubstr("has no kernel 'nobody'; it has: copy refuse null"));
}

TEST(FindKernels, TakesTheBackEndThatThePlugInNames) {
  std::string error;
  const std::string path = std::string(ATTNFUZZ_FAKES) + "/other_backend.so";
  EXPECT_FALSE(find_kernel(path, {ATTN_CPU}, &error));
  EXPECT_THAT(error, HasSubstr("kernel gpu is of back end cuda, this worker of cpu: use --backend cuda"));
  // Without --backend it tries the other worker, which not every machine has.
  const auto found = find_kernel(path, {}, &error);
  if (found) {
    EXPECT_EQ(found->backend, ATTN_CUDA);
  } else {
    EXPECT_THAT(error,
                ::testing::AnyOf(HasSubstr("attnfuzz-worker-cuda is not beside"), HasSubstr("no CUDA device")));
  }
}

TEST(FindKernels, RefusesTwoKernelsOfOneName) {
  std::string error;
  const std::string path = std::string(ATTNFUZZ_FAKES) + "/twins.so";
  for (const char* which : {"", ":same", ":1"}) {
    EXPECT_TRUE(find_kernels(path + which, {}, &error).empty()) << which;
    EXPECT_THAT(error, HasSubstr("kernels 1 and 3 of the library are both called same (cpu)")) << which;
  }
}

// If no back end is named, the CPU's kernels are taken, and the result names the kernels that are left out.
TEST(FindKernels, NamesKernelsOfTheOtherBackEndThatAreLeftOut) {
  std::string error;
  const std::string path = std::string(ATTNFUZZ_FAKES) + "/both_backends.so";
  const auto found = find_kernels(path, {}, &error);
  ASSERT_EQ(found.size(), 1u) << error;
  EXPECT_THAT(found[0].left_out, ::testing::ElementsAre("one", "other"));
  const auto wanted = find_kernels(path, {ATTN_CPU}, &error);
  ASSERT_EQ(wanted.size(), 1u) << error;
  EXPECT_TRUE(wanted[0].left_out.empty()) << "the caller has named the back end";
}

TEST(FindKernels, RunsNoPlainLibraryInASanitizersBuild) {
  std::string error;
  EXPECT_FALSE(find_kernel(std::string(ATTNFUZZ_FAKES) + "/stages.so", {ATTN_CPU, "asan"}, &error));
  EXPECT_THAT(error, HasSubstr("is not of the build asan"));
}

}  // namespace
}  // namespace attnfuzz
