#include "fuzz/campaign/store/jobs/shared_state.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <system_error>

namespace attnfuzz {

// Only reserves addresses: a page takes memory once something in it is marked.
SharedStatePtr make_shared_state() {
  void* memory = mmap(nullptr, sizeof(SharedState), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    throw std::system_error(errno, std::generic_category(), "mmap of the campaign's shared memory");
  return {new (memory) SharedState, [](SharedState* shared) { munmap(shared, sizeof(SharedState)); }};
}

std::optional<int> waiting_kind(std::string_view kind, bool of_sequences) {
  for (int n = 0; n < kKinds; ++n) {
    if (to_string(static_cast<Kind>(n)) == kind) return of_sequences ? kKinds + n : n;
  }
  return std::nullopt;
}

bool is_disk_full(const std::exception& error) {
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  return system != nullptr && (system->code().value() == ENOSPC || system->code().value() == EDQUOT);
}

void persist(std::atomic<bool>& waits, const std::function<bool()>& give_up,
             const std::function<void()>& write) {
  for (;;) {
    try {
      write();
      waits = false;
      return;
    } catch (const std::exception& error) {
      if (!is_disk_full(error) || give_up()) throw;
      waits = true;
    }
    for (int i = 0; i < 10 && !give_up(); ++i) usleep(100'000);
  }
}

}  // namespace attnfuzz
