#include "fuzz/worker/supervisor.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>

#include "base/subprocess.h"
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

// A killed process leaves its children to us. This goes on until there are none.
void end_all_children() {
  constexpr int kMostRounds = 2000;  // about 2 s; a process that still forks then is left alone
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

// Waits until the worker has ended, by itself or because the command has gone. Then ends the
// processes that it has left.
void watch_over(pid_t worker) {
  tell(worker);
  sigset_t awaited;
  sigemptyset(&awaited);
  sigaddset(&awaited, SIGCHLD);
  sigaddset(&awaited, SIGTERM);
  const int signals = signalfd(-1, &awaited, SFD_CLOEXEC | SFD_NONBLOCK);
  siginfo_t info = {};
  while (waitid(P_PID, static_cast<id_t>(worker), &info, WEXITED | WNOWAIT | WNOHANG) != 0 ||
         info.si_pid == 0) {
    // The command holds the other end of this socket, and closes it.
    pollfd fds[2] = {{signals, POLLIN, 0}, {wire::kStatusFd, POLLRDHUP, 0}};
    poll(fds, 2, -1);
    bool end = fds[1].revents != 0;
    signalfd_siginfo signal;
    while (read(signals, &signal, sizeof signal) == sizeof signal) end |= signal.ssi_signo == SIGTERM;
    if (end) {
      kill(worker, SIGKILL);
      waitid(P_PID, static_cast<id_t>(worker), &info, WEXITED | WNOWAIT);
      break;
    }
    info.si_pid = 0;
  }
  kill(-worker, SIGKILL);  // its group; the id is not reused before the worker is reaped
  const int status = wait_for_child(worker);
  end_all_children();
  tell(status);
}

void become_supervisor() {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  fcntl(wire::kStatusFd, F_SETFD, FD_CLOEXEC);
}

}  // namespace

int supervise(char** argv) {
  become_supervisor();
  const bool confined = std::strcmp(argv[0], kNoName) == 0;
  if (confined) {
    close(wire::kProgramFd);
    prctl(PR_SET_NAME, kNoName);
    prctl(PR_SET_DUMPABLE, 0);  // the kernel cannot trace it
  }
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != std::atoi(argv[3])) return wire::kExitUsage;  // the parent died before prctl()
  pid_t worker = -1;
  try {
    // A program without a name is found through the supervisor's own /proc/self/exe.
    worker = spawn_program(
        {confined ? "/proc/self/exe" : argv[0], argv[1], argv[2], std::to_string(getpid()), "supervised"},
        {.own_group = true, .name = argv[0]});
  } catch (const std::system_error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return wire::kExitUsage;
  }
  watch_over(worker);
  return 0;
}

void supervise_child(pid_t worker) {
  become_supervisor();
  setpgid(worker, worker);
  watch_over(worker);
}

}  // namespace attnfuzz::worker
