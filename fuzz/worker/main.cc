// attnfuzz-worker-*: the programs that load kernel libraries.
//
//   attnfuzz-worker-cpu LIBRARY KERNEL PARENT [supervised]
//
// worker_process.cc starts it as a supervisor (supervisor.h), and passes the descriptors of wire.h.
// The supervisor starts the worker that loads the kernel, with `supervised`. PARENT is the process
// id of the command; the worker dies with it. A worker that is called kNoName is confined, and
// hides its name and arguments.
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "fuzz/host/wire.h"
#include "fuzz/worker/library.h"
#include "fuzz/worker/supervisor.h"
#include "fuzz/worker/work.h"

namespace {

// Leaves nothing that shows what this process is: no arguments, and kNoName as its name.
void forget_arguments(int argc, char** argv) {
  for (int n = 1; n < argc; ++n) std::memset(argv[n], 0, std::strlen(argv[n]));
  prctl(PR_SET_NAME, attnfuzz::worker::kNoName);
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? "" : path.substr(0, slash + 1);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace attnfuzz::worker;
  if (argc != 4 && argc != 5) return usage("three arguments are needed");
  if (argc == 4) _exit(supervise(argv));
  if (!live_with(std::atoi(argv[3]))) return attnfuzz::wire::kExitUsage;
  const std::string library = argv[1], kernel = argv[2];
  if (std::string(argv[0]) == kNoName) forget_arguments(argc, argv);
  // _exit(), because destructors of a kernel library must not run in an uncertain state.
  const int status = work({.readable = {library, folder_of(library)}},
                          [&](attn_backend backend) { return load(library, kernel, backend); });
  std::fflush(nullptr);
  _exit(status);
}
