// Kernels that leave their process: by files, the network, another program, or more rights.
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fuzz/strangers/stranger.h"

extern char** environ;

namespace stranger {
namespace {

template <void (*act)()>
attn_status then_compute(const attn_problem* p, const attn_tensors* t, const attn_plan* plan,
                         const attn_env* env) {
  act();
  return compute(p, t, plan, env);
}

// Each of these functions runs before each right answer.
#define STRANGER_DOES(function, name)                           \
  void function();                                              \
  const Kernel function##_kernel{name, then_compute<function>}; \
  void function()

STRANGER_DOES(forks, "fork") {
  if (fork() == 0) _exit(0);
}
STRANGER_DOES(outlives, "fork-setsid") {
  if (fork() == 0) {
    setsid();
    for (;;) pause();
  }
}
STRANGER_DOES(leaves_session, "setsid") { setsid(); }
STRANGER_DOES(becomes, "exec") {
  char name[] = "/bin/true";
  char* words[] = {name, nullptr};
  execve(name, words, environ);
}
STRANGER_DOES(spawns, "spawn") {
  char name[] = "/bin/true";
  char* words[] = {name, nullptr};
  pid_t child = 0;
  if (posix_spawn(&child, name, nullptr, nullptr, words, environ) == 0) waitpid(child, nullptr, 0);
}
STRANGER_DOES(shell, "system") {
  if (system("true") != 0) abort();
}
// Starts its own program again with LD_PRELOAD.
STRANGER_DOES(preloads, "preload") {
  setenv("LD_PRELOAD", "/tmp/strangers-preload.so", 1);
  char name[] = "/proc/self/exe";
  char* words[] = {name, nullptr};
  execve(name, words, environ);
}

STRANGER_DOES(connects, "tcp") {
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(80);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to);
}
STRANGER_DOES(local, "unix-socket") { socket(AF_UNIX, SOCK_STREAM, 0); }
STRANGER_DOES(ring, "io-uring") {
  char parameters[120] = {};
  syscall(SYS_io_uring_setup, 4, parameters);
}

STRANGER_DOES(writes, "write-file") {
  const int fd = open("/tmp/strangers-were-here", O_WRONLY | O_CREAT, 0600);
  if (fd >= 0) close(fd);
}
STRANGER_DOES(rewrites, "write-own-folder") {
  const int fd = open(".", O_TMPFILE | O_RDWR, 0600);
  if (fd >= 0) close(fd);
}
STRANGER_DOES(fills, "disk-bomb") {
  const int fd = open("/var/tmp/strangers-bomb", O_RDWR | O_CREAT, 0600);
  if (fd >= 0) {
    static char block[1 << 20];
    for (int n = 0; n < 64; ++n) (void)!write(fd, block, sizeof block);
    unlink("/var/tmp/strangers-bomb");
  }
}
STRANGER_DOES(removes, "remove-file") { unlink("/tmp/strangers-were-here"); }
STRANGER_DOES(makes, "make-folder") { mkdir("/tmp/strangers-folder", 0700); }
STRANGER_DOES(shares, "shared-memory") {
  const int fd = shm_open("/strangers", O_RDWR | O_CREAT, 0600);
  if (fd >= 0) shm_unlink("/strangers");
}
STRANGER_DOES(user, "namespace") { unshare(CLONE_NEWUSER); }
STRANGER_DOES(mounts, "mount") { syscall(SYS_mount, "none", "/mnt", "tmpfs", 0, nullptr); }
STRANGER_DOES(dumpable, "dumpable") { syscall(SYS_prctl, 4, 1, 0, 0, 0); }

}  // namespace
}  // namespace stranger
