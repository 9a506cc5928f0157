// The measures that confine a worker whose kernel nobody vouches for: `--untrusted`.
//
// The parent asks what this machine has, and says in the wire (wire.h) what of it the worker
// takes on before it loads the kernel (sandbox/confine.h). A worker that cannot do what it was
// asked for loads nothing, so what the parent asked for is what there is: nothing that the
// kernel's process says counts.
//
//   const uint32_t measures = available_measures();
//   for (const std::string& one : lacking_words(measures)) say(one);
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace attnfuzz {

enum Measure : uint32_t {
  // Not dumpable, no new privileges, no capabilities, limits; a name, arguments and an environment
  // that tell nothing; inputs that can be read alone. Everywhere.
  kMeasureProcess = 1,
  // Landlock: files outside of what libraries are loaded from can neither be read nor written.
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
// All of them, in that order: the name is JSON's.
const std::vector<MeasureName>& measure_names();

uint32_t all_measures();
// The measures that this machine and this build have.
uint32_t available_measures();
// "without seccomp: it may make any system call", one each; empty: nothing is lacking.
std::vector<std::string> lacking_words(uint32_t measures);

// The version of Landlock that the system has; 0: none.
int landlock_version();

// The environment for a process that must not know where it runs: "NAME=value".
std::vector<std::string> bare_environment();

// The calling process, whose memory a worker must not reach: it can be traced no more.
void guard_own_memory();

// The name of a system call that a confined worker died of: "ptrace()"; "system call 335" for one that is
// not among those that are refused by name.
std::string call_name(int32_t number);

}  // namespace attnfuzz
