// Landlock: from now on, the process can use only the named files.
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "fuzz/host/confinement.h"
#include "fuzz/host/landlock.h"
#include "fuzz/sandbox/confine.h"

namespace attnfuzz::worker {
namespace {

// False if the path exists but cannot be allowed.
bool allow(int ruleset, const std::string& path, uint64_t rights) {
  const int fd = open(path.c_str(), O_PATH | O_CLOEXEC);
  if (fd < 0) return true;
  struct stat status = {};
  const bool folder = fstat(fd, &status) == 0 && S_ISDIR(status.st_mode);
  const landlock::PathBeneath rule = {folder ? rights : rights & landlock::kOfFile, fd};
  const bool added =
      rule.allowed == 0 || syscall(SYS_landlock_add_rule, ruleset, landlock::kRulePathBeneath, &rule, 0) == 0;
  close(fd);
  return added;
}

}  // namespace

std::optional<std::string> restrict_files(uint32_t measures, const std::vector<std::string>& readable,
                                          const std::vector<std::string>& writable,
                                          const std::vector<std::string>& devices,
                                          const std::vector<std::string>& programs) {
  const int version = landlock_version();
  const auto failed = [] { return "Landlock refuses: " + std::string(strerror(errno)); };
  landlock::Ruleset wanted = {};
  wanted.files = landlock::all_rights(version);
  if (measures & kMeasureNetwork) wanted.network = landlock::kBindTcp | landlock::kConnectTcp;
  if (measures & kMeasureSignals) wanted.scoped = landlock::kAbstractSockets | landlock::kSignals;
  const int ruleset =
      static_cast<int>(syscall(SYS_landlock_create_ruleset, &wanted, landlock::ruleset_bytes(version), 0));
  if (ruleset < 0) return failed();
  constexpr uint64_t kRead = landlock::kReadFile | landlock::kReadDir;
  bool done = true;
  for (const std::string& path : readable) done = done && allow(ruleset, path, kRead);
  for (const std::string& path : programs) done = done && allow(ruleset, path, kRead | landlock::kExecute);
  for (const std::string& path : writable) done = done && allow(ruleset, path, kRead | landlock::kWriteFile);
  const uint64_t talk = landlock::kIoctlDevice & wanted.files;  // before version 5, ioctl() is free
  for (const std::string& path : devices)
    done = done && allow(ruleset, path, kRead | landlock::kWriteFile | talk);
  done = done && syscall(SYS_landlock_restrict_self, ruleset, 0) == 0;
  const std::string why = done ? "" : failed();
  close(ruleset);
  if (!done) return why;
  return std::nullopt;
}

}  // namespace attnfuzz::worker
