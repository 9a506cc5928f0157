// Shared memory. The arena is filled with 0xFF at the start of a block, which is a NaN in every format, so that
// memory that nobody has written shows in the result. Redzones lie around every array. Their pattern is another
// NaN, and a changed redzone is found at the end of the block. AddressSanitizer reports an access to a
// redzone when it happens, and MemorySanitizer reports a use of memory that nobody has written.
//
// Behind the last redzone nothing belongs to the block. A write there is found at the end of the block or, from
// a few pages on, ends the program: in the plain build that memory is inaccessible. The sanitizers treat all of
// it like a redzone.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>

#include "kernels/executor/threads/block.h"

namespace simt {
namespace {

constexpr size_t kCapacity = kSharedCapacity;
constexpr size_t kRedZone = 128;
constexpr size_t kBaseAlign = 1024;

unsigned char* base() {
  static thread_local unsigned char* memory = [] {
    void* mapped = mmap(nullptr, kCapacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) {
      perror("simt: cannot map shared memory");
      abort();
    }
    memset(mapped, 0xFF, kCapacity);
    sanitizer::forbid(mapped, kCapacity);
    sanitizer::undefine(mapped, kCapacity);
    return static_cast<unsigned char*>(mapped);
  }();
  return memory;
}

constexpr size_t align_up(size_t value, size_t align) { return (value + align - 1) / align * align; }

// The first bytes of the arena that are accessible, whole pages. A launch that needs a little less than the one
// before leaves them, because a system call costs as much as a small block.
constexpr size_t kPage = 4096, kSpare = 4 * kPage;
thread_local size_t accessible = kCapacity;

void make_accessible(size_t bytes) {
  const size_t end = align_up(bytes, kPage);
  if (end <= accessible && accessible <= end + kSpare) return;
#if !defined(SIMT_BUILD_ASAN) && !defined(SIMT_BUILD_MSAN) && !defined(SIMT_BUILD_TSAN)
  const bool more = end > accessible;
  const size_t from = more ? accessible : end, to = more ? end : accessible;
  if (mprotect(base() + from, to - from, more ? PROT_READ | PROT_WRITE : PROT_NONE) != 0) return;
  accessible = end;
#endif
}

// 0xFFE1 is a NaN in fp16 and bf16, and twice in a row in fp32.
constexpr unsigned char pattern(size_t at) { return at % 2 ? 0xFF : 0xE1; }

void draw_red_zone(size_t begin, size_t end) {
  for (size_t at = begin; at < end; ++at) base()[at] = pattern(at);
  sanitizer::forbid(base() + begin, end - begin);
}

// The first changed byte in [begin, end), or end.
size_t first_change(size_t begin, size_t end) {
  for (size_t at = begin; at < end; ++at) {
    if (base()[at] != pattern(at)) return at;
  }
  return end;
}

}  // namespace

unsigned char* shared_base() { return base(); }

bool is_shared(const Block& b, const void* begin, size_t bytes) {
  const auto at = static_cast<size_t>(static_cast<const unsigned char*>(begin) - base());
  for (const SharedArray& array : b.arrays) {
    if (at >= array.physical && at - array.physical + bytes <= array.bytes) return true;
  }
  return false;
}

bool is_any_shared(const Block& b, const void* begin, size_t bytes) {
  const auto at = reinterpret_cast<uintptr_t>(begin) - reinterpret_cast<uintptr_t>(b.statics);
  return is_shared(b, begin, bytes) || (b.statics && at + bytes <= b.statics_bytes);
}

void* carve(ArenaCursor& cursor, size_t bytes, size_t align, Place here) {
  Block& b = running();
  const Thread* me = &self().thread;
  if (align == 0 || (align & (align - 1)) || align > kBaseAlign) {
    fault(ATTN_REPORT_SHARED, me, here, "an array aligned to %zu: a power of two up to %zu is possible", align,
          kBaseAlign);
  }
  const size_t offset = align_up(cursor.offset, align);
  const uint32_t index = cursor.count++;
  cursor.offset = offset + bytes;
  if (offset + bytes > b.launch->shared_bytes) {
    fault(ATTN_REPORT_SHARED, me, here,
          "an array of %zu bytes at offset %zu of shared memory: the launch gave %zu bytes", bytes, offset,
          b.launch->shared_bytes);
  }
  if (index < b.arrays.size()) {
    const SharedArray& array = b.arrays[index];
    if (array.offset != offset || array.bytes != bytes) {
      fault(ATTN_REPORT_SHARED, me, here,
            "array %u of shared memory has %zu bytes here, and %zu in another thread at %s:%d", index, bytes,
            array.bytes, array.here.file, array.here.line);
    }
    return base() + array.physical;
  }
  const size_t end = b.arrays.empty() ? 0 : b.arrays.back().physical + b.arrays.back().bytes;
  const size_t physical = align_up(end + kRedZone, align < 128 ? 128 : align);
  if (physical + bytes + kRedZone > kCapacity) {
    fault(ATTN_REPORT_SHARED, me, here, "more than %zu KiB of shared memory with its red zones",
          kCapacity / 1024);
  }
  if (physical + bytes + kRedZone > accessible) make_accessible(physical + bytes + kRedZone);
  draw_red_zone(end, physical);
  sanitizer::allow(base() + physical, bytes);
  sanitizer::undefine(base() + physical, bytes);
  draw_red_zone(physical + bytes, physical + bytes + kRedZone);
  b.shared_used = physical + bytes + kRedZone;
  b.arrays.push_back({offset, bytes, physical, here});
  return base() + physical;
}

// The array begins at a multiple of kBaseAlign, as on a GPU if the kernel has no static array. Kernels in
// plain CUDA need this alignment, because their swizzles change bits of the address itself.
void* dynamic_shared(Place here) {
  ArenaCursor whole;
  return carve(whole, running().launch->shared_bytes, kBaseAlign, here);
}

namespace {

// The 32-bit addresses of static arrays start here. This is so far from the arena's addresses that no index
// reaches from one range into the other.
constexpr uint32_t kStaticsAt = 0x400000;

}  // namespace

uint32_t shared_offset(const void* pointer, Place here) {
  const Block& b = running();
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  const uintptr_t arena = address - reinterpret_cast<uintptr_t>(base());
  if (arena < kCapacity) return static_cast<uint32_t>(arena);
  const auto first = reinterpret_cast<uintptr_t>(b.statics) / kBaseAlign * kBaseAlign;
  const uintptr_t last = reinterpret_cast<uintptr_t>(b.statics) + b.statics_bytes;
  if (b.statics && address >= first && address <= last)
    return kStaticsAt + static_cast<uint32_t>(address - first);
  fault(ATTN_REPORT_ADDRESS, &self().thread, here, "the address %p is not of shared memory", pointer);
}

void* shared_pointer(uint32_t offset, Place here) {
  const Block& b = running();
  if (offset < kCapacity) return base() + offset;
  const auto first = reinterpret_cast<uintptr_t>(b.statics) / kBaseAlign * kBaseAlign;
  if (b.statics && offset - kStaticsAt < b.statics_bytes + kBaseAlign)
    return reinterpret_cast<void*>(first + offset - kStaticsAt);
  fault(ATTN_REPORT_ADDRESS, &self().thread, here, "%#x is no address of shared memory", offset);
}

void reset_arena(Block& b) {
  // ThreadSanitizer's pages are mapped anew, with zeros to their end.
  const size_t used = sanitizer::kOrdersAccesses ? align_up(b.shared_used, kPage) : b.shared_used;
  sanitizer::allow(base(), used);
  sanitizer::renew(base(), used);
  memset(base(), 0xFF, used);
  sanitizer::forbid(base(), used);
  sanitizer::undefine(base(), used);
  b.shared_used = 0;
  b.arrays.clear();
}

void begin_arena(Block& b) {
  const size_t bytes = b.launch->shared_bytes;
  if (!bytes) return;
  reset_arena(b);  // while what the last block wrote is accessible
  make_accessible(std::min(kBaseAlign + bytes + kRedZone, kCapacity));
}

namespace {

// The first byte from `begin` on that is accessible and no poison, or 0.
size_t first_written(size_t begin) {
  const size_t end = std::min(accessible, begin + 2 * kSpare);
  size_t at = begin;
  uint64_t all = ~uint64_t{0}, word;
  for (; at + sizeof word <= end; at += sizeof word) {
    memcpy(&word, base() + at, sizeof word);
    all &= word;
  }
  if (all == ~uint64_t{0}) return 0;
  for (at = begin; base()[at] == 0xFF;) ++at;
  return at;
}

}  // namespace

void check_red_zones(Block& b) {
  size_t begin = 0;
  for (size_t i = 0; i <= b.arrays.size(); ++i) {
    const bool last = i == b.arrays.size();
    const size_t end = last ? b.shared_used : b.arrays[i].physical;
    const size_t at = first_change(begin, end);
    if (at != end) {
      // Most overruns are past the end of an array, so name the array before the redzone, if there is one.
      const bool after = i > 0 && (last || at - begin <= end - at);
      const SharedArray& array = b.arrays[after ? i - 1 : i];
      const size_t distance = after ? at - begin : end - at;
      record_fault(b, ATTN_REPORT_SHARED, {0, 0, 0}, array.here,
                   "a write %zu bytes %s array %zu of shared memory (%zu bytes), found when the block ended",
                   distance, after ? "past the end of" : "before", after ? i - 1 : i, array.bytes);
      return;
    }
    if (!last) begin = b.arrays[i].physical + b.arrays[i].bytes;
  }
  if (b.arrays.empty()) return;
  if (const size_t at = first_written(b.shared_used)) {
    const SharedArray& array = b.arrays.back();
    record_fault(b, ATTN_REPORT_SHARED, {0, 0, 0}, array.here,
                 "a write %zu bytes past the end of shared memory (%zu bytes), found when the block ended",
                 at - array.physical - array.bytes, b.launch->shared_bytes);
    b.shared_used = accessible;
  }
}

}  // namespace simt
