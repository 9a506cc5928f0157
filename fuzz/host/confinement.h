// The measures that confine the worker of an untrusted kernel: `--untrusted`.
//
// The parent finds out which measures this machine has, and requests them from the worker through
// the wire (wire.h). The worker applies them before it loads the kernel (sandbox/confine.h). If a
// measure fails, it loads nothing. So the parent need not believe the kernel's process that the
// measures are in force.
//
//   const uint32_t measures = available_measures();
//   for (const std::string& one : lacking_words(measures)) say(one);
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace attnfuzz {

enum Measure : uint32_t {
  // Not dumpable, no new privileges, no capabilities, resource limits, read-only inputs; name,
  // arguments and environment give nothing away. Available everywhere.
  kMeasureProcess = 1,
  // Landlock: only files in the folders that libraries are loaded from can be read, and none can be written.
  kMeasureFiles = 2,
  // Landlock from version 4: no TCP.
  kMeasureNetwork = 4,
  // Landlock from version 6: no signal to another process, no abstract socket.
  kMeasureSignals = 8,
  // seccomp: the system calls that computing needs, and no other.
  kMeasureCalls = 16,
};

struct MeasureName {
  Measure measure;
  const char *name, *words;
};
// All measures, in the order of the enum. `name` is used in JSON.
const std::vector<MeasureName>& measure_names();

uint32_t all_measures();
// The measures that this machine and this build have.
uint32_t available_measures();
// A sentence for each missing measure: "without seccomp: it may make any system call". Empty if
// none is missing.
std::vector<std::string> lacking_words(uint32_t measures);

// The version of Landlock that the system has; 0: none.
int landlock_version();

// The environment for a process that must not know where it runs: "NAME=value".
std::vector<std::string> bare_environment();

// Makes the calling process untraceable, so that a worker cannot reach its memory.
void guard_own_memory();

// The name of a system call that a confined worker died of: "ptrace()", or "system call 335" if the call is not
// refused by name.
std::string call_name(int32_t number);

}  // namespace attnfuzz
