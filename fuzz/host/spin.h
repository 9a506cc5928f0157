// Waits for the other process of a pair. It spins briefly first: the answer usually comes within
// microseconds, and waking a sleeping process takes as long again.
#pragma once

#include <unistd.h>

#include <chrono>

namespace attnfuzz {

inline constexpr std::chrono::microseconds kSpin{40};

// Polls `ready` for kSpin. If it returns false, the caller should sleep.
template <class Ready>
bool spin_until(Ready ready) {
  // With one processor the other process cannot run while this one polls.
  static const bool alone = sysconf(_SC_NPROCESSORS_ONLN) < 2;
  if (ready()) return true;
  if (alone) return false;
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 64; ++i) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
      if (ready()) return true;
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

}  // namespace attnfuzz
