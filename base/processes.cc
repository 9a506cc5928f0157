#include "base/processes.h"

#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <fstream>
#include <system_error>

#include "base/subprocess.h"

namespace attnfuzz {

pid_t start_child(const std::function<void()>& work, char* message, size_t room) {
  std::fflush(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) throw std::system_error(errno, std::generic_category(), "fork of a job");
  if (pid > 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // the parent died before prctl()
  int status = 0;
  try {
    work();
  } catch (const std::exception& e) {
    std::snprintf(message, room, "%s", e.what());
    status = 1;
  }
  _exit(status);
}

std::optional<Ending> ended(pid_t pid) {
  int status = 0;
  const pid_t done = waitpid(pid, &status, WNOHANG);
  if (done == 0 || (done < 0 && errno == EINTR)) return std::nullopt;
  if (done < 0) return Ending{"lost"};
  return Ending{status == 0 ? "" : describe_status(status)};
}

void end_child(pid_t pid) {
  kill(pid, SIGKILL);
  wait_for_child(pid);
}

double resident_bytes(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/statm");
  double all = 0, resident = 0, shared = 0;
  if (!(in >> all >> resident >> shared)) return 0;
  // Shared pages do not count: they are the arena that a job shares with its worker, and its size is bounded.
  return (resident - shared) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

static_assert(sizeof(sigset_t) <= 128);

Interrupts::Interrupts() {
  sigset_t all, old;
  sigemptyset(&all);
  sigaddset(&all, SIGINT);
  sigaddset(&all, SIGTERM);
  struct sigaction hangup = {};
  if (sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) sigaddset(&all, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &all, &old);
  memcpy(old_mask_, &old, sizeof old);
  fd_ = signalfd(-1, &all, SFD_NONBLOCK | SFD_CLOEXEC);
}

Interrupts::~Interrupts() {
  if (fd_ >= 0) close(fd_);
  sigset_t old;
  memcpy(&old, old_mask_, sizeof old);
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

int Interrupts::signal() const {
  signalfd_siginfo info;
  if (signal_ == 0 && fd_ >= 0 && read(fd_, &info, sizeof info) == sizeof info)
    signal_ = static_cast<int>(info.ssi_signo);
  return signal_;
}

}  // namespace attnfuzz
