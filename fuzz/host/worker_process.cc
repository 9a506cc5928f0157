#include "fuzz/host/worker_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <new>
#include <sstream>
#include <system_error>
#include <thread>

#include "base/subprocess.h"
#include "fuzz/host/confinement.h"
#include "fuzz/host/zygote.h"

namespace attnfuzz {
namespace {

// The program at `path`, copied once per process into a file without a name, which runs from its
// descriptor.
int nameless(const std::string& path) {
  static std::map<std::string, int> copies;
  if (const auto known = copies.find(path); known != copies.end()) return known->second;
  const int from = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (from < 0) throw_errno(path.c_str());
  const int to = memfd_create("main", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  struct stat about = {};
  bool copied = to >= 0 && fstat(from, &about) == 0;
  for (off_t at = 0; copied && at < about.st_size;)
    copied = sendfile(to, from, &at, static_cast<size_t>(about.st_size - at)) > 0;
  close(from);
  if (!copied) throw_errno("a copy of the worker's program");
  // Whoever gets the descriptor can read and run the file, but not change it.
  fcntl(to, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW);
  return copies[path] = fcntl(to, F_DUPFD_CLOEXEC, 64);
}

// Reads "TID (any name) STATE PARENT ..." and returns the text from STATE on; empty: the process is gone.
std::string after_name(const std::string& stat_file) {
  char read_here[1024];
  const int file = open(stat_file.c_str(), O_RDONLY | O_CLOEXEC);
  const ssize_t bytes =
      file < 0 ? 0 : read(file, read_here, sizeof read_here);  // fails if the process ends now
  if (file >= 0) close(file);
  const std::string text(read_here, static_cast<size_t>(std::max<ssize_t>(bytes, 0)));
  const size_t name_ends = text.rfind(')');
  return name_ends == text.npos || name_ends + 2 >= text.size() ? "" : text.substr(name_ends + 2);
}

// The state of a thread; 'X' if it is gone.
char state_of(const std::string& stat_file) {
  const std::string text = after_name(stat_file);
  return text.empty() ? 'X' : text[0];
}

bool all_stopped(pid_t pid) {
  std::error_code gone;
  std::filesystem::directory_iterator thread("/proc/" + std::to_string(pid) + "/task", gone);
  for (; !gone && thread != std::filesystem::directory_iterator(); thread.increment(gone)) {
    const char state = state_of(thread->path().string() + "/stat");
    if (std::strchr("TtZXx", state) == nullptr) return false;
  }
  return true;
}

// Moves a descriptor above the numbers that the worker expects, so that dup2() in the child cannot
// overwrite another one.
int raised(int fd, const char* what) {
  if (fd < 0) throw_errno(what);
  const int high = fcntl(fd, F_DUPFD_CLOEXEC, 64);
  const int error = errno;
  close(fd);
  errno = error;
  if (high < 0) throw_errno(what);
  return high;
}

ExitReason exit_reason_of(int status) {
  if (!WIFSIGNALED(status)) return ExitReason::kExit;
  const int signal = WTERMSIG(status);
  return signal == SIGKILL  ? ExitReason::kKilled
         : signal == SIGFPE ? ExitReason::kArithmetic
                            : ExitReason::kSignal;
}

}  // namespace

void WorkerProcess::make_wire(uint32_t measures) {
  wire_fd_ = raised(memfd_create(measures != 0 ? "shared" : "attnfuzz-wire", MFD_CLOEXEC), "memfd_create");
  if (ftruncate(wire_fd_, sizeof(wire::Wire)) != 0) throw_errno("ftruncate");
  void* p = mmap(nullptr, sizeof(wire::Wire), PROT_READ | PROT_WRITE, MAP_SHARED, wire_fd_, 0);
  if (p == MAP_FAILED) throw_errno("mmap");
  wire_ = static_cast<wire::Wire*>(p);
  wire_->version = wire::kVersion;
  wire_->size = sizeof(wire::Wire);
  wire_->measures = measures;
}

WorkerProcess::WorkerProcess(const WorkerCommand& command, int arena_fd) {
  std::array<int, 2> ends = {-1, -1};  // the supervisor's ends: output, status
  int arena = -1;
  // Only our end is non-blocking. Python raises an error if a non-blocking pipe is full, so a
  // correct function that prints a lot would fail. With a blocking pipe it waits until wait() has
  // read the output.
  const auto open_pipe = [](int& ours, int& its) {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) throw_errno("pipe2");
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    ours = fds[0];
    its = raised(fds[1], "fcntl");
  };
  const auto close_theirs = [&] {
    for (const int fd : {ends[0], ends[1], arena}) {
      if (fd >= 0) close(fd);
    }
  };
  try {
    make_wire(command.measures);
    request_bell_ = raised(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd");
    answer_bell_ = raised(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd");
    open_pipe(output_fd_, ends[0]);
    // A socket instead of a pipe: its other end shows that this process is gone, and end() can shut it down.
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0)
      throw_errno("socketpair");
    status_fd_ = pair[0];
    ends[1] = raised(pair[1], "fcntl");
    arena = fcntl(arena_fd, F_DUPFD_CLOEXEC, 64);
    if (arena < 0) throw_errno("fcntl");
    const bool confined = command.measures != 0;
    // The cgroup also holds the worker's supervisor, and for a moment a zygote's fork.
    constexpr int kOthers = 4;
    if (confined) tasks_.emplace(static_cast<int>(most_tasks()) + kOthers);
    if (is_python(command.library)) {
      zygote_of(command.library, command.measures != 0)
          .fork_worker(command.worker, command.kernel,
                       {ends[0], wire_fd_, arena, request_bell_, answer_bell_, ends[1]});
      supervisor_ = kForked;
      close_theirs();
      return;
    }
    SpawnOptions options = {.descriptors = {{ends[0], STDOUT_FILENO},
                                            {ends[0], STDERR_FILENO},
                                            {wire_fd_, wire::kWireFd},
                                            {arena, wire::kArenaFd},
                                            {request_bell_, wire::kRequestBell},
                                            {answer_bell_, wire::kAnswerBell},
                                            {ends[1], wire::kStatusFd}},
                            .close_from = wire::kFirstUnused,
                            .no_input = true,
                            .own_group = true};
    const std::vector<std::string> environment = bare_environment();
    if (confined) {
      options.descriptors.emplace_back(nameless(command.worker), wire::kProgramFd);
      options.name = "main";
      options.environment = &environment;
    } else {
      options.close_from = wire::kProgramFd;
    }
    supervisor_ =
        spawn_program({confined ? "/proc/self/fd/" + std::to_string(wire::kProgramFd) : command.worker,
                       command.library, command.kernel, std::to_string(getpid())},
                      options);
    // If the system has no pidfd (before Linux 5.3, some sandboxes), wait() takes the end of the output for the
    // worker's exit.
    pidfd_ = static_cast<int>(syscall(SYS_pidfd_open, supervisor_, 0));
    if (tasks_) tasks_->take(supervisor_);  // read_status() adds the worker
    close_theirs();
  } catch (...) {
    close_theirs();
    close_all();
    throw;
  }
}

WorkerProcess::~WorkerProcess() {
  end();
  close_all();
}

void WorkerProcess::close_all() {
  if (supervisor_ >= 0) end();
  for (int* fd : {&pidfd_, &request_bell_, &answer_bell_, &output_fd_, &wire_fd_, &status_fd_}) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
  }
  if (wire_) munmap(wire_, sizeof(wire::Wire));
  wire_ = nullptr;
}

void WorkerProcess::ring() {
  const uint64_t one = 1;
  // The write fails only if the counter is full. Then the bell is already ringing.
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
    pollfd fds[3] = {{answer_bell_, POLLIN, 0},
                     {supervisor_ == kForked ? status_fd_ : pidfd_,
                      static_cast<short>(supervisor_ == kForked ? 0 : POLLIN), 0},
                     {listen ? output_fd_ : -1, POLLIN, 0}};
    const int n = ppoll(fds, 3, &timeout, nullptr);
    if (n < 0 && errno != EINTR) throw_errno("ppoll");
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
    if (fds[1].revents || (closed && pidfd_ < 0 && supervisor_ != kForked)) return Event::kDied;
    if (ns <= 0) return Event::kTimeout;  // even if the worker goes on printing
  }
}

