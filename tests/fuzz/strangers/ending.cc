// Kernels that end the process, or try to survive a crash.
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <stdexcept>

#include "fuzz/host/wire.h"
#include "tests/fuzz/strangers/stranger.h"

namespace stranger {
namespace {

volatile int zero;
sigjmp_buf back;

STRANGER(leaves, "exit") {
  if (now()) exit(0);
  return compute(p, t, plan, env);
}
STRANGER(leaves_at_once, "exit-now") {
  if (now()) _exit(0);
  return compute(p, t, plan, env);
}
STRANGER(throws, "throw") {
  if (now()) throw std::runtime_error("not caught here");
  return compute(p, t, plan, env);
}
STRANGER(dies, "kill-itself") {
  if (now()) kill(getpid(), SIGKILL);
  return compute(p, t, plan, env);
}
STRANGER(clock_runs, "alarm") {
  alarm(1);
  while (now()) {
  }
  return compute(p, t, plan, env);
}

// Writes to address 0, and catches the crash.
STRANGER(catches, "catch-crash") {
  struct sigaction action = {};
  action.sa_handler = [](int) { siglongjmp(back, 1); };
  action.sa_flags = SA_NODEFER;
  sigaction(SIGSEGV, &action, nullptr);
  if (sigsetjmp(back, 1) == 0) *reinterpret_cast<volatile int*>(static_cast<uintptr_t>(zero)) = 1;
  return compute(p, t, plan, env);
}
// Makes a forbidden system call, and catches the signal.
STRANGER(catches_refusal, "catch-refusal") {
  signal(SIGSYS, [](int) {});
  syscall(SYS_ptrace, 16, getppid(), nullptr, nullptr);
  return compute(p, t, plan, env);
}
STRANGER(blocks_refusal, "block-refusal") {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, nullptr);
  syscall(SYS_ptrace, 16, getppid(), nullptr, nullptr);
  return compute(p, t, plan, env);
}

// Closes all open descriptors.
STRANGER(closes, "close-all") {
  for (int fd = 3; fd < 64; ++fd) close(fd);
  return compute(p, t, plan, env);
}
// Replaces the descriptor by which the worker signals the end of a call (its bell).
STRANGER(replaces, "replace-bell") {
  const attn_status status = compute(p, t, plan, env);
  if (now()) dup2(eventfd(0, 0), 6);
  return status;
}
STRANGER(drains, "drain-bells") {
  const unsigned long long many = 0xfffffffffffffff0;
  for (int fd = 3; fd < 64; ++fd) (void)!write(fd, &many, sizeof many);
  return ATTN_OK;
}

// Writes a reason into the worker's answer, which holds none after run(). env->user begins with the address of
// the answer's report.
STRANGER(writes_answer, "write-answer") {
  using attnfuzz::wire::Answer;
  if (now()) (*static_cast<char* const*>(env->user) - offsetof(Answer, report))[offsetof(Answer, reason)] = 'x';
  return compute(p, t, plan, env);
}

// Starts as many threads as the system allows, 3,000 at most, and leaves them running.
STRANGER(swarms, "thread-swarm") {
  if (now()) {
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 16384);
    pthread_t thread;
    const auto wait = [](void*) -> void* {
      for (;;) pause();
    };
    for (int n = 0; n < 3000 && pthread_create(&thread, &small, wait, nullptr) == 0; ++n) {
    }
  }
  return compute(p, t, plan, env);
}

}  // namespace
}  // namespace stranger
