// attnfuzz-worker-*: the only program that ever loads a kernel.
//
//   attnfuzz-worker-cpu LIBRARY KERNEL PARENT [guarded]
//
// Started by worker_process.cc, which passes the descriptors of wire.h, as a guard
// (guard.h); that starts the worker proper, `guarded`. PARENT is the process id of
// who started it, with which it dies.
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "fuzz/host/wire.h"
#include "fuzz/worker/crash.h"
#include "fuzz/worker/guard.h"
#include "fuzz/worker/library.h"
#include "fuzz/worker/memory.h"
#include "fuzz/worker/serve.h"

// Any sanitizer's runtime has it.
extern "C" __attribute__((weak)) void __sanitizer_print_stack_trace();

namespace attnfuzz::worker {
namespace {

int usage(const char* why) {
  std::fprintf(stderr,
               "%s\nThis program is started by attnfuzz, which gives it shared memory to work in.\n"
               "usage: attnfuzz-worker-BACKEND LIBRARY KERNEL PARENT\n",
               why);
  return wire::kExitUsage;
}

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

int work(const char* path, const char* selector) {
  wire::Wire* wire = map_wire();
  if (!wire)
    return usage("no shared memory of this program's version: rebuild attnfuzz and its workers together");
  close(wire::kWireFd);
  wire->doing = wire::Doing::kLoading;
  if (!__sanitizer_print_stack_trace) record_crashes(&wire->crash, &wire->samples);
  std::string error;
  try {
    // Both stay mapped to the end. Without the descriptors no kernel can cut the
    // files short, which would be a SIGBUS in the parent.
    static Arena arena(wire::kArenaFd);
    close(wire::kArenaFd);
    const auto memory = open_memory(arena, &error);
    if (!memory) return refuse(*wire, error);
    const Library library = load(path, selector, memory->backend());
    if (!library.kernel) {
      return refuse(*wire, library.error,
                    library.other_backend ? wire::State::kOtherBackend : wire::State::kRefused);
    }
    return serve(*wire, library, *memory, arena);
  } catch (const std::system_error& e) {
    return refuse(*wire, std::string("the worker cannot map the arena: ") + e.what());
  }
}

}  // namespace
}  // namespace attnfuzz::worker

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) return attnfuzz::worker::usage("three arguments are needed");
  if (argc == 4) _exit(attnfuzz::worker::guard(argv));
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != std::atoi(argv[3])) return attnfuzz::wire::kExitUsage;  // it died before prctl
  const rlimit no_core = {0, 0};                                           // a core file would hold the arena
  setrlimit(RLIMIT_CORE, &no_core);
  // _exit: what a kernel library left behind must not be destroyed half-way.
  const int status = attnfuzz::worker::work(argv[1], argv[2]);
  std::fflush(nullptr);
  _exit(status);
}
