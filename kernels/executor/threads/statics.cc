// __shared__ arrays of plain CUDA code are thread_local variables of the module that holds the kernel. This
// file finds the thread-local memory of that module and fills it with 0xFF at the start of each block.
//
// The loader keeps that memory on the heap, where a write past an array's end could cause any failure, much
// later. So the memory is moved to pages of its own, with redzones that are checked when a block ends and
// inaccessible pages around them. Builds for a sanitizer leave it where it is: AddressSanitizer watches the
// heap itself.
//
// A module that also holds the executor is left alone: other libraries and the executor keep their state in the
// same memory.
//
// static_sizes.cc says how many bytes of them a kernel has.
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <map>

#include "kernels/executor/threads/block.h"

extern "C" void* __tls_get_addr(void* index);  // of the dynamic loader

namespace simt {
namespace {

struct Search {
  uintptr_t kernel;
  uintptr_t executor;
  Statics found;
};

bool holds(const dl_phdr_info& info, uintptr_t address) {
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const auto& segment = info.dlpi_phdr[i];
    const uintptr_t begin = info.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && address >= begin && address < begin + segment.p_memsz) return true;
  }
  return false;
}

int visit(dl_phdr_info* info, size_t, void* data) {
  Search& search = *static_cast<Search*>(data);
  if (!holds(*info, search.kernel)) return 0;
  if (holds(*info, search.executor)) return 1;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type == PT_TLS) {
      search.found = {info->dlpi_tls_modid, info->dlpi_phdr[i].p_memsz, info->dlpi_name, info->dlpi_addr};
    }
  }
  return 1;
}

}  // namespace

Statics find_statics(const void* kernel) {
  Search search{reinterpret_cast<uintptr_t>(kernel), reinterpret_cast<uintptr_t>(&visit), {}};
  dl_iterate_phdr(visit, &search);
  return search.found;
}

namespace {

// Asks the loader, which allocates the memory if this thread has not touched it yet.
void* memory_of(size_t module) {
  struct {
    unsigned long module, offset;
  } index{module, 0};
  return __tls_get_addr(&index);
}

#if defined(__x86_64__) && defined(__GLIBC__) && !defined(SIMT_BUILD_ASAN) && !defined(SIMT_BUILD_MSAN) && \
    !defined(SIMT_BUILD_TSAN)

constexpr size_t kPage = 4096, kZone = 1024, kOutOfBounds = 16 * kPage;

// 0xFFE1 is a NaN in fp16 and bf16, and twice in a row in fp32. The poison of arrays is another NaN.
constexpr uint64_t kPattern = 0xFFE1FFE1FFE1FFE1;

// glibc's entry of a module in the vector that the thread's control block points to.
struct ThreadMemory {
  void* value;
  void* to_free;  // null if the memory is as old as the thread: code may then address it by a fixed offset
};

// The address to which a module's arrays were moved, for this OS thread; null if they were not moved.
std::map<size_t, unsigned char*>& fenced() {
  static thread_local std::map<size_t, unsigned char*> places;
  return places;
}

void draw_zones(unsigned char* arrays, size_t bytes) {
  for (unsigned char* zone : {arrays - kZone, arrays + bytes}) {
    for (size_t at = 0; at < kZone; at += sizeof kPattern) memcpy(zone + at, &kPattern, sizeof kPattern);
  }
}

void fence(size_t module, size_t bytes) {
  void* const old = memory_of(module);
  ThreadMemory* vector;
  asm("movq %%fs:8, %0" : "=r"(vector));
  if (vector[module].value != old || vector[module].to_free == nullptr) return;
  const size_t open = kPage + (bytes + kZone + kPage - 1) / kPage * kPage;
  void* const mapped = mmap(nullptr, open + 2 * kOutOfBounds, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return;
  unsigned char* const first = static_cast<unsigned char*>(mapped) + kOutOfBounds;
  unsigned char* const arrays = first + kPage;
  if (mprotect(first, open, PROT_READ | PROT_WRITE) != 0) return;
  memcpy(arrays, old, bytes);
  vector[module].value = arrays;
  if (memory_of(module) != arrays) {
    vector[module].value = old;
    return;
  }
  draw_zones(arrays, bytes);
  fenced()[module] = arrays;
}

void put_apart(size_t module, size_t bytes) {
  if (fenced().emplace(module, nullptr).second) fence(module, bytes);
}

bool changed(const unsigned char* zone, size_t at) {
  return zone[at] != reinterpret_cast<const unsigned char*>(&kPattern)[at % sizeof kPattern];
}

bool changed(const unsigned char* zone) {
  uint64_t differs = 0, word;
  for (size_t at = 0; at < kZone; at += sizeof word) {
    memcpy(&word, zone + at, sizeof word);
    differs |= word ^ kPattern;
  }
  return differs != 0;
}

// Reports writes of a block to the redzones around the module's arrays.
void check_zones(Block& b, const Statics& statics) {
  const auto found = fenced().find(statics.module);
  if (found == fenced().end() || !found->second) return;
  const unsigned char *const before = found->second - kZone, *const behind = found->second + statics.bytes;
  constexpr const char* kWords =
      "a write %zu bytes %s the static __shared__ arrays, found when the block ended";
  size_t at = 0;
  if (changed(behind)) {
    while (!changed(behind, at)) ++at;
    record_fault(b, ATTN_REPORT_SHARED, {0, 0, 0}, {nullptr, 0}, kWords, at, "past the end of");
  } else if (changed(before)) {
    while (!changed(before, kZone - ++at)) {
    }
    record_fault(b, ATTN_REPORT_SHARED, {0, 0, 0}, {nullptr, 0}, kWords, at, "before");
  } else {
    return;
  }
  draw_zones(found->second, statics.bytes);
}

#else

void put_apart(size_t, size_t) {}
void check_zones(Block&, const Statics&) {}

#endif

}  // namespace

void poison_statics(Statics& statics) {
  if (!statics.module) return;
  put_apart(statics.module, statics.bytes);
  void* const memory = statics.memory = memory_of(statics.module);
  memset(memory, 0xFF, statics.bytes);
  sanitizer::undefine(memory, statics.bytes);
}

void check_statics(Block& b, const Statics& statics) {
  if (statics.module) check_zones(b, statics);
}

}  // namespace simt
