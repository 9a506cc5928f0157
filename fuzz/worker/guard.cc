#include "fuzz/worker/guard.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>

#include "fuzz/host/subprocess.h"
#include "fuzz/host/wire.h"

namespace attnfuzz::worker {
namespace {

// The parent of a process, from "PID (any name) STATE PARENT ...".
pid_t parent_of(const char* pid) {
  FILE* file = std::fopen(("/proc/" + std::string(pid) + "/stat").c_str(), "r");
  if (file == nullptr) return 0;
  char text[512];
  const size_t n = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  text[n] = '\0';
  const char* name_ends = std::strrchr(text, ')');
  int parent = 0;
  return name_ends && std::sscanf(name_ends + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

void kill_children() {
  DIR* all = opendir("/proc");
  if (all == nullptr) return;
  while (const dirent* entry = readdir(all)) {
    const pid_t pid = std::atoi(entry->d_name);
    if (pid > 0 && parent_of(entry->d_name) == getpid()) kill(pid, SIGKILL);
  }
  closedir(all);
}

// Who is killed leaves its own children to us: until there is none.
void end_all_children() {
  constexpr int kMostRounds = 2000;  // about as many milliseconds: who forks as fast as that is let go
  for (int round = 0; round < kMostRounds; ++round) {
    pid_t reaped;
    while ((reaped = waitpid(-1, nullptr, WNOHANG)) > 0) {
    }
    if (reaped < 0 && errno == ECHILD) return;
    kill_children();
    usleep(1000);
  }
}

void tell(int32_t number) { [[maybe_unused]] const ssize_t n = write(wire::kStatusFd, &number, sizeof number); }

}  // namespace

int guard(char** argv) {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  if (getppid() != std::atoi(argv[3])) return wire::kExitUsage;  // it died before prctl
  fcntl(wire::kStatusFd, F_SETFD, FD_CLOEXEC);
  pid_t worker = -1;
  try {
    worker =
        spawn_program({argv[0], argv[1], argv[2], std::to_string(getpid()), "guarded"}, {.own_group = true});
  } catch (const std::system_error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return wire::kExitUsage;
  }
  tell(worker);
  siginfo_t info = {};
  while (waitid(P_PID, static_cast<id_t>(worker), &info, WEXITED | WNOWAIT | WNOHANG) != 0 ||
         info.si_pid == 0) {
    sigset_t awaited;
    sigemptyset(&awaited);
    sigaddset(&awaited, SIGCHLD);
    sigaddset(&awaited, SIGTERM);
    if (sigwaitinfo(&awaited, &info) == SIGTERM) kill(worker, SIGKILL);
    info.si_pid = 0;
  }
  kill(-worker, SIGKILL);  // its group; the number is taken until the worker is reaped
  const int status = wait_for_child(worker);
  end_all_children();
  tell(status);
  return 0;
}

}  // namespace attnfuzz::worker
