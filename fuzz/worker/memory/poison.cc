#include "fuzz/worker/memory/poison.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace attnfuzz::worker {
namespace {

constexpr int kPoison = 0xff, kRedzone = 0xa5;
constexpr size_t kMargin = 64;  // bytes on either side; the block's size begins the lower one

struct Head {
  size_t bytes;
};

unsigned char* begin_of(void* data) { return static_cast<unsigned char*>(data) - kMargin; }

bool is_redzone(const unsigned char* from, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    if (from[i] != kRedzone) return false;
  }
  return true;
}

void* between_redzones(unsigned char* begin, size_t bytes) {
  if (begin == nullptr) return nullptr;
  std::memset(begin, kRedzone, kMargin);
  std::memset(begin + kMargin + bytes, kRedzone, kMargin);
  const Head head = {bytes};
  std::memcpy(begin, &head, sizeof head);
  return begin + kMargin;
}

void* allocate(void*, size_t bytes) {
  if (bytes > SIZE_MAX - 2 * kMargin) return nullptr;
  auto* begin = static_cast<unsigned char*>(std::malloc(bytes + 2 * kMargin));
  if (begin != nullptr) std::memset(begin + kMargin, kPoison, bytes);
  return between_redzones(begin, bytes);
}

size_t bytes_of(void* data) {
  Head head;
  std::memcpy(&head, begin_of(data), sizeof head);
  return head.bytes;
}

void* allocate_zeros(void*, size_t count, size_t each) {
  if (each != 0 && count > (SIZE_MAX - 2 * kMargin) / each) return nullptr;
  const size_t bytes = count * each;
  return between_redzones(static_cast<unsigned char*>(std::calloc(bytes + 2 * kMargin, 1)), bytes);
}

void release(void*, void* data, size_t) {
  if (data == nullptr) return;
  unsigned char* begin = begin_of(data);
  const size_t bytes = bytes_of(data);
  if (!is_redzone(begin + sizeof(Head), kMargin - sizeof(Head)) ||
      !is_redzone(begin + kMargin + bytes, kMargin)) {
    std::fprintf(stderr, "memory beside an array of NumPy's, of %zu bytes, was written\n", bytes);
    std::abort();
  }
  std::free(begin);
}

void* reallocate(void* context, void* data, size_t bytes) {
  if (data == nullptr) return allocate(context, bytes);
  void* grown = allocate(context, bytes);
  if (grown == nullptr) return nullptr;
  const size_t before = bytes_of(data);
  std::memcpy(grown, data, before < bytes ? before : bytes);
  release(context, data, before);
  return grown;
}

struct Handler {
  char name[127];
  uint8_t version;
  void* context;
  void* (*allocate)(void*, size_t);
  void* (*allocate_zeros)(void*, size_t, size_t);
  void* (*reallocate)(void*, void*, size_t);
  void (*release)(void*, void*, size_t);
};

}  // namespace
}  // namespace attnfuzz::worker

const void* attnfuzz_numpy_memory(void) {
  using namespace attnfuzz::worker;
  static const Handler handler = {"attnfuzz", 1, nullptr, allocate, allocate_zeros, reallocate, release};
  return &handler;
}
