// Tests that every kind of stray write, and every missing write, is found.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>
#include <stdexcept>

#include "properties/case/codec/as_contract.h"
#include "properties/memory/extent.h"
#include "properties/memory/layout.h"
#include "reference/numbers/formats.h"
#include "tests/properties/memory/layout_support.h"

namespace attnfuzz {
namespace {

using Fault = MemoryFault::Kind;

void expect_fault(const Case& c, Fault kind, TensorId t, const std::function<void(const LaidOut&)>& kernel,
                  const std::string& message = "") {
  const auto fault = after(c, kernel);
  ASSERT_TRUE(fault) << "nothing was found";
  EXPECT_EQ(fault->kind, kind) << fault->message;
  EXPECT_EQ(fault->tensor, t) << fault->message;
  EXPECT_NE(fault->message.find(message), std::string::npos) << fault->message;
}

TEST(Redzones, StrayReadsSeeNan) {
  Arena arena;
  const Case c = small_case();
  const LaidOut laid(c, arena);
  for (TensorId t : {TensorId::kQ, TensorId::kK, TensorId::kV, TensorId::kBias}) {
    EXPECT_TRUE(std::isnan(decode(ATTN_F16, data(laid, t), -1)));
    EXPECT_TRUE(std::isnan(decode(ATTN_BF16, data(laid, t), -1)));
    EXPECT_TRUE(std::isnan(decode(ATTN_F32, data(laid, t), -1)));
  }
  const int64_t elements = 2 * 2 * 7 * 6;
  EXPECT_TRUE(std::isnan(decode(ATTN_F16, data(laid, TensorId::kK), elements)));
  EXPECT_TRUE(std::isnan(decode(ATTN_F16, data(laid, TensorId::kK), elements + 64 * 6 - 1)));
  EXPECT_LT(laid.tensors().key_lengths[-1], 0);
}

TEST(Redzones, RightKernelIsNotBlamed) {
  Case c = small_case();
  EXPECT_FALSE(after(c, [](const LaidOut&) {}));
  for (TensorLayout& layout : c.layout) layout = {.order = {2, 0, 1}, .offset = 1, .row_gap = 5};
  EXPECT_FALSE(after(c, [](const LaidOut&) {}));
  c.poison = Poison::kHuge;
  EXPECT_FALSE(after(c, [](const LaidOut&) {}));
  for (TensorLayout& layout : c.layout) layout = {.row_gap = 3, .step = 2, .across = true, .backwards = 6};
  EXPECT_FALSE(after(c, [](const LaidOut&) {}));
}

// Writes are found in the whole address space of a tensor: by the page that the write creates, or in the rest
// of the tensor's last page.
TEST(Redzones, WritesFarFromATensorAreFound) {
  const int64_t end = 2 * 4 * 5 * 3 * 2;  // the end of O
  for (const TensorId t : {TensorId::kO, TensorId::kV, TensorId::kLse, TensorId::kWorkspace}) {
    for (const int64_t at : {int64_t{1500}, int64_t{5000}, int64_t{20000}, int64_t{200000}, int64_t{1} << 27,
                             int64_t{1} << 33, -int64_t{5000}, -(int64_t{1} << 22)}) {
      const auto place = [&](const LaidOut& laid) {
        return (t == TensorId::kWorkspace ? static_cast<std::byte*>(laid.tensors().workspace) : data(laid, t)) +
               at;
      };
      expect_fault(
          small_case(), Fault::kRedzone, t, [&](const LaidOut& laid) { *place(laid) = std::byte{7}; },
          at < 0 ? "bytes before " : "bytes past the end of ");
      // A read is no fault, as in a redzone.
      EXPECT_FALSE(after(small_case(), [&](const LaidOut& laid) {
        const std::byte read = *const_cast<const volatile std::byte*>(place(laid));
        if (at > 20000 || at < -4096) EXPECT_EQ(read, std::byte{0});
      }));
    }
  }
  expect_fault(
      small_case(), Fault::kRedzone, TensorId::kO,
      [&](const LaidOut& laid) { data(laid, TensorId::kO)[end + 123457] = std::byte{7}; },
      "memory 123456 bytes past the end of o was written");
}

// Earlier cases in the same arena have left pages. These neither hide a write nor count as one.
TEST(Redzones, EarlierCasesHideNoWriteBeyondATensor) {
  Arena arena;
  Case large = small_case(), spread = small_case(), shifted = small_case(), at_end = small_case();
  large.problem.seq_q = large.problem.seq_k = 700;
  spread.layout[static_cast<size_t>(TensorId::kO)].spread = int64_t{1} << 28;
  shifted.layout[static_cast<size_t>(TensorId::kO)].offset = 100000;
  at_end.layout[static_cast<size_t>(TensorId::kO)].placement = Placement::kPageEnd;
  const auto found = [&](const Case& c, const std::function<void(const LaidOut&)>& kernel) {
    LaidOut laid(c, arena);
    EXPECT_FALSE(laid.check_planned());
    laid.give_workspace(100, 1);
    laid.before_call({});
    write_outputs(laid, c);
    kernel(laid);
    return laid.check_memory();
  };
  const auto far_write = [](const LaidOut& laid) { data(laid, TensorId::kO)[300000] = std::byte{7}; };
  for (const Case& before : {large, spread, shifted, at_end, small_case()}) {
    EXPECT_FALSE(found(before, [](const LaidOut&) {}));
    EXPECT_FALSE(found(small_case(), [](const LaidOut&) {}));
    for (int again = 0; again < 2; ++again) {
      const auto fault = found(small_case(), far_write);
      ASSERT_TRUE(fault);
      EXPECT_EQ(fault->kind, Fault::kRedzone);
      EXPECT_EQ(fault->tensor, TensorId::kO);
    }
  }
  // A write between widely spread rows.
  const auto fault =
      found(spread, [](const LaidOut& laid) { data(laid, TensorId::kO)[1 << 20] = std::byte{7}; });
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, Fault::kGap);
  // plan() must not write there either.
  LaidOut laid(small_case(), arena);
  far_write(laid);
  EXPECT_TRUE(laid.check_planned());
}

TEST(Redzones, WritesOutsideAnOutputAreFound) {
  for (Poison poison : {Poison::kNan, Poison::kHuge}) {
    Case c = small_case();
    c.poison = poison;
    const int64_t end = 2 * 4 * 5 * 3 * 2;
    const auto poke = [](TensorId t, int64_t at) {
      return [=](const LaidOut& laid) { data(laid, t)[at] = std::byte{0x12}; };
    };
    expect_fault(c, Fault::kRedzone, TensorId::kO, poke(TensorId::kO, -8), "8 bytes before o");
    expect_fault(c, Fault::kRedzone, TensorId::kO, poke(TensorId::kO, -256));
    expect_fault(c, Fault::kRedzone, TensorId::kO, poke(TensorId::kO, end), "0 bytes past the end of o");
    expect_fault(c, Fault::kRedzone, TensorId::kO, poke(TensorId::kO, end + 63 * 6));
    expect_fault(c, Fault::kRedzone, TensorId::kLse, poke(TensorId::kLse, -1));
    const auto workspace = [](int64_t at) {
      return
          [=](const LaidOut& laid) { static_cast<std::byte*>(laid.tensors().workspace)[at] = std::byte{0x12}; };
    };
    expect_fault(c, Fault::kRedzone, TensorId::kWorkspace, workspace(100), "0 bytes past the end of workspace");
    expect_fault(c, Fault::kRedzone, TensorId::kWorkspace, workspace(-1));
    EXPECT_FALSE(after(c, workspace(99)));
    c.layout[static_cast<size_t>(TensorId::kO)].row_gap = 4;
    expect_fault(c, Fault::kGap, TensorId::kO, poke(TensorId::kO, 3 * 14 + 6 + 1),
                 "past the end of row (0,0,3,2)");
    c.layout[static_cast<size_t>(TensorId::kO)] = {.step = 3};
    expect_fault(c, Fault::kGap, TensorId::kO, poke(TensorId::kO, 5), "5 bytes past the beginning");
    c.layout[static_cast<size_t>(TensorId::kO)] = {.row_gap = 4, .backwards = 4};
    // The rows run backwards: row 4 comes first in memory.
    expect_fault(c, Fault::kGap, TensorId::kO, poke(TensorId::kO, 6 + 1), "past the end of row (0,0,0,2)");
    expect_fault(c, Fault::kRedzone, TensorId::kO, poke(TensorId::kO, -4 * 14 - 2), "2 bytes before o");
  }
}

TEST(Redzones, AWritePastAnOutputNamesItsLastElement) {
  const Case c = small_case();
  const auto fault =
      after(c, [](const LaidOut& laid) { data(laid, TensorId::kO)[2 * 4 * 5 * 3 * 2] = std::byte{0x12}; });
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->index, (std::array<int64_t, 4>{1, 3, 4, 2}));
}

