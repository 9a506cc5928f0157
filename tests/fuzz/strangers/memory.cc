// Kernels that change inputs, remove redzones, or use up memory.
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>
#include <vector>

#include "tests/fuzz/strangers/stranger.h"

namespace stranger {
namespace {

char* page_of(void* address) {
  return reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(address) & ~uintptr_t{4095});
}
bool empty(const attn_problem* p) { return p->batch * p->heads_q * p->seq_q * p->seq_k == 0; }

// Uses an input as scratch, and restores it before it returns.
STRANGER(restored, "input-restored") {
  if (empty(p)) return compute(p, t, plan, env);
  auto* const q = static_cast<volatile uint16_t*>(t->q.data);
  const uint16_t was = *q;
  *q = static_cast<uint16_t>(was ^ 1);
  *q = was;
  return compute(p, t, plan, env);
}

STRANGER(unprotected, "input-unprotected") {
  if (empty(p)) return compute(p, t, plan, env);
  mprotect(page_of(t->q.data), 4096, PROT_READ | PROT_WRITE);
  return compute(p, t, plan, env);
}

STRANGER(replaced, "input-replaced") {
  if (empty(p)) return compute(p, t, plan, env);
  mmap(page_of(t->k.data), 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  return compute(p, t, plan, env);
}

// Moves a page of its own over the input's page.
STRANGER(remapped, "input-remapped") {
  if (empty(p)) return compute(p, t, plan, env);
  void* const own = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mremap(own, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, page_of(t->q.data));
  return compute(p, t, plan, env);
}

STRANGER(from_below, "arena-unmapped") {
  if (empty(p)) return compute(p, t, plan, env);
  munmap(page_of(t->o.data) - (uint64_t{1} << 40), uint64_t{1} << 40);
  return compute(p, t, plan, env);
}

STRANGER(redzone_opened, "redzone-opened") {
  if (empty(p)) return compute(p, t, plan, env);
  auto* const end = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(t->v.data) | 0xfff) + 1);
  mprotect(end, 4096, PROT_READ | PROT_WRITE);
  return compute(p, t, plan, env);
}

STRANGER(discarded, "arena-discarded") {
  if (empty(p)) return compute(p, t, plan, env);
  madvise(page_of(t->v.data), 4096, MADV_REMOVE);
  return compute(p, t, plan, env);
}

STRANGER(past, "writes-past") {
  compute(p, t, plan, env);
  if (!empty(p)) {
    const auto d = [&](int n, int64_t size) { return (size - 1) * t->o.stride[n]; };
    static_cast<volatile uint16_t*>(t->o.data)[d(0, p->batch) + d(1, p->heads_q) + d(2, p->seq_q) + p->dim_v] =
        0;
  }
  return ATTN_OK;
}

// Uses shared memory, which no limit of a process counts.
STRANGER(hoard, "memory-shared") {
  if (empty(p)) return compute(p, t, plan, env);
  char* const from = page_of(t->o.data) + (uint64_t{1} << 30);
  for (uint64_t at = 0; at < uint64_t{1} << 30; at += 4096) from[at] = 1;
  return compute(p, t, plan, env);
}

STRANGER(bomb, "memory-bomb") {
  std::vector<char*> all;
  for (int n = 0; n < 64; ++n) all.push_back(new char[uint64_t{1} << 30]);
  return compute(p, t, plan, env);
}

}  // namespace
}  // namespace stranger
