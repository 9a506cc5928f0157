// Inline PTX that moves data: registers, addresses, loads and stores, asynchronous copies, atomics.
#pragma once

#include <string.h>

#include "kernels/cuda_source/cuda/ptx/step.h"
#include "kernels/primitives/copy.h"

namespace simt::ptx {

// mov between a register and its parts in braces.
constexpr bool packs(const Instruction& now) {
  return begins(now.op, "mov") && now.count == 2 && (now.operands[0].count > 1 || now.operands[1].count > 1);
}
constexpr bool loads(const Instruction& now) {
  return begins(now.op, "ld") && !has(now.op, "bulk") && !has(now.op, "param");
}
constexpr bool stores(const Instruction& now) {
  return begins(now.op, "st") && !has(now.op, "bulk") && !has(now.op, "param");
}
constexpr bool copies(const Instruction& now) {
  return (begins(now.op, "cp.async.ca.shared") || begins(now.op, "cp.async.cg.shared")) &&
         has(now.op, "global");
}
constexpr bool adds_in_memory(const Instruction& now) {
  const std::string_view type = last_part(now.op);
  return (begins(now.op, "red") || begins(now.op, "atom")) && has(now.op, "add") &&
         (type == "f32" || type == "u32" || type == "s32");
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
  if constexpr (s.kOperands[1].parts[0].kind == Value::kSpecial) {
    static_assert(known_special(s.kOperands[1].parts[0].name),
                  "inline PTX: a special register that the executor does not know");
  }
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
  static_assert(kBytes > 0, "inline PTX: a load or store of a type that the executor does not know");
  constexpr const Operand& kWhere = s.kOperands[kLoad ? 1 : 0];
  constexpr const Operand& kWhat = s.kOperands[kLoad ? 0 : 1];
  char* const at = address(kWhere, s.c, has(s.kOp, "shared"));
  if (reinterpret_cast<uintptr_t>(at) % (kBytes * kWhat.count) != 0)
    fault(ATTN_REPORT_ALIGNMENT, current, s.c.here, "ld or st of %zu bytes at %p: not a multiple of this size",
          kBytes * kWhat.count, static_cast<void*>(at));
  using I = Integer<kBytes, false>;
  for (int i = 0; i < kWhat.count; ++i) {
    I value;
    if constexpr (kLoad) {
      memcpy(&value, at + kBytes * static_cast<size_t>(i), kBytes);
      s.c.write(kWhat.parts[i], value);
    } else {
      value = s.c.template read<I>(kWhat.parts[i]);
      memcpy(at + kBytes * static_cast<size_t>(i), &value, kBytes);
    }
  }
}

// cp.async to shared memory: operand 3, if there is one, is how many of the bytes are read; the others become
// zeros.
template <class S>
inline void copy(S s) {
  const uint32_t bytes = s.u(2), given = s.kNow.count > 3 ? s.u(3) : bytes;
  const char* from = address(s.kOperands[1], s.c, false);
#if SIMT_ASAN
  for (uint32_t i = 0; i < given; ++i) (void)*static_cast<const volatile char*>(from + i);  // as in copy.h
#endif
  copy_async(address(s.kOperands[0], s.c, true), from, bytes, given < bytes ? given : bytes, s.c.here);
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
    row(Named{"mov"}, [](auto s) { move(s); }),
    row(Named{"cvta.to.shared"},
        [](auto s) {
          const auto* at = reinterpret_cast<const void*>(s.template in<uint64_t>(1));
          s.put(static_cast<uint64_t>(shared_offset(at, s.c.here)));
        }),
    row(Named{"cvta.to.global"}, [](auto s) { s.put(s.template in<uint64_t>(1)); }),
    row(Named{"cvta.shared"},
        [](auto s) { s.put(reinterpret_cast<uint64_t>(shared_pointer(s.u(1), s.c.here))); }),
};

inline constexpr auto kMemory = Table{
    row(loads, [](auto s) { load_or_store<true>(s); }),
    row(stores, [](auto s) { load_or_store<false>(s); }),
    row(adds_in_memory, [](auto s) { add_in_memory(s); }),
    row(copies, [](auto s) { copy(s); }),
    row(Named{"cp.async.commit_group"}, [](auto) { copy_commit(); }),
    row(Named{"cp.async.wait_group"}, [](auto s) { copy_wait(s.u(0)); }),
    row(Named{"cp.async.wait_all"},
        [](auto) {
          copy_commit();
          copy_wait(0);
        }),
};

}  // namespace simt::ptx