// The byte of a pattern depends only on its address, not on the beginning of the filled range.
TEST(Redzones, PatternsDependOnTheAddress) {
  alignas(4) std::byte memory[600];
  constexpr uint32_t kPattern = 0x04030201;
  for (size_t first = 0; first < 4; ++first) {
    std::memset(memory, 0, sizeof memory);
    fill_pattern(memory + first, memory + 590, kPattern);
    for (size_t at = 0; at < 600; ++at) {
      const bool inside = at >= first && at < 590;
      EXPECT_EQ(memory[at], static_cast<std::byte>(inside ? at % 4 + 1 : 0)) << first << " " << at;
    }
    EXPECT_EQ(differs_from(memory + first, memory + 590, kPattern), nullptr);
    for (const size_t at : {size_t{4}, size_t{255}, size_t{300}, size_t{589}}) {
      memory[at] ^= std::byte{8};
      EXPECT_EQ(differs_from(memory + first, memory + 590, kPattern), memory + at);
      memory[at] ^= std::byte{8};
    }
  }
}

TEST(Redzones, ChangedInputsAreNamed) {
  const Case c = small_case();
  const auto change = [&c](TensorId t, int64_t b, int64_t h, int64_t s, int64_t d) {
    return [=, &c](const LaidOut& laid) { *element(laid, c.problem, t, b, h, s, d) ^= std::byte{1}; };
  };
  expect_fault(c, Fault::kInputChanged, TensorId::kK, change(TensorId::kK, 1, 1, 6, 5),
               "k was written at (1,1,6,5)");
  expect_fault(c, Fault::kInputChanged, TensorId::kQ, change(TensorId::kQ, 0, 3, 0, 0), "(0,3,0,0)");
  expect_fault(c, Fault::kInputChanged, TensorId::kBias, change(TensorId::kBias, 1, 3, 4, 0), "(1,0,4,0)");
  expect_fault(c, Fault::kInputChanged, TensorId::kMask, change(TensorId::kMask, 1, 3, 4, 6), "(0,3,4,6)");
  expect_fault(c, Fault::kInputChanged, TensorId::kKeyLengths,
               [](const LaidOut& laid) { const_cast<int64_t*>(laid.tensors().key_lengths)[1] = 5; });
  expect_fault(
      c, Fault::kRedzone, TensorId::kV,
      [](const LaidOut& laid) { data(laid, TensorId::kV)[-2] = std::byte{0}; }, "2 bytes before v");
}

