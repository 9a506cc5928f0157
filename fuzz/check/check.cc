#include "fuzz/check/check.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <new>
#include <span>
#include <stdexcept>
#include <system_error>

#include "base/processes.h"
#include "base/subprocess.h"
#include "fuzz/check/counts/enough.h"
#include "fuzz/check/shard.h"
#include "properties/draw/covering.h"

namespace attnfuzz {
namespace {

using Clock = std::chrono::steady_clock;

// The time that a job has to finish its case after an interrupt.
constexpr std::chrono::seconds kGrace{5};

[[noreturn]] void fail_errno(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

// A page that all jobs share.
class SharedPage {
 public:
  SharedPage() {
    memory_ = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) fail_errno("mmap of the jobs' shared page");
    new (memory_) Shared;
  }
  ~SharedPage() { munmap(memory_, sizeof(Shared)); }
  SharedPage(const SharedPage&) = delete;
  SharedPage& operator=(const SharedPage&) = delete;
  Shared& operator*() { return *static_cast<Shared*>(memory_); }

 private:
  void* memory_;
};

// A process that runs jobs: shard.h.
struct Process {
  pid_t pid;
  int fd;
  std::string text = {}, how = {};  // its answer, and how it ended
  bool given_up = false;
};

void write_all(int fd, const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t n = write(fd, text.data() + at, text.size() - at);
    if (n < 0 && errno != EINTR) return;  // the parent is gone, so nobody reads the answer
    if (n > 0) at += static_cast<size_t>(n);
  }
}

// Starts a process that sends its answer through a pipe: "r" and a result, or "e" and an error.
Process start_process(int process, const OpenTarget& open, const Calibration& calibration,
                      const CheckOptions& options, Shared& shared) {
  int fds[2];
  if (pipe(fds) != 0) fail_errno("pipe to a job");
  const pid_t pid = start_child(
      [&] {
        close(fds[0]);
        try {
          write_all(fds[1], "r" + serialize(run_jobs(process, open, calibration, options, shared)));
        } catch (const std::exception& e) {
          shared.stop = true;
          write_all(fds[1], std::string("e") + e.what());
        }
      },
      nullptr, 0);
  close(fds[1]);
  return {pid, fds[0]};
}

// The cases, by number plus 1, that the jobs of a process are at, the lowest first.
std::vector<uint64_t> cases_at(size_t process, const CheckOptions& options, const Shared& shared) {
  std::vector<uint64_t> cases;
  for (int job = static_cast<int>(process); job < options.jobs; job += process_count(options))
    if (const uint64_t at = shared.at[job]; at > 0) cases.push_back(at);
  std::ranges::sort(cases);
  return cases;
}

// Reads the answers of all processes until they end.
void collect(std::vector<Process>& processes, Shared& shared, const CheckOptions& options,
             const std::function<void()>& tick) {
  size_t open = processes.size();
  while (open > 0) {
    std::vector<pollfd> fds;
    for (const Process& process : processes) fds.push_back({process.fd, POLLIN, 0});
    if (poll(fds.data(), fds.size(), 500) < 0 && errno != EINTR) fail_errno("poll of the jobs");
    for (size_t i = 0; i < processes.size(); ++i) {
      Process& process = processes[i];
      if (process.fd < 0 || fds[i].revents == 0) continue;
      char buffer[1 << 16];
      const ssize_t n = read(process.fd, buffer, sizeof buffer);
      if (n > 0) {
        process.text.append(buffer, static_cast<size_t>(n));
      } else if (n == 0) {
        close(process.fd);
        process.fd = -1;  // poll passes over it
        process.how = describe_status(wait_for_child(process.pid));
        // A process died in a case, so the others need not run cases beyond it.
        const std::vector<uint64_t> at = cases_at(i, options, shared);
        if (process.text.empty() && !process.given_up && !at.empty() && !options.keep_going)
          shared.first_failure = std::min(shared.first_failure.load(), at[0] - 1);
        --open;
      }
    }
    tick();
  }
}

// The failure of a case that its job did not survive.
Failure fatal_failure(uint64_t index, const std::string& how, Target& target, const Calibration& calibration,
                      const CheckOptions& options) {
  auto [c, property] = case_at(config_for(target, options), options, target, calibration, index);
  rejected_by(*property, c, target);  // adapts it
  Failure failure = {.index = index, .c = c, .property = property, .fatal = true};
  failure.verdict.outcome = Outcome::kFail;
  failure.verdict.kind = Kind::kCrash;
  failure.verdict.property = property->name;
  failure.verdict.message =
      "the process that judged this case died (" + how +
      "), so the counts of its jobs are lost: it was killed from outside, or by the kernel";
  return failure;
}

// Adds a process's answer to the result. If it died, the lowest case in flight becomes a failure, and the
// others are named. `at`: cases_at().
void add_answer(const Process& process, std::span<const uint64_t> at, const OpenTarget& open,
                const Calibration& calibration, const CheckOptions& options, CheckResult& result) {
  if (process.text.starts_with('r')) {
    const CheckResult answer = deserialize(process.text.substr(1));
    result.uncounted -= answer.cases();
    result.merge(answer);
  } else if (!process.text.empty()) {
    throw std::runtime_error(process.text.substr(1));
  } else if (process.given_up) {
    for (const uint64_t one : at) result.given_up.push_back(one - 1);
  } else if (at.empty()) {
    throw std::runtime_error("a job of the check died outside of a case: " + process.how);
  } else {
    std::string error;
    const std::unique_ptr<Target> target = open(&error);
    if (target == nullptr) throw std::runtime_error(error);
    Failure failure = fatal_failure(at[0] - 1, process.how, *target, calibration, options);
    PropertyStats& n = result.properties[failure.property->name];
    ++n.cases, ++n.failed;
    result.add(std::move(failure));
    for (const uint64_t one : at.subspan(1)) result.died_with.push_back(one - 1);
  }
}

}  // namespace

