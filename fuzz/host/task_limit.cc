#include "fuzz/host/task_limit.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

namespace attnfuzz {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "attnfuzz-";

bool has_word(const std::string& list, const std::string& word) {
  return ("," + list + ",").find("," + word + ",") != std::string::npos;
}

std::string contents(const char* path) {
  std::ifstream in(path);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// Writes a number to a control file in one write().
bool put(const std::string& path, long number) {
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const std::string text = std::to_string(number);
  const bool done = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(fd);
  return done;
}

// Removes the cgroups that killed commands have left. rmdir() fails if one still has a process.
void remove_left_over(const fs::path& parent) {
  std::error_code error;
  for (fs::directory_iterator one(parent, error), end; !error && one != end; one.increment(error)) {
    const std::string name = one->path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    const pid_t owner = std::atoi(name.c_str() + std::char_traits<char>::length(kPrefix));
    if (owner > 0 && kill(owner, 0) != 0) rmdir(one->path().c_str());
  }
}

}  // namespace

std::string pids_cgroup(const std::string& mountinfo, const std::string& cgroup) {
  std::string own_of_v1, own_of_v2;  // "9:pids:/a/b", "0::/a/b"
  std::istringstream cgroups(cgroup);
  for (std::string line; std::getline(cgroups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    if (has_word(line.substr(first + 1, second - first - 1), "pids")) own_of_v1 = line.substr(second + 1);
    if (line.starts_with("0::")) own_of_v2 = line.substr(second + 1);
  }
  // "36 35 98:0 ROOT POINT OPTIONS ... - TYPE SOURCE SUPER_OPTIONS"
  std::istringstream mounts(mountinfo);
  std::string found;
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream before(line.substr(0, line.find(" - ")));
    std::istringstream after(line.find(" - ") == line.npos ? "" : line.substr(line.find(" - ") + 3));
    std::string word, root, point, type, source, options;
    before >> word >> word >> word >> root >> point;
    after >> type >> source >> options;
    const bool v1 = type == "cgroup" && has_word(options, "pids") && !own_of_v1.empty();
    const bool v2 = type == "cgroup2" && own_of_v1.empty() && !own_of_v2.empty();
    if (!v1 && !v2) continue;
    std::string own = v1 ? own_of_v1 : own_of_v2;
    if (root != "/" && own.starts_with(root)) own.erase(0, root.size());
    found = point + (own == "/" ? "" : own);
  }
  return found;
}

TaskLimit::TaskLimit(int most) {
  static std::atomic<unsigned> made = 0;
  const fs::path parent = pids_cgroup(contents("/proc/self/mountinfo"), contents("/proc/self/cgroup"));
  if (parent.empty()) return;
  remove_left_over(parent);
  const fs::path folder =
      parent / (kPrefix + std::to_string(getpid()) + "-" + std::to_string(made.fetch_add(1)));
  if (mkdir(folder.c_str(), 0700) != 0) return;
  if (put(folder / "pids.max", most)) {
    folder_ = folder;
  } else {
    rmdir(folder.c_str());  // cgroup v2, and the controller pids is not enabled
  }
}

TaskLimit::~TaskLimit() {
  constexpr int kTries = 50;  // 50 ms: a process that was reaped leaves its cgroup a little later
  for (int tries = 0; there() && tries < kTries && rmdir(folder_.c_str()) != 0; ++tries) usleep(1000);
}

bool TaskLimit::take(pid_t process) const { return there() && put(folder_ + "/cgroup.procs", process); }

}  // namespace attnfuzz
