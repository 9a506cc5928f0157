// The calls that tell a sanitizer what the executor does. The executor is never instrumented: it switches
// stacks, lands copies and hands out memory without the sanitizer's knowledge, and reports each of these
// through the functions below. The executor is compiled once more for each sanitizer, with that sanitizer's
// bodies. In the plain build they are empty.
//
//   SIMT_BUILD_ASAN   redzones and abandoned stacks
//   SIMT_BUILD_MSAN   which memory is defined; shared memory is undefined when a block starts
//   SIMT_BUILD_TSAN   a TSan fiber for each lane; which operations order memory
//
// TSan sees races between lanes because a switch between fibers orders nothing. Barriers, __syncwarp, and a
// launch's start and end order accesses; shuffles, mma and ldmatrix do not, as on a GPU.
#pragma once

#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/executor/threads/stacks.h"

#if defined(SIMT_BUILD_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#elif defined(SIMT_BUILD_MSAN)
#include <sanitizer/msan_interface.h>
#elif defined(SIMT_BUILD_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

#if defined(SIMT_BUILD_MSAN)
// MSan keeps the shadow of a call's arguments here.
extern "C" __attribute__((tls_model("initial-exec"))) thread_local char __msan_param_tls[800];
#elif defined(SIMT_BUILD_TSAN)
extern "C" void __tsan_read_range(void* address, unsigned long bytes);
extern "C" void __tsan_write_range(void* address, unsigned long bytes);
extern "C" void AnnotateIgnoreWritesBegin(const char* file, int line);
extern "C" void AnnotateIgnoreWritesEnd(const char* file, int line);
#endif