CheckResult check(const OpenTarget& open, const Calibration& calibration, const CheckOptions& options,
                  const OnProgress& progress) {
  SharedPage page;
  Shared& shared = *page;
  const auto start = Clock::now();
  if (options.config && options.config->covering)
    options.config->covering->size();  // made here, once, and not by each job
  std::vector<Process> processes;
  for (int n = 0; n < process_count(options); ++n)
    processes.push_back(start_process(n, open, calibration, options, shared));
  const uint64_t of = options.seconds > 0 ? 0 : options.cases;
  CheckResult result;
  Clock::time_point interrupted;
  collect(processes, shared, options, [&] {
    if (progress) progress(shared.done, of, std::chrono::duration<double>(Clock::now() - start).count());
    if (!result.interrupted && options.interrupted && options.interrupted()) {
      result.interrupted = shared.stop = true;
      interrupted = Clock::now();
    }
    // Each process may finish its case and an answer that it has begun. A process that still hangs
    // in a case after kGrace is killed.
    if (!result.interrupted || Clock::now() - interrupted < kGrace) return;
    for (Process& process : processes) {
      if (process.fd < 0 || process.given_up || !process.text.empty()) continue;
      kill(process.pid, SIGKILL);
      process.given_up = true;
    }
  });

  result.uncounted = shared.done;  // less the cases in each answer
  for (size_t i = 0; i < processes.size(); ++i)
    add_answer(processes[i], cases_at(i, options, shared), open, calibration, options, result);
  const auto died = static_cast<uint64_t>(std::ranges::count_if(
      processes, [](const Process& process) { return process.text.empty() && !process.given_up; }));
  if (options.keep_going && options.seconds == 0 && died > 0 && !result.interrupted)
    result.never_run = options.cases - shared.done - died - result.died_with.size();
  if (!options.keep_going && result.failures.size() > 1)
    result.failures.erase(result.failures.begin() + 1, result.failures.end());
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return result;
}

std::vector<std::string> not_judged(const CheckResult& result, const std::string& kernel,
                                    const Refused& refused, bool whole) {
  std::vector<std::string> why;
  const std::string too_little = too_little_judged(result, kernel);
  if (result.rows <= result.unconstrained_rows) return {too_little};
  if (whole) {
    for (const std::string& floor : result.features.broken_floors(refused, Classification::kByChance))
      why.push_back(kernel + ": floor of the draw broken: " + floor);
  }
  if (why.empty() && !too_little.empty()) why.push_back(too_little);
  if (why.empty()) return why;
  why.push_back(
      "what is not judged does not pass: let plan(), or --takes of a CUDA source, say how the kernel works "
      "(what "
      "it leaves open counts as the loosest), let it take more problems, or draw larger ones with --work");
  return why;
}

}  // namespace attnfuzz