void WorkerProcess::read_status() {
  int32_t number = 0;
  if (worker_ < 0 && read(status_fd_, &number, sizeof number) == sizeof number) {
    worker_ = number;
    if (tasks_) tasks_->take(worker_);
  }
  if (worker_ > 0 && !status_ && read(status_fd_, &number, sizeof number) == sizeof number) status_ = number;
}

void WorkerProcess::await_number() {
  if (worker_ < 0) {
    // The supervisor sends the worker's process id once the worker has started. The worker may
    // answer before the id arrives.
    pollfd fd = {status_fd_, POLLIN, 0};
    poll(&fd, 1, 10'000);
  }
  read_status();
}

void WorkerProcess::freeze() {
  await_number();
  if (worker_ <= 0 || status_ || kill(worker_, SIGSTOP) != 0) return;
  constexpr int kMostRounds = 20'000;  // 2 s; a thread that has not stopped by then is blocked in a system call
  for (int round = 0; round < kMostRounds && !all_stopped(worker_); ++round) {
    if (round > 100) usleep(100);
  }
}

void WorkerProcess::thaw() {
  if (worker_ > 0 && !status_) kill(worker_, SIGCONT);
}

std::optional<double> WorkerProcess::processor_seconds() {
  clockid_t clock;
  timespec used;
  await_number();
  if (worker_ <= 0 || clock_getcpuclockid(worker_, &clock) != 0 || clock_gettime(clock, &used) != 0)
    return std::nullopt;
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

std::optional<int64_t> WorkerProcess::threads() {
  await_number();
  if (worker_ <= 0) return std::nullopt;
  std::istringstream fields(after_name("/proc/" + std::to_string(worker_) + "/stat"));
  constexpr int kBefore = 17;  // STATE is field 3 of proc(5), num_threads 20
  std::string skipped;
  for (int n = 0; n < kBefore; ++n) fields >> skipped;
  int64_t count = 0;
  return fields >> count ? std::optional(count) : std::nullopt;
}

int64_t WorkerProcess::most_tasks() {
  return 512 + 4 * static_cast<int64_t>(std::thread::hardware_concurrency());
}

bool WorkerProcess::ask_where() {
  read_status();
  return worker_ > 0 && !status_ && kill(worker_, wire::kWhereSignal) == 0;
}

std::optional<int> WorkerProcess::exit_status() const {
  return status_ && WIFEXITED(*status_) ? std::optional(WEXITSTATUS(*status_)) : std::nullopt;
}

bool WorkerProcess::supervisor_ended(int milliseconds) {
  if (supervisor_ == kForked) {
    pollfd fd = {status_fd_, 0, 0};
    return poll(&fd, 1, milliseconds) > 0;
  }
  for (int ms = 0;; ++ms) {
    siginfo_t info = {};
    if (waitid(P_PID, static_cast<id_t>(supervisor_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid != 0)
      return true;
    if (ms >= milliseconds) return false;
    pollfd fd = {pidfd_, POLLIN, 0};
    poll(&fd, 1, 1);
  }
}

std::string WorkerProcess::end() {
  if (supervisor_ < 0) return ending_;
  const bool forked = supervisor_ == kForked;
  const bool dead = supervisor_ended(pidfd_ < 0 && !forked ? 50 : 0);  // its output may end before it does
  if (!dead) {
    // The supervisor ends the worker and all processes that it has left. With a GPU that takes a
    // while.
    constexpr int kPatienceMs = 30'000;
    if (forked) {
      shutdown(status_fd_, SHUT_WR);
      supervisor_ended(kPatienceMs);
    } else {
      kill(supervisor_, SIGTERM);
      kill(supervisor_, SIGCONT);  // a kernel may have stopped it
      if (!supervisor_ended(kPatienceMs)) kill(supervisor_, SIGKILL);
    }
  }
  const int supervisor_status = forked ? 0 : wait_for_child(supervisor_);
  supervisor_ = -1;
  read_status();
  if (!status_ && worker_ > 0) kill(-worker_, SIGKILL);
  if (!dead) {
    ending_ = "killed";
  } else if (!status_) {
    // Before a kernel was loaded, the signal cannot have come from the kernel.
    const bool loaded = wire_->state.load() == wire::State::kReady;
    ending_ = (forked ? "killed" : describe_status(supervisor_status)) +
              (loaded ? ", sent to the worker's parent," : "");
    exit_reason_ = forked ? ExitReason::kKilled : exit_reason_of(supervisor_status);
  } else {
    ending_ = describe_status(*status_);
    exit_reason_ = exit_reason_of(*status_);
    if (!WIFEXITED(*status_)) return ending_;
    if (WEXITSTATUS(*status_) == wire::kExitBells)
      ending_ += " (the kernel closed or replaced the worker's descriptors)";
    if (WEXITSTATUS(*status_) == wire::kExitScribbled)
      ending_ += " (the kernel wrote over the worker's own memory)";
  }
  return ending_;
}

}  // namespace attnfuzz