TEST(Redzones, UnwrittenElementsAreNamed) {
  Case c = small_case();
  const auto forget = [&c](TensorId t, int64_t b, int64_t h, int64_t s, int64_t d) {
    return [=, &c](const LaidOut& laid) {
      std::memcpy(element(laid, c.problem, t, b, h, s, d), &kNeverWritten,
                  static_cast<size_t>(element_bytes(c.problem, t)));
    };
  };
  expect_fault(c, Fault::kUnwritten, TensorId::kO, forget(TensorId::kO, 1, 2, 3, 1), "o(1,2,3,1)");
  expect_fault(c, Fault::kUnwritten, TensorId::kO, forget(TensorId::kO, 1, 2, 3, 0), "o(1,2,3,0)");
  expect_fault(c, Fault::kUnwritten, TensorId::kLse, forget(TensorId::kLse, 1, 3, 4, 0), "lse(1,3,4,0)");
  // A NaN that a kernel computed is not taken for an unwritten element. Neither is a NaN
  // from a stray read: shared memory begins as 0xffff.
  for (int32_t dtype : {ATTN_F16, ATTN_BF16}) {
    c.problem.dtype = dtype;
    for (uint16_t nan : {0x7e00, 0xfe00, 0x7fff, 0xffff, 0x7fc0, 0xffc0, 0xfffe}) {
      EXPECT_FALSE(after(c, [&](const LaidOut& laid) { std::memcpy(data(laid, TensorId::kO), &nan, 2); }))
          << nan;
    }
  }
  c.problem.dtype = ATTN_F32;
  for (uint32_t nan : {0x7fc00000u, 0xffc00000u, 0x7fffffffu, 0xffffffffu}) {
    EXPECT_FALSE(after(c, [&](const LaidOut& laid) { std::memcpy(data(laid, TensorId::kO), &nan, 4); })) << nan;
  }
  expect_fault(c, Fault::kUnwritten, TensorId::kO, forget(TensorId::kO, 1, 2, 3, 1), "o(1,2,3,1)");
  Arena arena;
  LaidOut laid(c, arena);
  laid.before_call({});
  EXPECT_FALSE(laid.check_memory(/*outputs=*/false));
  EXPECT_TRUE(laid.check_memory());
}

