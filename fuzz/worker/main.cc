// attnfuzz-worker-*: the only program that ever loads a kernel.
//
//   attnfuzz-worker-cpu LIBRARY KERNEL PARENT [guarded]
//
// Started by worker_process.cc, which passes the descriptors of wire.h, as a guard
// (guard.h); that starts the worker proper, `guarded`. PARENT is the process id of
// who started it, with which it dies.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "fuzz/host/wire.h"
#include "fuzz/worker/guard.h"
#include "fuzz/worker/library.h"
#include "fuzz/worker/work.h"

int main(int argc, char** argv) {
  using namespace attnfuzz::worker;
  if (argc != 4 && argc != 5) return usage("three arguments are needed");
  if (argc == 4) _exit(guard(argv));
  if (!live_with(std::atoi(argv[3]))) return attnfuzz::wire::kExitUsage;
  // _exit: what a kernel library left behind must not be destroyed half-way.
  const int status = work([&](attn_backend backend) { return load(argv[1], argv[2], backend); });
  std::fflush(nullptr);
  _exit(status);
}
