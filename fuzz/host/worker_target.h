// A target whose kernel runs in a process of its own: the one that is used.
//
// The kernel may crash, exit, hang, close descriptors or write where it likes:
// the reply says so, the worker is replaced, and the next call finds a fresh
// one. So is a worker whose kernel reported a fault, for its device or its
// executor is no longer sound.
//
//   std::string error;
//   auto target = open_target({.worker = "bin/attnfuzz-worker-cpu",
//                              .library = "lib/libattn_fa1_cpu.so"}, &error);
//   if (!target) die(error);       // one sentence that says what to do
//   RunReply r = target->run(...); // r.crash: "SIGSEGV while running, 1 byte past the end of k ..."
//
// A round trip takes a few microseconds, a new worker a few milliseconds (CPU)
// or a second (CUDA). Throws std::runtime_error when the machine itself fails:
// no more processes, or a worker that started once and does not any more. One
// target serves one thread, the one that opened it; open several for several.
#pragma once

#include <memory>
#include <string>

#include "properties/judge/target.h"

namespace attnfuzz {

struct WorkerOptions {
  std::string worker;   // path of attnfuzz-worker-cpu, -cuda, ...
  std::string library;  // path of the kernel library; one without '/' is looked up as dlopen does
  std::string kernel;   // name, or index in decimal; empty: the first of the back end
  std::string build_kind = "plain";
  double watchdog = 10;       // seconds that a small plan or run may take, see watchdog.h ...
  double patience = 12;       // ... on the CPU of processor time, and this many times as long by the clock
  double start_seconds = 60;  // seconds that a worker may take to load library and device
  uint32_t measures = 0;      // bits of Measure (confinement.h); 0: the kernel is trusted
};

// nullptr, with a reason in *error, if the library or its kernel cannot be used;
// *other_backend says whether that is because the kernel is not of the worker's
// back end.
std::unique_ptr<Target> open_target(const WorkerOptions& options, std::string* error,
                                    bool* other_backend = nullptr);

}  // namespace attnfuzz
