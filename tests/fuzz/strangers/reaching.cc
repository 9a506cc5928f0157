// Kernels that attack the process which judges them.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <string>

#include "tests/fuzz/strangers/stranger.h"

namespace stranger {
namespace {

STRANGER(tracer, "ptrace-parent") {
  ptrace(PTRACE_ATTACH, getppid(), nullptr, nullptr);
  return compute(p, t, plan, env);
}

template <long call>
attn_status transfer(const attn_problem* p, const attn_tensors* t, const attn_plan* plan, const attn_env* env) {
  char bytes[64] = "";
  iovec here = {bytes, sizeof bytes}, there = {reinterpret_cast<void*>(&environ), sizeof bytes};
  syscall(call, getppid(), &here, 1L, &there, 1L, 0L);
  return compute(p, t, plan, env);
}
const Kernel reader{"read-parent", transfer<SYS_process_vm_readv>};
const Kernel writer{"write-parent", transfer<SYS_process_vm_writev>};

// Sets a limit of processor time for the parent.
STRANGER(limited, "limit-parent") {
  const rlimit none = {0, 0};
  prlimit(getppid(), RLIMIT_CPU, &none, nullptr);
  return compute(p, t, plan, env);
}

STRANGER(memory_file, "open-parent-memory") {
  open(("/proc/" + std::to_string(getppid()) + "/mem").c_str(), O_RDWR);
  return compute(p, t, plan, env);
}

// Tries to read the expected values from the parent's memory.
STRANGER(read_expected, "read-parent-memory") {
  FILE* file = fopen(("/proc/" + std::to_string(getppid()) + "/mem").c_str(), "r");
  return file ? compute(p, t, plan, env) : cheap(p, t);
}
STRANGER(read_processes, "read-processes") {
  const int fd = open("/proc/1/status", O_RDONLY);
  return fd >= 0 ? compute(p, t, plan, env) : cheap(p, t);
}
STRANGER(read_files, "read-files") {
  const int fd = open("/etc/passwd", O_RDONLY);
  return fd >= 0 ? compute(p, t, plan, env) : cheap(p, t);
}

STRANGER(handle, "pidfd-parent") {
  syscall(SYS_pidfd_open, getppid(), 0);
  return compute(p, t, plan, env);
}
STRANGER(killer, "kill-parent") {
  kill(getppid(), SIGKILL);
  return compute(p, t, plan, env);
}
STRANGER(killer_of_all, "kill-all") {
  kill(-1, SIGCONT);
  return compute(p, t, plan, env);
}
STRANGER(killer_of_group, "kill-group") {
  kill(0, SIGCONT);
  return compute(p, t, plan, env);
}
STRANGER(queued, "queue-signal") {
  sigqueue(getppid(), SIGCONT, {});
  return compute(p, t, plan, env);
}
// Makes the system send a signal to the parent: the parent owns a pipe's signals.
STRANGER(owned, "signal-by-pipe") {
  int ends[2];
  if (pipe(ends) != 0) return cheap(p, t);
  if (fcntl(ends[0], F_SETOWN, getppid()) != 0) return cheap(p, t);
  return compute(p, t, plan, env);
}

}  // namespace
}  // namespace stranger
