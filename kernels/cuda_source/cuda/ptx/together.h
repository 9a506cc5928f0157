// Inline PTX that threads run together: matrices of a warp, shuffles, barriers, fences.
#pragma once

#include <stdint.h>
#include <string.h>

#include <type_traits>

#include "kernels/cuda_source/cuda/api.h"
#include "kernels/cuda_source/cuda/ptx/step.h"
#include "kernels/primitives/matrix.h"

namespace simt::ptx {

// ldmatrix: lane l holds the address of row l % 8 of matrix l / 8, and gets two adjacent elements of each
// matrix.
template <int kCount, bool kTrans>
struct LoadMatrix {
  static constexpr const char* kName = "ldmatrix";
  const void* row;
  uint32_t r[4];
  SIMT_SLOTS static void run(Lanes<LoadMatrix> lanes, const Meeting& meeting) {
    attn::cpu::need_lanes(meeting, kName);
    uint16_t matrix[4][8][8];
    for (int lane = 0; lane < 8 * kCount; ++lane) {
      attn::cpu::check_row(lanes[lane].row, lane, meeting, kName);
      attn::cpu::load_row(matrix[lane / 8][lane % 8], lanes[lane].row);
    }
    for (int lane = 0; lane < 32; ++lane) {
      const int g = lane / 4, t = lane % 4;
      for (int j = 0; j < kCount; ++j) {
        const uint32_t low = kTrans ? matrix[j][2 * t][g] : matrix[j][g][2 * t];
        const uint32_t high = kTrans ? matrix[j][2 * t + 1][g] : matrix[j][g][2 * t + 1];
        lanes[lane].r[j] = low | high << 16;
      }
    }
  }
};

// stmatrix: the inverse. `count` is the number of matrices.
template <bool kTrans>
struct StoreMatrix {
  static constexpr const char* kName = "stmatrix";
  void* row;
  uint32_t r[4];
  int count;
  SIMT_SLOTS static void run(Lanes<StoreMatrix> lanes, const Meeting& meeting) {
    attn::cpu::need_lanes(meeting, kName);
    for (int lane = 0; lane < 32; ++lane) {
      const int g = lane / 4, t = lane % 4;
      for (int j = 0; j < lanes[lane].count; ++j) {
        for (int half = 0; half < 2; ++half) {
          const auto value = static_cast<uint16_t>(lanes[lane].r[j] >> 16 * half);
          const int i = kTrans ? 2 * t + half : g, column = kTrans ? g : 2 * t + half;
          attn::cpu::check_row(lanes[8 * j + i].row, 8 * j + i, meeting, kName);
          memcpy(static_cast<uint16_t*>(lanes[8 * j + i].row) + column, &value, sizeof value);
        }
      }
    }
  }
};

constexpr bool loads_matrix(const Instruction& now) {
  return begins(now.op, "ldmatrix.sync.aligned") && has(now.op, "m8n8") && last_part(now.op) == "b16";
}
constexpr bool stores_matrix(const Instruction& now) {
  return begins(now.op, "stmatrix.sync.aligned") && has(now.op, "m8n8") && last_part(now.op) == "b16";
}
constexpr bool multiplies_matrices(const Instruction& now) {
  return begins(now.op, "mma.sync.aligned") && (has(now.op, "m16n8k16") || has(now.op, "m16n8k8")) &&
         has(now.op, "row") && has(now.op, "col") && !has(now.op, "tf32") && !has(now.op, "s32");
}

template <class S>
inline void load_matrix(S s) {
  constexpr int kCount = s.kOperands[0].count;
  static_assert(kCount == (has(s.kOp, "x4")   ? 4
                           : has(s.kOp, "x2") ? 2
                                              : 1),
                "ldmatrix: as many registers as matrices");
  LoadMatrix<kCount, has(s.kOp, "trans")> load{};
  if (static_cast<int>(current->linear % 32) < 8 * kCount)
    load.row = address(s.kOperands[1], s.c, has(s.kOp, "shared"));
  meet(load, kFullMask, s.c.here);
  for (int i = 0; i < kCount; ++i) s.put_part(i, load.r[i]);
}

template <class S>
inline void store_matrix(S s) {
  StoreMatrix<has(s.kOp, "trans")> store{};
  store.count = s.kOperands[1].count;
  if (static_cast<int>(current->linear % 32) < 8 * store.count)
    store.row = address(s.kOperands[0], s.c, has(s.kOp, "shared"));
  s.words(1, store.r);
  meet(store, kFullMask, s.c.here);
}

// mma of 16-bit factors. Sums are fp32, or fp16 with two in a register. k8 runs as k16 with zeros in the other
// half.
template <class S>
inline void multiply_matrices(S s) {
  using T = std::conditional_t<has(s.kOp, "bf16"), attn::BF16, attn::F16>;
  constexpr bool kHalfSums = s.kOperands[0].count == 2;
  constexpr const Operand& kSums = s.kOperands[3];
  uint32_t a[4] = {}, b[2] = {};
  float sum[4];
  s.words(1, a);
  s.words(2, b);
  if constexpr (kHalfSums) {
    for (int i = 0; i < 2; ++i)
      attn::unpack2<attn::F16>(s.c.template read<uint32_t>(kSums.parts[i]), sum[2 * i], sum[2 * i + 1]);
  } else {
    for (int i = 0; i < 4; ++i) sum[i] = s.c.template read<float>(kSums.parts[i]);
  }
  attn::mma16816<T>(sum, a, b, s.c.here);
  if constexpr (kHalfSums) {
    for (int i = 0; i < 2; ++i) s.put_part(i, attn::pack2<attn::F16>(sum[2 * i], sum[2 * i + 1]));
  } else {
    for (int i = 0; i < 4; ++i) s.put_part(i, sum[i]);
  }
}

// The clamp of shfl holds 32 - width in bits 8 to 12.
template <class S>
inline void shuffle_lanes(S s) {
  const uint32_t value = s.u(1), mask = s.u(4);
  const int amount = static_cast<int>(s.u(2)), width = 32 - static_cast<int>(s.u(3) >> 8 & 31);
  if constexpr (has(s.kOp, "bfly")) s.put(shuffle<Shift::kXor>(mask, value, amount, width, s.c.here));
  if constexpr (has(s.kOp, "idx")) s.put(shuffle<Shift::kFrom>(mask, value, amount, width, s.c.here));
  if constexpr (has(s.kOp, "up")) s.put(shuffle<Shift::kUp>(mask, value, amount, width, s.c.here));
  if constexpr (has(s.kOp, "down")) s.put(shuffle<Shift::kDown>(mask, value, amount, width, s.c.here));
}

inline constexpr auto kWarp = Table{
    row(loads_matrix, [](auto s) { load_matrix(s); }),
    row(stores_matrix, [](auto s) { store_matrix(s); }),
    row(multiplies_matrices, [](auto s) { multiply_matrices(s); }),
    row(Named{"shfl.sync", "b32"}, [](auto s) { shuffle_lanes(s); }),
    row(Named{"bar.warp.sync"},
        [](auto s) {
          PlainSync sync;
          meet(sync, s.u(0), s.c.here);
        }),
};

constexpr bool waits_at_barrier(const Instruction& now) {
  return begins(now.op, "bar.sync") || begins(now.op, "barrier.sync") || begins(now.op, "barrier.cta.sync");
}
constexpr bool arrives_at_barrier(const Instruction& now) {
  return begins(now.op, "bar.arrive") || begins(now.op, "barrier.arrive");
}
// Instructions that order memory, or that only advise the hardware.
constexpr bool orders(const Instruction& now) {
  for (const std::string_view name : {"membar", "fence", "prefetch", "griddepcontrol", "nop", "discard"}) {
    if (begins(now.op, name)) return true;
  }
  return false;
}

inline constexpr auto kBlock = Table{
    row(waits_at_barrier,
        [](auto s) { barrier(s.u(0), s.kNow.count > 1 ? s.u(1) : kWholeBlock, true, s.c.here); }),
    row(arrives_at_barrier, [](auto s) { barrier(s.u(0), s.u(1), false, s.c.here); }),
    row(orders, [](auto) { __threadfence(); }),
    row(Named{"trap"}, [](auto s) { __trap(s.c.here); }),
};

}  // namespace simt::ptx
