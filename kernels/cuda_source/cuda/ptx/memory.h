// Inline PTX that moves data: registers, addresses, loads and stores, asynchronous copies, atomics.
#pragma once

#include <string.h>

#include "kernels/cuda_source/cuda/ptx/step.h"
#include "kernels/primitives/copy.h"

namespace simt::ptx {

// mov between a register and its parts in braces, which have 16 bits or more.
constexpr bool packs(const Instruction& now) {
  const Operand &to = now.operands[0], &from = now.operands[1];
  const int parts = to.count > 1 ? to.count : from.count;
  return Named{"mov", "b32 b64 b128"}(now) && now.count == 2 && !to.address && !from.address &&
         (to.count > 1) != (from.count > 1) &&
         8 * bytes_of(last_part(now.op)) % static_cast<size_t>(16 * parts) == 0;
}

// Modifiers of loads and stores: order and scope, the place, and hints for caches. None changes what a thread
// reads or writes here.
inline constexpr std::string_view kAccess =
    "weak volatile relaxed acquire release cta cluster gpu sys global shared shared::cta shared::cluster nc ca "
    "cg cs lu "
    "cv wb wt L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate "
    "L2::evict_normal "
    "L2::evict_first L2::evict_last L2::cache_hint L2::64B L2::128B L2::256B v2 v4 v8";

// An address, one value or as many in braces as the opcode says, and perhaps a policy of the cache.
constexpr bool accesses(const Instruction& now, std::string_view op, int address, int data) {
  const int parts = has(now.op, "v2") ? 2 : has(now.op, "v4") ? 4 : has(now.op, "v8") ? 8 : 1;
  return Named{op, "f32 f64 b128 int", kAccess}(now) && now.count == (has(now.op, "L2::cache_hint") ? 3 : 2) &&
         now.operands[address].address && now.operands[data].count == parts && !now.operands[data].address;
}
constexpr bool loads(const Instruction& now) { return accesses(now, "ld", 1, 0); }
constexpr bool stores(const Instruction& now) { return accesses(now, "st", 0, 1); }

// cp.async [to], [from], bytes{, bytes to read}{, policy}. A predicate in place of the bytes to read is not
// known.
constexpr bool copies(const Instruction& now) {
  constexpr std::string_view kHints = "global L2::cache_hint L2::64B L2::128B L2::256B";
  const bool named =
      Named{"cp.async.ca.shared", "", kHints}(now) || Named{"cp.async.cg.shared", "", kHints}(now) ||
      Named{"cp.async.ca.shared::cta", "", kHints}(now) || Named{"cp.async.cg.shared::cta", "", kHints}(now);
  const int least = has(now.op, "L2::cache_hint") ? 4 : 3;
  return named && (now.count == least || now.count == least + 1) && now.operands[0].address &&
         now.operands[1].address;
}
constexpr bool adds_in_memory(const Instruction& now) {
  constexpr std::string_view kHow =
      "relaxed acquire release acq_rel cta cluster gpu sys global shared shared::cta add";
  const bool returns = begins(now.op, "atom");
  return (Named{"red", "f32 u32 s32", kHow}(now) || Named{"atom", "f32 u32 s32", kHow}(now)) &&
         has(now.op, "add") && now.count == (returns ? 3 : 2) && now.operands[returns ? 1 : 0].address;
}

template <class S>
inline void pack_or_unpack(S s) {
  constexpr const Operand &kTo = s.kOperands[0], &kFrom = s.kOperands[1];
  constexpr int kParts = kTo.count > 1 ? kTo.count : kFrom.count;
  constexpr int kWidth = static_cast<int>(8 * bytes_of(s.kType)) / kParts;
  if constexpr (kFrom.count > 1) {
    Wide whole = 0;
    for (int i = 0; i < kParts; ++i) {
      Wide part = s.c.template read<uint64_t>(kFrom.parts[i]);
      if (kWidth < 64) part &= (Wide{1} << kWidth) - 1;
      whole |= part << kWidth * i;
    }
    s.put(whole);
  } else {
    const Wide whole = s.template in<Wide>(1);
    for (int i = 0; i < kParts; ++i) {
      if (kWidth == 16) s.put_part(i, static_cast<uint16_t>(whole >> kWidth * i));
      if (kWidth == 32) s.put_part(i, static_cast<uint32_t>(whole >> kWidth * i));
      if (kWidth == 64) s.put_part(i, static_cast<uint64_t>(whole >> kWidth * i));
    }
  }
}

template <class S>
inline void move(S s) {
  if constexpr (bytes_of(s.kType) == 16) s.put(s.template in<Wide>(1));
  if constexpr (bytes_of(s.kType) == 8) s.put(s.template in<uint64_t>(1));
  if constexpr (bytes_of(s.kType) == 4) s.put(s.u(1));
  if constexpr (bytes_of(s.kType) == 2) s.put(s.template in<uint16_t>(1));
  if constexpr (s.kType == "pred") s.put(s.template in<bool>(1));
}

// ld and st of one value or of several in braces. The address must be a multiple of their total size.
template <bool kLoad, class S>
inline void load_or_store(S s) {
  constexpr size_t kBytes = s.kType == "f32" ? 4 : s.kType == "f64" ? 8 : bytes_of(s.kType);
  constexpr const Operand& kWhere = s.kOperands[kLoad ? 1 : 0];
  constexpr const Operand& kWhat = s.kOperands[kLoad ? 0 : 1];
  char* const at = address(kWhere, s.c, has(s.kOp, "shared"));
  if (reinterpret_cast<uintptr_t>(at) % (kBytes * kWhat.count) != 0)
    fault(ATTN_REPORT_ALIGNMENT, current, s.c.here, "ld or st of %zu bytes at %p: not a multiple of this size",
          kBytes * kWhat.count, static_cast<void*>(at));
  // A signed number fills its register with its sign.
  using I = Integer<kBytes, false>;
  using Loaded = std::conditional_t<s.kType[0] == 's', int64_t, I>;
  using Read = std::conditional_t<s.kType[0] == 's', Integer<kBytes, true>, I>;
  for (int i = 0; i < kWhat.count; ++i) {
    if constexpr (kLoad) {
      Read value;
      memcpy(&value, at + kBytes * static_cast<size_t>(i), kBytes);
      s.c.write(kWhat.parts[i], static_cast<Loaded>(value));
    } else {
      const I value = s.c.template read<I>(kWhat.parts[i]);
      memcpy(at + kBytes * static_cast<size_t>(i), &value, kBytes);
    }
  }
}

// cp.async to shared memory: operand 3, if it is not the policy, is how many of the bytes are read; the others
// become zeros.
template <class S>
inline void copy(S s) {
  constexpr bool kReads = s.kNow.count > (has(s.kOp, "L2::cache_hint") ? 4 : 3);
  static_assert(!(kReads && s.is_predicate(3)), "inline PTX: cp.async with a predicate");
  const uint32_t bytes = s.u(2), given = kReads ? s.u(3) : bytes;
  if (has(s.kOp, "cg") && bytes != 16)
    fault(ATTN_REPORT_ASYNC, current, s.c.here, "cp.async.cg of %u bytes: only 16 are possible", bytes);
  const char* from = address(s.kOperands[1], s.c, false);
#if SIMT_ASAN
  for (uint32_t i = 0; i < given; ++i) (void)*static_cast<const volatile char*>(from + i);  // as in copy.h
#endif
  copy_async(address(s.kOperands[0], s.c, true), from, bytes, given, s.c.here);
}

// atom returns the value before the addition; red returns nothing.
template <class S>
inline void add_in_memory(S s) {
  constexpr bool kReturns = begins(s.kOp, "atom");
  char* const at = address(s.kOperands[kReturns ? 1 : 0], s.c, has(s.kOp, "shared"));
  using T = std::conditional_t<s.kType == "f32", float, uint32_t>;
  const T before = atomicAdd(reinterpret_cast<T*>(at), s.template in<T>(kReturns ? 2 : 1));
  if constexpr (kReturns) s.put(before);
}

inline constexpr auto kMoves = Table{
    row(packs, [](auto s) { pack_or_unpack(s); }),
    row(Named{"mov", "pred f32 f64 b128 int"}, 2, [](auto s) { move(s); }),
    row(Named{"cvta.to.shared", "u32 u64"}, 2,
        [](auto s) {
          const auto* at = reinterpret_cast<const void*>(s.template in<uint64_t>(1));
          s.put(static_cast<uint64_t>(shared_offset(at, s.c.here)));
        }),
    row(Named{"cvta.to.global", "u64"}, 2, [](auto s) { s.put(s.template in<uint64_t>(1)); }),
    row(Named{"cvta.shared", "u32 u64"}, 2,
        [](auto s) { s.put(reinterpret_cast<uint64_t>(shared_pointer(s.u(1), s.c.here))); }),
};

inline constexpr auto kMemory = Table{
    row(loads, [](auto s) { load_or_store<true>(s); }),
    row(stores, [](auto s) { load_or_store<false>(s); }),
    row(adds_in_memory, [](auto s) { add_in_memory(s); }),
    row(copies, [](auto s) { copy(s); }),
    row(Exactly{"cp.async.commit_group"}, 0, [](auto) { copy_commit(); }),
    row(Exactly{"cp.async.wait_group"}, 1, [](auto s) { copy_wait(s.u(0)); }),
    row(Exactly{"cp.async.wait_all"}, 0,
        [](auto) {
          copy_commit();
          copy_wait(0);
        }),
};

}  // namespace simt::ptx
