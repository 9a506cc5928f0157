// Tests how reports of clang 19's sanitizer runtimes are read.
#include "fuzz/host/sanitizer_report.h"

#include <gtest/gtest.h>

namespace attnfuzz {
namespace {

constexpr char kLibrary[] = "lib/libattn_mine_cpu-asan.so";

std::optional<SanitizerFault> parse(const std::string& text) {
  SourcePlaces places("/nowhere");
  return sanitizer_fault(text, kLibrary, places, [](uint64_t address) {
    return address == 0x7f00deadbeef ? std::string("byte 128 of the memory of k") : std::string();
  });
}

TEST(SanitizerReport, OfAnAddressNamesTheTensor) {
  const auto fault = parse(
      "=================================================================\n"
      "==71==ERROR: AddressSanitizer: use-after-poison on address 0x7f00deadbeef at pc 0x7f2 bp 0x7ff sp "
      "0x7fe\n"
      "READ of size 16 at 0x7f00deadbeef thread T0\n"
      "    #0 0x7f22 (/somewhere/libattn_mine_cpu-asan.so+0x1a2b) (BuildId: 00)\n");
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, ATTN_REPORT_ADDRESS);
  EXPECT_EQ(fault->message,
            "AddressSanitizer: use-after-poison, READ of size 16, byte 128 of the memory of k, at "
            "libattn_mine_cpu-asan.so+0x1a2b");
  EXPECT_EQ(fault->site, "AddressSanitizer at libattn_mine_cpu-asan.so+0x1a2b");
}

TEST(SanitizerReport, OfUndefinedBehaviourNamesItsLine) {
  const auto fault = parse(
      "/tree/kernels/fa1/kernel.h:41:12: runtime error: signed integer overflow: 2147483647 + 1 cannot be "
      "represented in type 'int'\n    #0 0x1\n");
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, ATTN_REPORT_UNDEFINED);
  EXPECT_EQ(fault->file, "kernels/fa1/kernel.h");
  EXPECT_EQ(fault->line, 41);
  EXPECT_EQ(fault->site, "UndefinedBehaviorSanitizer at kernels/fa1/kernel.h:41");
  EXPECT_EQ(fault->message,
            "UndefinedBehaviorSanitizer: signed integer overflow: 2147483647 + 1 cannot be represented in type "
            "'int'");
}

TEST(SanitizerReport, OfARaceNamesBothAccesses) {
  const auto fault = parse(
      "==================\n"
      "WARNING: ThreadSanitizer: data race (pid=11)\n"
      "  Write of size 2 at 0x7f1 by thread T3:\n"
      "    #0 0x7f5 (libattn_mine_cpu-asan.so+0x10)\n\n"
      "  Previous read of size 8 at 0x7f1 by main thread:\n"
      "    #0 0x7f6 (libattn_mine_cpu-asan.so+0x20)\n");
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, ATTN_REPORT_RACE);
  EXPECT_EQ(
      fault->message,
      "ThreadSanitizer: data race: Write of size 2; Previous read of size 8, and nothing orders the two, at "
      "libattn_mine_cpu-asan.so+0x10");
  EXPECT_EQ(fault->site, "") << "chance decides which access comes first";
}

TEST(SanitizerReport, OfUninitialisedMemoryIsRead) {
  const auto fault =
      parse("==5==WARNING: MemorySanitizer: use-of-uninitialized-value\n    #0 0x1 (elsewhere+0x2)\n");
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, ATTN_REPORT_UNINITIALISED);
}

TEST(SanitizerReport, AKernelsOwnOutputIsNone) {
  EXPECT_FALSE(parse(""));
  EXPECT_FALSE(parse("hello\nERROR: something else\n"));
}

TEST(SanitizerReport, CutOffAnywhereIsStillRead) {
  const std::string whole =
      "WARNING: ThreadSanitizer: data race (pid=11)\n  Write of size 2 at 0x7f1 by thread T3:\n"
      "    #0 0x7f5 (libattn_mine_cpu-asan.so+0x10)\n\n  Previous read of size 8 at 0x7f1 by main thread:\n"
      "    #0 0x7f6 (libattn_mine_cpu-asan.so+0x20)\nERROR: AddressSanitizer: x on address 0x";
  SourcePlaces places("/nowhere");
  for (size_t length = 0; length <= whole.size(); ++length)
    sanitizer_fault(whole.substr(0, length), kLibrary, places, [](uint64_t) { return std::string(); });
}

}  // namespace
}  // namespace attnfuzz
