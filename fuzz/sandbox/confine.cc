#include "fuzz/sandbox/confine.h"

#include <glob.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "fuzz/host/confinement.h"

// Defined by the executor, if this worker is linked with it.
namespace simt {
__attribute__((weak)) void watch_threads();
}

namespace attnfuzz::worker {
namespace {

using Why = std::optional<std::string>;

// The bytes that the process may map in addition to those that are mapped already.
constexpr uint64_t kMostMemory = uint64_t{4} << 30;
constexpr rlim_t kMostDescriptors = 256;

Why failed(const char* what) { return std::string(what) + ": " + strerror(errno); }

// A process with CAP_SYS_PTRACE, for example root's, can read any other process, dumpable or not.
Why drop_capabilities() {
  for (int cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; ++cap) prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[2] = {};
  if (syscall(SYS_capset, &header, none) != 0) return failed("its capabilities cannot be dropped");
  return std::nullopt;
}

uint64_t mapped_bytes() {
  unsigned long long pages = 0;
  FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  if (std::fscanf(file, "%llu", &pages) != 1) pages = 0;
  std::fclose(file);
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

bool limit(__rlimit_resource what, rlim_t to) {
  const rlimit both = {to, to};
  return setrlimit(what, &both) == 0;
}

Why limit_resources(bool own_memory) {
  bool kept = limit(RLIMIT_CORE, 0) && limit(RLIMIT_FSIZE, 0) && limit(RLIMIT_MSGQUEUE, 0);
  rlimit files = {};
  kept = kept && getrlimit(RLIMIT_NOFILE, &files) == 0;
  if (own_memory) {  // not with a device, whose driver maps any amount
    const uint64_t mapped = mapped_bytes();
    kept = kept && limit(RLIMIT_NOFILE, std::min<rlim_t>(files.rlim_max, kMostDescriptors)) &&
           (mapped == 0 || limit(RLIMIT_AS, mapped + kMostMemory));
  }
  if (!kept) return failed("its limits cannot be set");
  return std::nullopt;
}

// The devices that a running driver may still open and use with ioctl().
std::vector<std::string> drivers_devices() {
  std::vector<std::string> devices;
  glob_t found = {};
  if (glob("/dev/nvidia*", GLOB_NOSORT, nullptr, &found) == 0)
    devices.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  return devices;
}

// Only for the CPU: on a GPU, the bytes that come back are written into the inputs' slots as well.
Why protect_inputs(const Arena& arena) {
  for (const TensorId t : kInputs) {
    if (mprotect(arena.slot(t), Arena::kSlotBytes, PROT_READ) != 0) return failed("inputs cannot be protected");
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> paths_of(const char* list) {
  const std::string all = list == nullptr ? "" : list;
  std::vector<std::string> paths;
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = std::min(all.find(':', begin), all.size());
    if (end > begin) paths.push_back(all.substr(begin, end - begin));
    begin = end + 1;
  }
  return paths;
}

std::optional<std::string> confine(uint32_t measures, const Confined& with, attn_backend backend,
                                   const Arena& arena) {
  const bool device = backend == ATTN_CUDA;
  if (prctl(PR_SET_DUMPABLE, 0) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    return failed("it cannot give up privileges");
  if (auto why = drop_capabilities()) return why;
  if (!device) {
    if (auto why = protect_inputs(arena)) return why;
  }
  if (auto why = limit_resources(!device)) return why;
  if (measures & kMeasureFiles) {
    std::vector<std::string> readable = {
        "/usr",           "/lib",      "/lib64",       "/etc/ld.so.cache",
        "/etc/localtime", "/dev/zero", "/dev/urandom", "/sys/devices/system/cpu"};
    for (const auto& more : {with.readable, paths_of(std::getenv("LD_LIBRARY_PATH"))})
      readable.insert(readable.end(), more.begin(), more.end());
    if (with.interpreter) readable.emplace_back("/proc/cpuinfo");  // PyTorch chooses its functions by it
    if (device) {
      for (const char* more : {"/proc/self", "/proc/driver", "/proc/sys", "/proc/devices", "/proc/meminfo",
                               "/proc/cpuinfo", "/proc/stat", "/proc/modules", "/sys", "/opt"})
        readable.emplace_back(more);
    }
    if (auto why = restrict_files(measures, readable, {"/dev/null"},
                                  device ? drivers_devices() : std::vector<std::string>()))
      return why;
  }
  // Installs the executor's signal handlers now, because the filter forbids it later.
  if (simt::watch_threads) simt::watch_threads();
  if (measures & kMeasureCalls) return restrict_calls(with, backend, arena);
  return std::nullopt;
}

std::optional<std::string> confine_zygote(uint32_t measures) {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return failed("it cannot give up privileges");
  if ((measures & kMeasureFiles) == 0) return std::nullopt;  // the command tells the user that this is missing
  // It starts programs: modules do so on import, and it replaces itself if one wakes the driver (worker.py).
  // These programs are confined as it is. Its workers give up this right.
  return restrict_files(measures & (kMeasureFiles | kMeasureNetwork), {}, {"/dev/null"}, drivers_devices(),
                        {"/"});
}

}  // namespace attnfuzz::worker
