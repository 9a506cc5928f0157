// The threads' side of a warpgroup's products: they issue, commit and wait (warpgroup.h).
#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <bit>
#include <memory>

#include "kernels/executor/hopper/warpgroup.h"

namespace simt {
namespace {

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
  compute_products(b, wg, wg.complete);
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
    compute_products(b, wg, end);
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

}  // namespace simt
