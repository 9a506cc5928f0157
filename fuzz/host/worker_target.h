// A target whose kernel runs in a process of its own.
//
// The kernel may crash, exit, hang, close descriptors or write anywhere. The reply then says so,
// and the next call gets a fresh worker. A worker whose kernel reported a fault is also replaced,
// because its device or executor may be unsound.
//
//   std::string error;
//   auto target = open_target({.worker = "bin/attnfuzz-worker-cpu",
//                              .library = "lib/libattn_fa1_cpu.so"}, &error);
//   if (!target) die(error);       // one sentence that says what to do
//   RunReply r = target->run(...); // r.crash: "SIGSEGV while running, 1 byte past the end of k ..."
//
// A round trip takes a few microseconds, a new worker a few milliseconds (CPU) or a second (CUDA).
// Throws std::runtime_error if the machine itself fails: it has no more processes, or a worker that
// once started no longer starts. A target serves only the thread that opened it; open one for each
// thread.
#pragma once

#include <memory>
#include <string>

#include "properties/judge/target/target.h"

namespace attnfuzz {

struct WorkerOptions {
  std::string worker;   // path of attnfuzz-worker-cpu, -cuda, ...
  std::string library;  // path of the kernel library; one without '/' is looked up as dlopen does
  std::string kernel;   // name, or index in decimal; empty: the first of the back end
  std::string build_kind = "plain";
  double watchdog = 10;       // seconds for a small plan or run (watchdog.h): processor time on the CPU
  double patience = 12;       // on the CPU, the clock's limit is this many times `watchdog`
  double start_seconds = 60;  // seconds that a worker may take to load library and device
  uint32_t measures = 0;      // bits of Measure (confinement.h); 0: the kernel is trusted
};

// nullptr, with a reason in *error, if the library or its kernel cannot be used; *other_backend
// says whether the reason is that the kernel belongs to the other back end.
std::unique_ptr<Target> open_target(const WorkerOptions& options, std::string* error,
                                    bool* other_backend = nullptr);

}  // namespace attnfuzz
