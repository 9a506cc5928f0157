#include "fuzz/worker/work.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <system_error>

#include "fuzz/host/wire.h"
#include "fuzz/worker/crash.h"
#include "fuzz/worker/memory/memory.h"
#include "fuzz/worker/serve.h"

// Every sanitizer's runtime defines this function; in a build without a sanitizer its address is null.
extern "C" __attribute__((weak)) void __sanitizer_print_stack_trace();

namespace attnfuzz::worker {
namespace {

wire::Wire* map_wire() {
  struct stat status;
  if (fstat(wire::kWireFd, &status) != 0 || status.st_size != static_cast<off_t>(sizeof(wire::Wire)))
    return nullptr;
  void* p = mmap(nullptr, sizeof(wire::Wire), PROT_READ | PROT_WRITE, MAP_SHARED, wire::kWireFd, 0);
  if (p == MAP_FAILED) return nullptr;
  auto* w = static_cast<wire::Wire*>(p);
  return w->version == wire::kVersion && w->size == sizeof(wire::Wire) ? w : nullptr;
}

int refuse(wire::Wire& wire, const std::string& why, wire::State state = wire::State::kRefused) {
  std::snprintf(wire.refusal, sizeof wire.refusal, "%s", why.c_str());
  wire.state.store(state, std::memory_order_release);
  return 0;
}

}  // namespace

int usage(const char* why) {
  std::fprintf(stderr,
               "%s\nThis program is started by attnfuzz, which gives it shared memory to work in.\n"
               "usage: attnfuzz-worker-BACKEND LIBRARY KERNEL PARENT\n",
               why);
  return wire::kExitUsage;
}

int work(const Confined& confined, const std::function<Library(attn_backend)>& open) {
  wire::Wire* wire = map_wire();
  if (!wire)
    return usage("no shared memory of this program's version: rebuild attnfuzz and its workers together");
  close(wire::kWireFd);
  wire->doing = wire::Doing::kLoading;
  if (!__sanitizer_print_stack_trace) record_crashes(&wire->crash, &wire->samples);
  std::string error;
  try {
    // The wire and the arena stay mapped until the process ends. Without the descriptors no kernel can cut the files
    // short, which would be a SIGBUS in the parent. The arena is never deleted, so exit() does not unmap it either.
    Arena& arena = *new Arena(wire::kArenaFd, wire->measures != 0);
    close(wire::kArenaFd);
    const auto memory = open_memory(arena, &error);
    if (!memory) return refuse(*wire, error);
    if (wire->measures != 0) {
      if (const auto why = confine(wire->measures, confined, memory->backend(), arena))
        return refuse(*wire, "the worker cannot be confined: " + *why);
    }
    const Library library = open(memory->backend());
    if (!library.kernel) {
      return refuse(*wire, library.error,
                    library.other_backend ? wire::State::kOtherBackend : wire::State::kRefused);
    }
    return serve(*wire, library, *memory, arena);
  } catch (const std::system_error& e) {
    return refuse(*wire, std::string("the worker cannot map the arena: ") + e.what());
  }
}

bool live_with(int parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  return getppid() == parent;
}

}  // namespace attnfuzz::worker
