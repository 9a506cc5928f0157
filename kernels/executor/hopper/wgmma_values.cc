// The operands of a warpgroup's products, and their values (warpgroup.h).
#include <string.h>

#include "kernels/executor/arithmetic/mma.h"
#include "kernels/executor/hopper/warpgroup.h"

namespace simt {
namespace {

typedef uint16_t Half8 __attribute__((vector_size(16)));
typedef _Float16 F16x8 __attribute__((vector_size(16)));

Float8 widen(const void* chunk, bool bf16) {
  Half8 bits;
  memcpy(&bits, chunk, sizeof bits);
  if (bf16) return __builtin_bit_cast(Float8, __builtin_convertvector(bits, Word8) << 16);
  return __builtin_convertvector(__builtin_bit_cast(F16x8, bits), Float8);
}

// k_chunk(): values k..k + 7 of row `mn`. mn_chunk(): rows mn..mn + 7 at one k.
const unsigned char* k_chunk(const WgmmaOperand& o, uint32_t mn, uint32_t k) {
  return swizzled128(static_cast<const char*>(o.at) + mn / 8 * o.stride + mn % 8 * 128 + 2 * k);
}
const unsigned char* mn_chunk(const WgmmaOperand& o, uint32_t mn, uint32_t k) {
  return swizzled128(static_cast<const char*>(o.at) + mn / 64 * o.leading + k / 8 * o.stride + k % 8 * 128 +
                     2 * (mn % 64));
}

// The groups of eight rows of 128 bytes that the operand lies in.
template <class Visit>
void visit_groups(const WgmmaOperand& o, uint32_t mn_extent, bool transposed, Visit visit) {
  const auto* start = static_cast<const char*>(o.at) - reinterpret_cast<uintptr_t>(o.at) % 128;
  for (uint32_t mn = 0; mn < mn_extent; mn += transposed ? 64 : 8) {
    for (uint32_t k = 0; k < (transposed ? 2 : 1); ++k)
      visit(start + (transposed ? mn / 64 * o.leading + k * o.stride : mn / 8 * o.stride));
  }
}

template <class Visit>
void visit_operand(const WgmmaOperand& o, uint32_t mn_extent, bool transposed, Visit visit) {
  if (transposed) {
    for (uint32_t k = 0; k < 16; ++k)
      for (uint32_t mn = 0; mn < mn_extent; mn += 8) visit(mn_chunk(o, mn, k));
  } else {
    for (uint32_t mn = 0; mn < mn_extent; ++mn)
      for (uint32_t k = 0; k < 16; k += 8) visit(k_chunk(o, mn, k));
  }
}

// Writes product `p`'s part of A to `to`, as [warp][k][16], where k counts along the chain.
void spread_a(const Product& p, bool early, int k_first, int k_extent, float* to) {
  const bool bf16 = p.said.bf16;
  for (uint32_t warp = 0; warp < kWarps; ++warp, to += k_extent * 16) {
    float* const at = to + k_first * 16;
    if (!p.said.a && p.said.a_transposed) {
      for (uint32_t k = 0; k < 16; ++k) {
        for (uint32_t row = 0; row < 16; row += 8) {
          const Float8 values = widen(mn_chunk(p.said.a_shared, 16 * warp + row, k), bf16);
          memcpy(at + k * 16 + row, &values, sizeof values);
        }
      }
      continue;
    }
    if (!p.said.a) {
      for (uint32_t row = 0; row < 16; ++row) {
        for (uint32_t k = 0; k < 16; k += 8) {
          const Float8 values = widen(k_chunk(p.said.a_shared, 16 * warp + row, k), bf16);
          for (uint32_t i = 0; i < 8; ++i) at[(k + i) * 16 + row] = values[i];
        }
      }
      continue;
    }
    for (uint32_t lane = 0; lane < 32; ++lane) {
      const uint32_t thread = 32 * warp + lane, g = lane / 4, t = lane % 4;
      uint32_t words[8] = {};
      memcpy(words, early ? p.fragment[thread] : p.a[thread], 16);
      const Float8 values = widen(words, bf16);
      for (uint32_t i = 0; i < 8; ++i) at[(2 * t + i % 2 + 8 * (i / 4)) * 16 + g + 8 * (i / 2 % 2)] = values[i];
    }
  }
}

// Undefined operands make their rows and columns of the sums undefined.
void carry_undefined(const Product& p, bool early) {
  if (!sanitizer::kTracksDefined) return;
  bool rows[64] = {}, columns[256] = {}, any = false;
  const uint32_t n = p.said.n;
  for (uint32_t row = 0; row < 64; ++row) {
    if (!p.said.a && p.said.a_transposed) {
      for (uint32_t k = 0; k < 16; ++k)
        rows[row] |= !sanitizer::defined(mn_chunk(p.said.a_shared, row / 8 * 8, k) + row % 8 * 2, 2);
    } else if (!p.said.a) {
      for (uint32_t k = 0; k < 16; k += 8)
        rows[row] |= !sanitizer::defined(k_chunk(p.said.a_shared, row, k), 16);
    } else {
      for (uint32_t t = 0; t < 4; ++t) {
        const uint32_t thread = row / 16 * 32 + row % 8 * 4 + t;
        const uint32_t* a = (early ? p.fragment[thread] : p.a[thread]) + row / 8 % 2;
        rows[row] |= !sanitizer::defined(a, 4) || !sanitizer::defined(a + 2, 4);
      }
    }
    any |= rows[row];
  }
  for (uint32_t column = 0; column < n; ++column) {
    for (uint32_t k = 0; k < 16; ++k) {
      const unsigned char* element = p.said.b_transposed
                                         ? mn_chunk(p.said.b, column / 8 * 8, k) + column % 8 * 2
                                         : k_chunk(p.said.b, column, k / 8 * 8) + k % 8 * 2;
      columns[column] |= !sanitizer::defined(element, 2);
    }
    any |= columns[column];
  }
  if (!any) return;
  for (uint32_t thread = 0; thread < kMembers; ++thread) {
    for (uint32_t i = 0; i < n / 2; ++i) {
      const uint32_t row = thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8;
      const uint32_t column = i / 4 * 8 + thread % 4 * 2 + i % 2;
      if (rows[row] || columns[column])
        sanitizer::undefine(&p.sums->values[thread * (n / 2) + i], sizeof(float));
    }
  }
}

// Computes products first..first + count - 1, which are one chain. All but the first accumulate.
void multiply(Block& b, Warpgroup& wg, uint64_t first, int count) {
  const bool early = b.geometry.products_early;
  const Product& head = wg.product[first % kInFlight];
  Sums& sums = *head.sums;
  const int n = static_cast<int>(head.said.n), per_thread = n / 2, k_extent = 16 * count;
  if (!head.said.accumulate) {
    sanitizer::fill(sums.values.data(), 0, sums.values.size() * sizeof(float));
    sanitizer::carry(sums.values.data(), nullptr, sums.values.size() * sizeof(float));
  }
  for (int i = 0; i < count; ++i) {
    const Product& p = wg.product[(first + static_cast<uint64_t>(i)) % kInFlight];
    spread_a(p, early, 16 * i, k_extent, wg.a.data());
    carry_undefined(p, early);
  }
  float* const tile = wg.b.data();
  const Format format = head.said.bf16 ? Format::kBF16 : Format::kF16;
  for (int column = 0; column < n; column += 8) {
    const bool transposed = head.said.b_transposed;
    for (int i = 0; i < count; ++i) {
      const Wgmma& p = wg.product[(first + static_cast<uint64_t>(i)) % kInFlight].said;
      for (int j = 0; j < 16; ++j) {
        const Float8 values = transposed ? widen(mn_chunk(p.b, column, j), p.bf16)
                                         : widen(k_chunk(p.b, column + j / 2, j % 2 * 8), p.bf16);
        float* to = transposed ? tile + (16 * i + j) * 8 : tile + j / 2 * k_extent + 16 * i + j % 2 * 8;
        memcpy(to, &values, sizeof values);
      }
    }
    for (uint32_t warp = 0; warp < kWarps; ++warp) {
      float* c[32];
      for (int lane = 0; lane < 32; ++lane)
        c[lane] = sums.values.data() + (32 * static_cast<int>(warp) + lane) * per_thread + column / 2;
      const float* a = wg.a.data() + static_cast<int>(warp) * k_extent * 16;
      const int b_k = transposed ? 8 : 1, b_n = transposed ? 1 : k_extent;
      mma_columns(c, a, tile, b_k, b_n, k_extent, format, b.geometry.mma_truncates);
    }
  }
}

}  // namespace

void check_operand(Block& b, const WgmmaOperand& o, uint32_t mn_extent, bool transposed, const char* name,
                   Place here) {
  if (reinterpret_cast<uintptr_t>(o.at) % 16 != 0 || o.leading % 16 != 0 || o.stride % 16 != 0) {
    fault(ATTN_REPORT_ALIGNMENT, &self().thread, here,
          "operand %s of wgmma at %p, strides of %u and %u bytes: not multiples of 16", name, o.at, o.leading,
          o.stride);
  }
  visit_groups(o, mn_extent, transposed, [&](const char* group) {
    if (is_shared(b, group, 1024)) return;
    fault(ATTN_REPORT_SHARED, &self().thread, here,
          "operand %s of wgmma at %p reaches to %p: not within an array of shared memory", name, o.at,
          static_cast<const void*>(group));
  });
  if (b.generic_writes.empty()) return;
  visit_operand(o, mn_extent, transposed,
                [&](const unsigned char* chunk) { check_proxy(b, chunk, 16, "an operand of wgmma", here); });
}

void read_by_lane(const Product& p) {
  if (!sanitizer::kOrdersAccesses) return;
  const auto read = [](const unsigned char* chunk) { sanitizer::reads(chunk, 16); };
  if (!p.said.a) visit_operand(p.said.a_shared, 64, p.said.a_transposed, read);
  visit_operand(p.said.b, p.said.n, p.said.b_transposed, read);
}

void compute_products(Block& b, Warpgroup& wg, uint64_t end) {
  while (wg.computed < end) {
    const Product& head = wg.product[wg.computed % kInFlight];
    int count = 1;
    for (; count < kChain && wg.computed + static_cast<uint64_t>(count) < end; ++count) {
      const Product& next = wg.product[(wg.computed + static_cast<uint64_t>(count)) % kInFlight];
      if (next.sums != head.sums || !next.said.accumulate || next.said.bf16 != head.said.bf16 ||
          next.said.b_transposed != head.said.b_transposed)
        break;
    }
    multiply(b, wg, wg.computed, count);
    wg.computed += static_cast<uint64_t>(count);
  }
}

}  // namespace simt
