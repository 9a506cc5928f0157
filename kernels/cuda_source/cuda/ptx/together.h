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

// An address, and as many registers in braces as the opcode says.
constexpr bool moves_matrices(const Instruction& now, std::string_view op, int address, int data) {
  const int parts = has(now.op, "x4") ? 4 : has(now.op, "x2") ? 2 : 1;
  return Named{op, "b16", "m8n8 x1 x2 x4 trans shared shared::cta"}(now) && has(now.op, "m8n8") &&
         now.count == 2 && now.operands[address].address && now.operands[data].count == parts;
}
constexpr bool loads_matrix(const Instruction& now) {
  return moves_matrices(now, "ldmatrix.sync.aligned", 1, 0);
}
constexpr bool stores_matrix(const Instruction& now) {
  return moves_matrices(now, "stmatrix.sync.aligned", 0, 1);
}

constexpr bool multiplies_matrices(const Instruction& now) {
  constexpr std::string_view kOp = "mma.sync.aligned";
  if (!begins(now.op, kOp) || now.count != 4) return false;
  const std::string_view rest = now.op.substr(kOp.size()), shape = rest.substr(0, rest.find('.', 1));
  const bool deep = shape == ".m16n8k16", halves = last_part(now.op) == "f16";
  const int a = deep ? 4 : 2, b = deep ? 2 : 1, sums = halves ? 2 : 4;
  return is_one_of(shape, ".m16n8k16 .m16n8k8") &&
         is_one_of(rest.substr(shape.size()),
                   ".row.col.f32.f16.f16.f32 .row.col.f32.bf16.bf16.f32 .row.col.f16.f16.f16.f16") &&
         now.operands[0].count == sums && now.operands[1].count == a && now.operands[2].count == b &&
         now.operands[3].count == sums;
}

template <class S>
inline void load_matrix(S s) {
  constexpr int kCount = s.kOperands[0].count;
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

// shfl.sync.mode.b32 d{|p}, value, amount, clamp, mask. Bits 8 to 12 of the clamp are the bits of a lane's
// number that name its segment.
constexpr bool shuffles(const Instruction& now) {
  bool plain = now.count == 5 && now.operands[0].count <= 2;
  for (int i = 1; i < now.count; ++i) plain = plain && now.operands[i].count == 1 && !now.operands[i].address;
  return plain &&
         (is_one_of(now.op, "shfl.sync.up.b32 shfl.sync.down.b32 shfl.sync.bfly.b32 shfl.sync.idx.b32"));
}
template <class S>
inline void shuffle_lanes(S s) {
  const uint32_t value = s.u(1), clamp = s.u(3), mask = s.u(4);
  const int lane = static_cast<int>(current->linear % 32), amount = static_cast<int>(s.u(2) & 31);
  const int segment = static_cast<int>(clamp >> 8 & 31), first = lane & segment;
  const int limit = first | (static_cast<int>(clamp & 31) & ~segment);
  const int from = has(s.kOp, "up")     ? lane - amount
                   : has(s.kOp, "down") ? lane + amount
                   : has(s.kOp, "bfly") ? lane ^ amount
                                        : first | (amount & ~segment);
  const bool within = has(s.kOp, "up") ? from >= limit : from <= limit;
  s.put(shuffle<Shift::kFrom>(mask, value, within ? from : lane, 32, s.c.here));
  if constexpr (s.kOperands[0].count == 2) s.put_part(1, within);
}

inline constexpr auto kWarp = Table{
    row(loads_matrix, [](auto s) { load_matrix(s); }),
    row(stores_matrix, [](auto s) { store_matrix(s); }),
    row(multiplies_matrices, [](auto s) { multiply_matrices(s); }),
    row(shuffles, [](auto s) { shuffle_lanes(s); }),
    row(Exactly{"bar.warp.sync"}, 1,
        [](auto s) {
          PlainSync sync;
          meet(sync, s.u(0), s.c.here);
        }),
};

constexpr bool waits_at_barrier(const Instruction& now) {
  return is_one_of(now.op,
                   "bar.sync bar.cta.sync barrier.sync barrier.sync.aligned barrier.cta.sync "
                   "barrier.cta.sync.aligned") &&
         (has_operands(now, 1) || has_operands(now, 2));
}
constexpr bool arrives_at_barrier(const Instruction& now) {
  return is_one_of(now.op,
                   "bar.arrive bar.cta.arrive barrier.arrive barrier.arrive.aligned barrier.cta.arrive "
                   "barrier.cta.arrive.aligned") &&
         has_operands(now, 2);
}
// Instructions that order memory, or that only advise the hardware.
constexpr bool orders(const Instruction& now) {
  for (const std::string_view name : {"membar", "fence", "prefetch", "prefetchu", "griddepcontrol"}) {
    if (begins(now.op, name)) return true;
  }
  return false;
}

inline constexpr auto kBlock = Table{
    row(waits_at_barrier,
        [](auto s) { barrier(s.u(0), s.kNow.count > 1 ? s.u(1) : kWholeBlock, true, s.c.here); }),
    row(arrives_at_barrier, [](auto s) { barrier(s.u(0), s.u(1), false, s.c.here); }),
    row(orders, [](auto) { __threadfence(); }),
    row(Exactly{"trap"}, 0, [](auto s) { __trap(s.c.here); }),
};

}  // namespace simt::ptx
