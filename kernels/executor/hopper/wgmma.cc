// Products of a warpgroup (hopper.h). Each thread numbers its products, and the number is the same in all
// threads: a thread's n-th product is its part of the warpgroup's n-th product.
//
// The executor keeps the sums of the products in flight as the lanes' fragments. Products with the same
// accumulators form a chain, and the wait that covers the chain's last product writes the sums back. A late
// chain is computed at once, with all its k side by side.
#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <bit>
#include <memory>

#include "kernels/executor/arithmetic/mma.h"
#include "kernels/executor/threads/block.h"

namespace simt {
namespace {

constexpr uint32_t kMembers = 128, kWarps = 4;
constexpr uint64_t kInFlight = 128;  // products: three batches, if threads of a warpgroup are a batch apart
constexpr uint32_t kRegisters = 65536;
constexpr int kChain = 16;  // the most products that are computed at once

struct Sums {
  float* d[kMembers] = {};  // each thread's accumulators; null if it has no product in flight on these sums
  uint32_t users = 0;
  uint64_t last = 0;          // the number of the last product
  std::vector<float> values;  // [thread][n / 2]
};

struct Product {
  Wgmma said;  // the arguments that the first thread passed
  Place here;
  uint32_t issued, landed;  // the number of threads that have issued it, and that have waited for it
  Sums* sums;
  const uint32_t* a[kMembers];
  uint32_t fragment[kMembers][4];  // A in registers, if operands are read early
};

}  // namespace

struct Warpgroup {
  uint64_t first = 0;     // the first product that a thread has yet to wait for
  uint64_t begun = 0;     // products that some thread has issued
  uint64_t complete = 0;  // products that all threads have issued
  uint64_t computed = 0;
  uint64_t waited = 0;   // products that some thread has waited for
  uint64_t awaited = 0;  // the number of complete products that the waiting threads need
  uint32_t waiting[kWarps] = {};
  Product product[kInFlight];
  std::vector<std::unique_ptr<Sums>> sums;
  std::vector<float> a = std::vector<float>(kWarps * kChain * 16 * 16);  // [warp][k][16]
  std::vector<float> b = std::vector<float>(kChain * 16 * 8);
  char order_tag = 0;
  // The state of set_registers().
  uint32_t registers = 0, asked = 0, askers = 0;
  bool increases = false;
  Place asked_here{};
};

namespace {

Warpgroup& warpgroup_of(Block& b, const Lane& me, const char* word, Place here) {
  const uint32_t number = me.thread.linear / kMembers;
  if ((number + 1) * kMembers > b.threads) {
    fault(ATTN_REPORT_DIVERGENCE, &me.thread, here, "%s in a warpgroup of less than 128 threads", word);
  }
  if (b.warpgroups.size() <= number) {
    const sanitizer::Unseen books;
    while (b.warpgroups.size() <= number) b.warpgroups.push_back(new Warpgroup);  // for the OS thread's life
  }
  b.asynchronous = true;
  return *b.warpgroups[number];
}

// --- Operands --------------------------------------------------------------

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

void compute(Block& b, Warpgroup& wg, uint64_t end) {
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

// --- Issuing -----------------------------------------------------------------

bool same_operand(const WgmmaOperand& a, const WgmmaOperand& b) {
  return a.at == b.at && a.leading == b.leading && a.stride == b.stride;
}

// Compares this thread's arguments of a product with those of the first thread.
void check_same(const Lane& me, const Product& p, const Wgmma& said, const Sums* mine, Place here) {
  const uint32_t member = me.thread.linear % kMembers;
  const char* what = !same(p.here, here) ? "place"
                     : p.said.n != said.n || p.said.bf16 != said.bf16 ||
                             p.said.a_transposed != said.a_transposed ||
                             p.said.b_transposed != said.b_transposed || !p.said.a != !said.a
                         ? "shape"
                     : !p.said.a && !same_operand(p.said.a_shared, said.a_shared) ? "operand A"
                     : !same_operand(p.said.b, said.b)                            ? "operand B"
                     : p.said.accumulate != said.accumulate ? "answer to whether it accumulates"
                     : mine ? (mine == p.sums ? nullptr : "array of accumulators")
                            : (p.sums->d[member] ? "array of accumulators" : nullptr);
  if (!what) return;
  fault(ATTN_REPORT_DIVERGENCE, &me.thread, here,
        "wgmma with another %s than other threads of the warpgroup, at %s:%d", what, p.here.file, p.here.line);
}

Sums& unused_sums(Warpgroup& wg, uint32_t n) {
  const sanitizer::Unseen books;
  auto found = std::ranges::find(wg.sums, 0u, [](const auto& sums) { return sums->users; });
  if (found == wg.sums.end()) found = wg.sums.insert(found, std::make_unique<Sums>());
  (*found)->values.resize(kMembers * n / 2);
  return **found;
}

// Hands the accumulators to the executor until the product is waited for.
void take_accumulators(Sums& sums, uint32_t member, float* d, uint32_t count) {
  sums.d[member] = d;
  ++sums.users;
  float* values = sums.values.data() + member * count;
  sanitizer::copy(values, d, count * sizeof(float));
  sanitizer::carry(values, d, count * sizeof(float));
  sanitizer::fill(d, 0xFF, count * sizeof(float));
  sanitizer::undefine(d, count * sizeof(float));
}

void give_accumulators(const Lane& me, const Warpgroup& wg, Sums& sums, uint32_t member) {
  const Product& last = wg.product[sums.last % kInFlight];
  const uint32_t count = last.said.n / 2;
  float* d = sums.d[member];
  const auto* bytes = reinterpret_cast<const unsigned char*>(d);
  if (!std::all_of(bytes, bytes + count * sizeof(float), [](unsigned char byte) { return byte == 0xFF; })) {
    fault(ATTN_REPORT_ASYNC, &me.thread, last.here,
          "accumulators were written before the product was waited for");
  }
  const float* values = sums.values.data() + member * count;
  sanitizer::copy(d, values, count * sizeof(float));
  sanitizer::carry(d, values, count * sizeof(float));
  sums.d[member] = nullptr;
  --sums.users;
}

void wake(Block& b, Warpgroup& wg, uint32_t first_warp) {
  for (uint32_t warp = 0; warp < kWarps; ++warp) {
    make_ready(b, b.warp_state[first_warp + warp], wg.waiting[warp]);
    wg.waiting[warp] = 0;
  }
}

}  // namespace

void wgmma(const Wgmma& said, Place here) {
  Block& b = running();
  Lane& me = self();
  Warpgroup& wg = warpgroup_of(b, me, "wgmma", here);
  const uint32_t member = me.thread.linear % kMembers;
  const uint64_t number = me.products.issued;
  Sums* sums = nullptr;
  for (const auto& each : wg.sums) {
    if (each->d[member] == said.d) sums = each.get();
  }
  if (!me.products.fenced && (said.a || !sums)) {
    fault(ATTN_REPORT_ASYNC, &me.thread, here, "a product without wgmma_fence since the last wait or commit%s",
          said.a ? ": its operand in registers" : "");
  }
  if (number - wg.first >= kInFlight) {
    fault(ATTN_REPORT_ASYNC, &me.thread, here, "more than %d products that nobody waited for",
          static_cast<int>(kInFlight));
  }
  Product& p = wg.product[number % kInFlight];
  if (number == wg.begun) {
    if (said.n == 0 || said.n > 256 || said.n % 8 != 0) {
      fault(ATTN_REPORT_DIVERGENCE, &me.thread, here, "wgmma of %u columns: a multiple of 8 up to 256", said.n);
    }
    p.said = said;
    p.here = here;
    p.issued = p.landed = 0;
    p.sums = sums ? sums : &unused_sums(wg, said.n);
    p.sums->last = number;
    ++wg.begun;
  } else {
    check_same(me, p, said, sums, here);
  }
  if (!sums) take_accumulators(*p.sums, member, said.d, said.n / 2);
  p.a[member] = said.a;
  if (said.a && b.geometry.products_early) {
    memcpy(p.fragment[member], said.a, 16);
    sanitizer::carry(p.fragment[member], said.a, 16);
  }
  ++me.products.issued;
  if (++p.issued < kMembers) return;
  wg.complete = number + 1;
  if (!said.a) check_operand(b, said.a_shared, 64, said.a_transposed, "A", here);
  check_operand(b, said.b, said.n, said.b_transposed, "B", here);
  read_by_lane(p);
  sanitizer::release(&wg.order_tag);
  if (!b.geometry.products_early) return;
  compute(b, wg, wg.complete);
  if (wg.complete >= wg.awaited) wake(b, wg, me.thread.linear / kMembers * kWarps);
}

void wgmma_fence(Place) { self().products.fenced = true; }

void wgmma_commit(Place) {
  ProductState& mine = self().products;
  mine.fenced = false;
  mine.group_ends.push_back(mine.issued);
}

void wgmma_wait(uint32_t groups_left, Place here) {
  Block& b = running();
  Lane& me = self();
  ProductState& mine = me.products;
  mine.fenced = false;
  if (mine.group_ends.size() <= groups_left) return;
  const size_t closed = mine.group_ends.size() - groups_left;
  const uint64_t end = mine.group_ends[closed - 1];
  mine.group_ends.erase(mine.group_ends.begin(), mine.group_ends.begin() + static_cast<ptrdiff_t>(closed));
  if (end == mine.landed) return;
  Warpgroup& wg = warpgroup_of(b, me, "wgmma_wait", here);
  const uint32_t member = me.thread.linear % kMembers;
  if (sanitizer::kOrdersAccesses && wg.waited < end) {
    for (uint64_t i = wg.waited; i < end; ++i) read_by_lane(wg.product[i % kInFlight]);
    wg.waited = end;
    sanitizer::release(&wg.order_tag);
  }
  while (wg.computed < end) {
    wg.awaited = std::max(wg.awaited, end);
    wg.waiting[member / kWarpSize] |= me.bit;
    me.warp->barrier_place[std::countr_zero(me.bit)] = here;
    wait_in_warp(b, me);
  }
  sanitizer::acquire(&wg.order_tag);
  for (const auto& sums : wg.sums) {
    if (sums->d[member] && sums->last < end) give_accumulators(me, wg, *sums, member);
  }
  for (; mine.landed < end; ++mine.landed) ++wg.product[mine.landed % kInFlight].landed;
  while (wg.first < wg.complete && wg.product[wg.first % kInFlight].landed == kMembers) ++wg.first;
}

bool land_products(Block& b) {
  for (uint32_t i = 0; i < b.warpgroups.size(); ++i) {
    Warpgroup& wg = *b.warpgroups[i];
    const uint64_t end = std::min(wg.complete, wg.awaited);
    if (wg.computed >= end) continue;
    compute(b, wg, end);
    wake(b, wg, i * kWarps);
    return true;
  }
  return false;
}

void check_products(Block& b, Lane& lane) {
  const Warpgroup& wg = *b.warpgroups[lane.thread.linear / kMembers];
  record_fault(b, ATTN_REPORT_ASYNC, lane.thread.index, wg.product[lane.products.landed % kInFlight].here,
               "the thread ended with %d products that it never waited for",
               static_cast<int>(lane.products.issued - lane.products.landed));
}

size_t describe_warpgroup(const Block& b, const Lane& waiting, char* to, size_t size) {
  const uint32_t linear = waiting.thread.linear;
  if (linear / kMembers >= b.warpgroups.size()) return 0;
  const Warpgroup& wg = *b.warpgroups[linear / kMembers];
  if (!(wg.waiting[linear % kMembers / kWarpSize] & waiting.bit)) return 0;
  const Product& p = wg.product[wg.complete % kInFlight];
  return static_cast<size_t>(
      snprintf(to, size, "in wgmma_wait for the product at line %d (%u of 128 threads have issued it)",
               p.here.line, p.issued));
}

// --- Registers ----------------------------------------------------------------

void set_registers(uint32_t count, bool increase, Place here) {
  Block& b = running();
  const Thread* me = &self().thread;
  Warpgroup& wg = warpgroup_of(b, self(), "set_registers", here);
  if (count < 24 || count > 256 || count % 8 != 0) {
    fault(ATTN_REPORT_DIVERGENCE, me, here, "%u registers a thread: a multiple of 8 in 24..256", count);
  }
  if (wg.askers && (wg.asked != count || wg.increases != increase)) {
    fault(ATTN_REPORT_DIVERGENCE, me, here,
          "%u registers a thread, where others of the warpgroup asked for %u at %s:%d", count, wg.asked,
          wg.asked_here.file, wg.asked_here.line);
  }
  wg.asked = count;
  wg.increases = increase;
  wg.asked_here = here;
  if (++wg.askers < kMembers) return;
  wg.askers = 0;
  wg.registers = count;
}

void check_warpgroups(Block& b) {
  uint32_t held = 0;
  const Warpgroup* taker = nullptr;
  uint32_t taker_number = 0;
  for (uint32_t i = 0; i < b.warpgroups.size(); ++i) {
    const Warpgroup& wg = *b.warpgroups[i];
    if (wg.askers) {
      record_fault(b, ATTN_REPORT_DIVERGENCE, b.lane(i * kMembers).thread.index, wg.asked_here,
                   "%u of the 128 threads of a warpgroup asked for %u registers", wg.askers, wg.asked);
      return;
    }
    if (wg.registers && wg.increases) taker = &wg, taker_number = i;
  }
  if (!taker) return;
  // A warpgroup that did not ask has the registers that it was launched with, at most this number.
  const uint32_t launched = std::min(kRegisters / b.threads / 8 * 8, 255u);
  for (uint32_t i = 0; i < b.threads / kMembers; ++i) {
    const bool asked = i < b.warpgroups.size() && b.warpgroups[i]->registers;
    held += kMembers * (asked ? b.warpgroups[i]->registers : launched);
  }
  if (held <= launched * b.threads) return;
  record_fault(b, ATTN_REPORT_DEADLOCK, b.lane(taker_number * kMembers).thread.index, taker->asked_here,
               "the block's warpgroups hold %u registers together, of %u that it was launched with: it would "
               "wait for ever",
               held, launched * b.threads);
}

void reset_warpgroups(Block& b) {
  for (Warpgroup* wg : b.warpgroups) {
    wg->first = wg->begun = wg->complete = wg->computed = wg->waited = wg->awaited = 0;
    for (uint32_t& lanes : wg->waiting) lanes = 0;
    wg->registers = wg->askers = 0;
    wg->sums.clear();
  }
}

}  // namespace simt
