// One worker process: started, waited for, ended and reaped.
//
// Nothing it does can hurt this process: it shares the wire and the arena, two
// bells and a bounded pipe for its output; its parent is a supervisor (worker/supervisor.h),
// and it is killed with all its children when this object goes. It is also killed
// when the thread that started it ends, so keep a target in a thread that lives as
// long as it does.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>

#include "fuzz/host/task_limit.h"
#include "fuzz/host/wire.h"
#include "properties/judge/exit_reason.h"

namespace attnfuzz {

// `worker` is a program; of a library that is a file of Python the library that its zygote
// hosts workers with (zygote.h).
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
  // Forgets what it has printed so far.
  void discard_output();

  enum class Event { kRang, kDied, kTimeout };
  // Sleeps until one of them. kRang may be an old ring: look into the wire.
  Event wait(std::chrono::steady_clock::time_point deadline);

  // Processor time that it has used so far, all its threads together, in seconds;
  // nothing where the system does not tell.
  std::optional<double> processor_seconds();

  // Threads that it has now; nothing where the system does not tell. One that nobody vouches for may not have
  // more than most_tasks(): some libraries begin a few for each processor.
  std::optional<int64_t> threads();
  static int64_t most_tasks();

  // Sends wire::kWhereSignal; whether there is a process to send it to.
  bool ask_where();

  // Stops all its threads, as far as they are in its own code, until thaw(): what it shares stays as it is.
  void freeze();
  void thaw();

  // Ends it if it still lives. How it ended, for people: "SIGSEGV", "exit status 3". Call once wait() said
  // kDied, or to be rid of it.
  std::string end();
  // The same for a program, after end(); kNone of one that was ended.
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

  // supervisor_ is kForked where a zygote has forked it: no child of ours, known by status_fd_ alone.
  static constexpr pid_t kForked = 0;
  pid_t supervisor_ = -1, worker_ = -1;  // worker_ as far as the supervisor has told
  std::optional<int> status_;       // the worker's, likewise
  int pidfd_ = -1, request_bell_ = -1, answer_bell_ = -1, output_fd_ = -1, wire_fd_ = -1, status_fd_ = -1;
  wire::Wire* wire_ = nullptr;
  std::optional<TaskLimit> tasks_;  // of a confined worker
  std::string output_, ending_;
  ExitReason exit_reason_ = ExitReason::kNone;
};

}  // namespace attnfuzz