namespace simt::sanitizer {

// The sanitizer's handle of a fiber.
struct Fiber {
  void* handle = nullptr;
};

#if defined(SIMT_BUILD_MSAN)
inline constexpr bool kTracksDefined = true;
#else
inline constexpr bool kTracksDefined = false;
#endif

#if defined(SIMT_BUILD_TSAN)
inline constexpr bool kOrdersAccesses = true;
// A lane runs another thread in each block, because TSan orders the accesses of one fiber, and accesses of two
// blocks are not ordered.
inline constexpr bool kLanesRotate = true;
#else
inline constexpr bool kOrdersAccesses = false;
inline constexpr bool kLanesRotate = false;
#endif

// --- Fibers ----------------------------------------------------------------

// Makes the fiber of a lane that has not run yet, or of the host before a launch.
inline void make(Fiber& fiber, [[maybe_unused]] bool host) {
#if defined(SIMT_BUILD_TSAN)
  if (host) {
    fiber.handle = __tsan_get_current_fiber();
  } else if (!fiber.handle) {
    fiber.handle = __tsan_create_fiber(0);
  }
#else
  (void)fiber;
#endif
}

// Called before the stack is switched.
inline void leave([[maybe_unused]] Fiber& from, [[maybe_unused]] const Fiber& to,
                  [[maybe_unused]] const Stack& stack) {
#if defined(SIMT_BUILD_ASAN)
  __sanitizer_start_switch_fiber(&from.handle, stack.bottom, stack.size);
#elif defined(SIMT_BUILD_TSAN)
  __tsan_switch_to_fiber(to.handle, __tsan_switch_to_fiber_no_sync);
#endif
}

// Called on the new stack. `left` is the stack that was left; its bounds are filled in if they are not known.
inline void arrive([[maybe_unused]] Fiber& me, [[maybe_unused]] Stack& left) {
#if defined(SIMT_BUILD_ASAN)
  const void* bottom = nullptr;
  size_t size = 0;
  __sanitizer_finish_switch_fiber(me.handle, &bottom, &size);
  if (!left.bottom) left = {static_cast<char*>(const_cast<void*>(bottom)), size};
#endif
}

// The content of the stack is discarded.
inline void abandon([[maybe_unused]] Fiber& fiber, [[maybe_unused]] const Stack& stack) {
#if defined(SIMT_BUILD_ASAN)
  fiber.handle = nullptr;
  __asan_unpoison_memory_region(stack.bottom, stack.size);
#elif defined(SIMT_BUILD_MSAN)
  __msan_unpoison(stack.bottom, stack.size);
#elif defined(SIMT_BUILD_TSAN)
  fiber.handle = __tsan_create_fiber(0);
#endif
}

// Called before a call of instrumented code, or of a function that a sanitizer's runtime intercepts: marks its
// arguments as defined, and the bytes that they point to on this stack.
inline void enter([[maybe_unused]] const void* argument = nullptr, [[maybe_unused]] size_t bytes = 0) {
#if defined(SIMT_BUILD_MSAN)
  memset(__msan_param_tls, 0, sizeof __msan_param_tls);
  if (argument) __msan_unpoison(argument, bytes);
#endif
}

// --- Order of memory ---------------------------------------------------------

inline void release([[maybe_unused]] void* tag) {
#if defined(SIMT_BUILD_TSAN)
  __tsan_release(tag);
#endif
}

inline void acquire([[maybe_unused]] void* tag) {
#if defined(SIMT_BUILD_TSAN)
  __tsan_acquire(tag);
#endif
}

// --- Memory ------------------------------------------------------------------

// An access to these bytes is an error from now on.
inline void forbid([[maybe_unused]] void* begin, [[maybe_unused]] size_t bytes) {
#if defined(SIMT_BUILD_ASAN)
  __asan_poison_memory_region(begin, bytes);
#endif
}

inline void allow([[maybe_unused]] void* begin, [[maybe_unused]] size_t bytes) {
#if defined(SIMT_BUILD_ASAN)
  __asan_unpoison_memory_region(begin, bytes);
#endif
}

inline bool forbidden([[maybe_unused]] void* begin, [[maybe_unused]] size_t bytes) {
#if defined(SIMT_BUILD_ASAN)
  return __asan_region_is_poisoned(begin, bytes) != nullptr;
#else
  return false;
#endif
}

// Forgets all earlier accesses to these whole pages.
inline void renew([[maybe_unused]] void* begin, [[maybe_unused]] size_t bytes) {
#if defined(SIMT_BUILD_TSAN)
  // TSan forgets the accesses to a page that is mapped anew.
  if (bytes) mmap(begin, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
#endif
}

// These bytes are undefined until they are written.
inline void undefine([[maybe_unused]] void* begin, [[maybe_unused]] size_t bytes) {
#if defined(SIMT_BUILD_MSAN)
  __msan_poison(begin, bytes);
#endif
}

// The executor copied `given` of `bytes` bytes; the rest are zeros. The lane that issued the copy has recorded
// its accesses.
inline void landed([[maybe_unused]] void* to, [[maybe_unused]] const void* from, [[maybe_unused]] size_t given,
                   [[maybe_unused]] size_t bytes) {
#if defined(SIMT_BUILD_MSAN)
  __msan_unpoison(to, bytes);
  if (given) __msan_copy_shadow(to, from, given);
#endif
}

// The same for the running lane, whose accesses these are.
inline void copied([[maybe_unused]] void* to, [[maybe_unused]] const void* from, [[maybe_unused]] size_t given,
                   [[maybe_unused]] size_t bytes) {
  landed(to, from, given, bytes);
#if defined(SIMT_BUILD_TSAN)
  if (given) __tsan_read_range(const_cast<void*>(from), given);
  __tsan_write_range(to, bytes);
#endif
}

// The executor will write these bytes for the running lane at some later time.
inline void will_copy([[maybe_unused]] void* to, [[maybe_unused]] size_t bytes) {
#if defined(SIMT_BUILD_MSAN)
  __msan_poison(to, bytes);
#elif defined(SIMT_BUILD_TSAN)
  __tsan_write_range(to, bytes);
#endif
}

// ThreadSanitizer's runtime intercepts functions of the C library. While an Unseen exists, writes of these
// functions to the executor's own data do not count as the running lane's writes. The executor must not switch
// lanes meanwhile.
struct Unseen {
  Unseen() {
#if defined(SIMT_BUILD_TSAN)
    AnnotateIgnoreWritesBegin("", 0);
#endif
  }
  ~Unseen() {
#if defined(SIMT_BUILD_TSAN)
    AnnotateIgnoreWritesEnd("", 0);
#endif
  }
  Unseen(const Unseen&) = delete;
};

// memcpy and memset that ThreadSanitizer's runtime does not intercept: it would count their accesses as the
// running lane's.
inline void copy(void* to, const void* from, size_t bytes) {
#if defined(SIMT_BUILD_TSAN)
  auto* out = static_cast<volatile unsigned char*>(to);
  for (size_t i = 0; i < bytes; ++i) out[i] = static_cast<const unsigned char*>(from)[i];
#else
  memcpy(to, from, bytes);
#endif
}

inline void fill(void* to, int byte, size_t bytes) {
#if defined(SIMT_BUILD_TSAN)
  auto* out = static_cast<volatile unsigned char*>(to);
  for (size_t i = 0; i < bytes; ++i) out[i] = static_cast<unsigned char>(byte);
#else
  memset(to, byte, bytes);
#endif
}

// Makes `to` as defined as `from`, or all defined if `from` is null.
inline void carry([[maybe_unused]] void* to, [[maybe_unused]] const void* from, [[maybe_unused]] size_t bytes) {
#if defined(SIMT_BUILD_MSAN)
  if (from) {
    __msan_copy_shadow(to, from, bytes);
  } else {
    __msan_unpoison(to, bytes);
  }
#endif
}

inline bool defined([[maybe_unused]] const void* begin, [[maybe_unused]] size_t bytes) {
#if defined(SIMT_BUILD_MSAN)
  return __msan_test_shadow(begin, bytes) < 0;
#else
  return true;
#endif
}

// Records a read or a write of the running lane.
inline void reads([[maybe_unused]] const void* begin, [[maybe_unused]] size_t bytes) {
#if defined(SIMT_BUILD_TSAN)
  __tsan_read_range(const_cast<void*>(begin), bytes);
#endif
}

inline void writes([[maybe_unused]] void* begin, [[maybe_unused]] size_t bytes) {
#if defined(SIMT_BUILD_TSAN)
  __tsan_write_range(begin, bytes);
#endif
}

}  // namespace simt::sanitizer
