#include "fuzz/host/confinement.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "fuzz/host/landlock.h"
#include "fuzz/host/refused_calls.h"

namespace attnfuzz {

const std::vector<MeasureName>& measure_names() {
  static const std::vector<MeasureName> all = {
      {kMeasureProcess, "process", "its process can be traced, and may gain privileges"},
      {kMeasureFiles, "files", "Landlock: it may read and write whatever its user may"},
      {kMeasureNetwork, "network", "Landlock 4: it may connect to anything"},
      {kMeasureSignals, "signals", "Landlock 6: it may send signals to its user's other processes"},
      {kMeasureCalls, "system calls", "seccomp: it may make any system call"},
  };
  return all;
}

uint32_t all_measures() {
  uint32_t all = 0;
  for (const MeasureName& m : measure_names()) all |= m.measure;
  return all;
}

int landlock_version() {
  const long version = syscall(SYS_landlock_create_ruleset, nullptr, 0, landlock::kAskVersion);
  return version > 0 ? static_cast<int>(version) : 0;
}

uint32_t available_measures() {
  uint32_t measures = kMeasureProcess;
  const int landlock = landlock_version();
  if (landlock >= 1) measures |= kMeasureFiles;
  if (landlock >= 4) measures |= kMeasureNetwork;
  if (landlock >= 6) measures |= kMeasureSignals;
#ifdef ATTNFUZZ_HAVE_SECCOMP
  const uint32_t action = SECCOMP_RET_TRAP;
  if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0) measures |= kMeasureCalls;
#endif
  return measures;
}

std::vector<std::string> lacking_words(uint32_t measures) {
  std::vector<std::string> words;
  for (const MeasureName& m : measure_names()) {
    if ((measures & m.measure) == 0) words.push_back(std::string("without ") + m.words);
  }
#ifndef ATTNFUZZ_HAVE_SECCOMP
  if (!words.empty()) words.back() += " (this program was built without libseccomp)";
#endif
  return words;
}

std::vector<std::string> bare_environment() {
  std::vector<std::string> kept = {"HOME=/nonexistent", "TMPDIR=/nonexistent", "LANG=C.UTF-8"};
  for (char** one = environ; *one != nullptr; ++one) {
    for (const char* name :
         {"PATH=", "TZ=", "LD_LIBRARY_PATH=", "CUDA_VISIBLE_DEVICES=", "CUDA_MODULE_LOADING=", "NVIDIA_",
          "OMP_NUM_THREADS=", "CTEST_RESOURCE_GROUP_0_GPUS="}) {
      if (std::strncmp(*one, name, std::strlen(name)) == 0) kept.emplace_back(*one);
    }
  }
  return kept;
}

void guard_own_memory() { prctl(PR_SET_DUMPABLE, 0); }

std::string call_name(int32_t number) {
  for (const RefusedCall& call : kRefusedCalls) {
    if (call.number == number) return std::string(call.name) + "()";
  }
  return "system call " + std::to_string(number);
}

}  // namespace attnfuzz
