#include "fuzz/host/worker_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <system_error>

namespace attnfuzz {
namespace {

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

// Clear of the numbers the worker finds them at, so that placing one cannot overwrite another.
int raised(int fd, const char* what) {
  if (fd < 0) fail(what);
  const int high = fcntl(fd, F_DUPFD_CLOEXEC, 64);
  const int error = errno;
  close(fd);
  errno = error;
  if (high < 0) fail(what);
  return high;
}

}  // namespace

WorkerProcess::WorkerProcess(const WorkerCommand& command, int arena_fd) {
  int pipe_fds[2] = {-1, -1};
  try {
    wire_fd_ = raised(memfd_create("attnfuzz-wire", MFD_CLOEXEC), "memfd_create");
    if (ftruncate(wire_fd_, sizeof(wire::Wire)) != 0) fail("ftruncate");
    void* p = mmap(nullptr, sizeof(wire::Wire), PROT_READ | PROT_WRITE, MAP_SHARED, wire_fd_, 0);
    if (p == MAP_FAILED) fail("mmap");
    wire_ = static_cast<wire::Wire*>(p);
    wire_->version = wire::kVersion;
    wire_->size = sizeof(wire::Wire);
    request_bell_ = raised(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd");
    answer_bell_ = raised(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd");
    // Not blocking at either end: a kernel that prints without end loses its output, not its time.
    if (pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) != 0) fail("pipe2");
    output_fd_ = pipe_fds[0];
    pipe_fds[0] = -1;
    pipe_fds[1] = raised(pipe_fds[1], "fcntl");
    spawn(command, arena_fd, pipe_fds[1]);
    close(pipe_fds[1]);
  } catch (...) {
    if (pipe_fds[1] >= 0) close(pipe_fds[1]);
    close_all();
    throw;
  }
}

void WorkerProcess::spawn(const WorkerCommand& command, int arena_fd, int output_fd) {
  const int arena = fcntl(arena_fd, F_DUPFD_CLOEXEC, 64);
  if (arena < 0) fail("fcntl");
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, output_fd, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, output_fd, STDERR_FILENO);
  posix_spawn_file_actions_adddup2(&files, wire_fd_, wire::kWireFd);
  posix_spawn_file_actions_adddup2(&files, arena, wire::kArenaFd);
  posix_spawn_file_actions_adddup2(&files, request_bell_, wire::kRequestBell);
  posix_spawn_file_actions_adddup2(&files, answer_bell_, wire::kAnswerBell);
  posix_spawn_file_actions_addclosefrom_np(&files, wire::kFirstUnused);

  // A group of its own, to be killed with whatever it starts; and signals as at a program's start.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setpgroup(&attributes, 0);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);

  const std::string parent = std::to_string(getpid());
  const char* const argv[] = {command.worker.c_str(), command.library.c_str(), command.kernel.c_str(),
                              parent.c_str(), nullptr};
  const int error =
      posix_spawn(&pid_, command.worker.c_str(), &files, &attributes, const_cast<char* const*>(argv), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  close(arena);
  if (error != 0) {
    pid_ = -1;
    throw std::system_error(error, std::generic_category(), "cannot start " + command.worker);
  }
  // Where the system has none (before Linux 5.3, some sandboxes), wait() takes the end of its output for its
  // death.
  pidfd_ = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
}

WorkerProcess::~WorkerProcess() {
  end();
  close_all();
}

void WorkerProcess::close_all() {
  if (pid_ > 0) end();
  for (int* fd : {&pidfd_, &request_bell_, &answer_bell_, &output_fd_, &wire_fd_}) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
  }
  if (wire_) munmap(wire_, sizeof(wire::Wire));
  wire_ = nullptr;
}

void WorkerProcess::ring() {
  const uint64_t one = 1;
  // It can only fail full, and then the bell is ringing already.
  [[maybe_unused]] const ssize_t n = write(request_bell_, &one, sizeof one);
}

void WorkerProcess::drain() {
  char buffer[16384];
  ssize_t n;
  while ((n = read(output_fd_, buffer, sizeof buffer)) > 0) {
    output_.append(buffer, static_cast<size_t>(n));
    if (output_.size() > 2 * kOutputTail) output_.erase(0, output_.size() - kOutputTail);
    if (static_cast<size_t>(n) < sizeof buffer) break;
  }
}

void WorkerProcess::discard_output() {
  drain();
  output_.clear();
}

std::string WorkerProcess::output() {
  drain();
  if (output_.size() > kOutputTail) output_.erase(0, output_.size() - kOutputTail);
  return output_;
}

WorkerProcess::Event WorkerProcess::wait(std::chrono::steady_clock::time_point deadline) {
  bool listen = true;
  for (;;) {
    const auto left = deadline - std::chrono::steady_clock::now();
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
    const timespec timeout = {ns > 0 ? ns / 1'000'000'000 : 0, ns > 0 ? ns % 1'000'000'000 : 0};
    pollfd fds[3] = {{answer_bell_, POLLIN, 0}, {pidfd_, POLLIN, 0}, {listen ? output_fd_ : -1, POLLIN, 0}};
    const int n = ppoll(fds, 3, &timeout, nullptr);
    if (n < 0 && errno != EINTR) fail("ppoll");
    if (n == 0) return Event::kTimeout;
    if (n < 0) continue;
    if (fds[2].revents & POLLIN) drain();
    const bool closed = fds[2].revents & (POLLHUP | POLLERR);
    if (closed) listen = false;
    if (fds[0].revents & POLLIN) {
      uint64_t rings = 0;
      [[maybe_unused]] const ssize_t got = read(answer_bell_, &rings, sizeof rings);
      return Event::kRang;
    }
    if (fds[1].revents || (closed && pidfd_ < 0)) return Event::kDied;
    if (ns <= 0) return Event::kTimeout;  // however much it prints
  }
}

std::optional<double> WorkerProcess::processor_seconds() const {
  clockid_t clock;
  timespec used;
  if (pid_ <= 0 || clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &used) != 0)
    return std::nullopt;
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

bool WorkerProcess::ask_where() const { return pid_ > 0 && kill(pid_, wire::kWhereSignal) == 0; }

std::string WorkerProcess::end() {
  if (pid_ <= 0) return ending_;
  // The group first: its number stays taken until the worker itself is reaped.
  bool dead = false;
  const int patience_ms = pidfd_ < 0 ? 50 : 0;  // its output ends before it does
  for (int ms = 0; !dead && ms <= patience_ms; ++ms) {
    if (ms > 0) usleep(1000);
    siginfo_t info = {};
    dead = waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
  }
  kill(-pid_, SIGKILL);
  if (!dead) kill(pid_, SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  if (!dead) {
    ending_ = "killed";
  } else if (WIFSIGNALED(status)) {
    const char* name = sigabbrev_np(WTERMSIG(status));
    ending_ = name ? std::string("SIG") + name : "signal " + std::to_string(WTERMSIG(status));
  } else {
    ending_ = "exit status " + std::to_string(WEXITSTATUS(status));
    if (WEXITSTATUS(status) == wire::kExitBells) ending_ += " (the kernel closed the worker's descriptors)";
    if (WEXITSTATUS(status) == wire::kExitScribbled)
      ending_ += " (the kernel wrote over the worker's own memory)";
  }
  return ending_;
}

}  // namespace attnfuzz
