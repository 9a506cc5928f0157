// Atomic operations on the executor. One thread runs at a time, so a read, a change and a write are already one
// step. They still use atomic accesses, so that ThreadSanitizer does not take them for a race.
#pragma once

#include <stdint.h>
#include <string.h>

#include <type_traits>

namespace simt {

// *address = update(*address); returns the old value.
template <class T, class Update>
inline T atomic_update(T* address, Update update) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8);
  using Word =
      std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;
  Word* const word = reinterpret_cast<Word*>(address);
  Word bits = __atomic_load_n(word, __ATOMIC_ACQUIRE);
  T before;
  memcpy(&before, &bits, sizeof before);
  const T after = update(before);
  memcpy(&bits, &after, sizeof bits);
  __atomic_store_n(word, bits, __ATOMIC_RELEASE);
  return before;
}

}  // namespace simt