TEST(Redzones, WorkspaceIsCleanDirtyOrJunk) {
  Arena arena;
  const Case c = small_case();
  LaidOut laid(c, arena);
  laid.give_workspace(100, 16);
  auto* workspace = static_cast<std::byte*>(laid.tensors().workspace);
  EXPECT_EQ(laid.tensors().workspace_bytes, 100u);
  laid.before_call({.dirty_workspace = true});
  std::set<std::byte> values(workspace, workspace + 100);
  EXPECT_GT(values.size(), 20u);
  workspace[50] = std::byte{42};
  laid.before_call({.dirty_workspace = true});
  EXPECT_EQ(workspace[50], std::byte{42});
  laid.before_call({});
  EXPECT_EQ(workspace[50], std::byte{0xff});
  EXPECT_EQ(workspace[99], std::byte{0xff});
  EXPECT_EQ(laid.workspace().data(), workspace);
  EXPECT_EQ(laid.workspace().size(), 100u);
  uint64_t bytes = 0;
  for (const MemoryRange& range : laid.ranges()) {
    EXPECT_LT(range.begin, range.end) << name_of(range.tensor);
    if (range.tensor == TensorId::kWorkspace) bytes += range.end - range.begin;
  }
  EXPECT_GE(bytes, 100u);
}

TEST(Redzones, TheEnvironmentIsThatOfTheCase) {
  Environment from;
  from.sm_count = 7, from.compute_capability = 80, from.shared_memory_limit = 12345, from.schedule_seed = 9;
  from.variant = 2, from.arithmetic = ATTN_ARITHMETIC_H200;
  const attn_env env = env_of(from);
  EXPECT_EQ(env.size, sizeof env);
  EXPECT_EQ(env.backend, ATTN_CPU);
  EXPECT_EQ(env.sm_count, 7);
  EXPECT_EQ(env.compute_capability, 80);
  EXPECT_EQ(env.shared_memory_limit, 12345);
  EXPECT_EQ(env.schedule_seed, 9u);
  EXPECT_EQ(env.variant, 2);
  EXPECT_EQ(env.arithmetic, ATTN_ARITHMETIC_H200);
}

TEST(Redzones, DigestsDependOnEveryRow) {
  Arena arena;
  const Case c = small_case();
  LaidOut laid(c, arena);
  const Extent e = extent_of(c, TensorId::kK, arena);
  const uint64_t before = hash_elements(e);
  for (const auto& [b, h, s] : {std::array<int64_t, 3>{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {1, 1, 6}}) {
    std::byte* at = element(laid, c.problem, TensorId::kK, b, h, s, 0);
    *at ^= std::byte{1};
    EXPECT_NE(hash_elements(e), before) << b << h << s;
    *at ^= std::byte{1};
  }
  EXPECT_EQ(hash_elements(e), before);
}

TEST(Redzones, ImpossibleWorkspacesAreRefused) {
  Arena arena;
  LaidOut laid(Case{}, arena);
  EXPECT_THROW(laid.give_workspace(uint64_t{1} << 40, 16), std::invalid_argument);
  EXPECT_THROW(laid.give_workspace(16, 0), std::invalid_argument);
  EXPECT_THROW(laid.give_workspace(16, 24), std::invalid_argument);
  EXPECT_THROW(laid.give_workspace(16, uint64_t{1} << 40), std::invalid_argument);
  laid.give_workspace(0, 1);
  EXPECT_NE(laid.tensors().workspace, nullptr);
  laid.give_workspace(1000, 1 << 20);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(laid.tensors().workspace) % (1 << 20) % 4096, 0u);
}

TEST(Redzones, ZeroLengthsHaveRedzonesAndNoElements) {
  Case c = small_case();
  for (Placement placement : {Placement::kGuarded, Placement::kPageEnd}) {
    for (TensorLayout& layout : c.layout) layout.placement = placement;
    for (int which = 0; which < 3; ++which) {
      Case empty = c;
      (which == 0 ? empty.problem.batch : which == 1 ? empty.problem.seq_q : empty.problem.seq_k) = 0;
      if (which == 0) empty.problem.key_lengths = std::vector<int64_t>{};
      ASSERT_EQ(illegal(empty), std::nullopt);
      EXPECT_FALSE(after(empty, [](const LaidOut& laid) { EXPECT_NE(laid.tensors().q.data, nullptr); }));
      expect_fault(empty, Fault::kRedzone, TensorId::kV,
                   [](const LaidOut& laid) { data(laid, TensorId::kV)[-1] = std::byte{0}; });
    }
  }
}

}  // namespace
}  // namespace attnfuzz
