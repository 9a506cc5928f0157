// One worker process: started, waited for, ended and reaped.
//
// Nothing that the worker does can hurt this process. It shares only the wire, the arena, two bells and a
// bounded pipe for its output. Its parent is a supervisor (worker/supervisor.h). It is killed with all its
// children when this object is destroyed, and also when the thread that started it ends. So that thread must
// live as long as the target.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>

#include "fuzz/host/task_limit.h"
#include "fuzz/host/wire.h"
#include "properties/judge/target/exit_reason.h"

namespace attnfuzz {

// `worker` is a program, unless `library` is a Python file. Then `worker` is the library that the zygote's
// workers load (zygote.h).
struct WorkerCommand {
  std::string worker, library, kernel;
  uint32_t measures = 0;  // bits of Measure (confinement.h); 0: as trusted as this process
};

class WorkerProcess {
 public:
  // Throws std::system_error if the machine has no more processes or descriptors.
  WorkerProcess(const WorkerCommand& command, int arena_fd);
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  wire::Wire& wire() { return *wire_; }
  void ring();
  // Discards the output so far.
  void discard_output();

  enum class Event { kRang, kDied, kTimeout };
  // Sleeps until one of these events. kRang may be an old ring: look into the wire.
  Event wait(std::chrono::steady_clock::time_point deadline);

  // The processor time of all its threads so far, in seconds; nothing if the system does not tell.
  std::optional<double> processor_seconds();

  // The number of its threads; nothing if the system does not tell. An untrusted worker may have at most
  // most_tasks(). This limit grows with the number of processors, because some libraries begin a few threads
  // for each.
  std::optional<int64_t> threads();
  static int64_t most_tasks();

  // Sends wire::kWhereSignal. False if there is no process.
  bool ask_where();

  // Stops all its threads until thaw(), so that shared memory does not change. A thread that is
  // inside a system call may not stop.
  void freeze();
  void thaw();

  // Ends the worker if it still lives, and returns how it ended: "SIGSEGV", "exit status 3". Call it after
  // kDied, or to get rid of the worker.
  std::string end();
  // Returns how the worker ended; kNone if end() killed it. Call it after end().
  ExitReason exit_reason() const { return exit_reason_; }
  // Set if the worker ended itself.
  std::optional<int> exit_status() const;
  // The last of what it printed, at most kOutputTail bytes.
  std::string output();
  static constexpr size_t kOutputTail = 32 * 1024;

 private:
  void drain();
  void read_status();
  void await_number();
  bool supervisor_ended(int milliseconds);
  // Throws std::system_error.
  void make_wire(uint32_t measures);
  void close_all();

  // supervisor_ is kForked if a zygote has forked it. Then it is no child of ours, and only status_fd_ tells
  // about it.
  static constexpr pid_t kForked = 0;
  pid_t supervisor_ = -1, worker_ = -1;  // worker_ is -1 until the supervisor reports it
  std::optional<int> status_;            // the worker's wait status, from the supervisor too
  int pidfd_ = -1, request_bell_ = -1, answer_bell_ = -1, output_fd_ = -1, wire_fd_ = -1, status_fd_ = -1;
  wire::Wire* wire_ = nullptr;
  std::optional<TaskLimit> tasks_;  // of a confined worker
  std::string output_, ending_;
  ExitReason exit_reason_ = ExitReason::kNone;
};

}  // namespace attnfuzz
