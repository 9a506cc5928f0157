#include "cli/open/compute_sanitizer.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>

#include "base/files.h"
#include "base/subprocess.h"
#include "cli/terminal/terminal.h"
#include "fuzz/host/build_kinds.h"

namespace attnfuzz {
namespace {

namespace fs = std::filesystem;

// The mark that the tool puts before each of its own lines.
constexpr std::string_view kMark = "=========";

// The headline of a finding contains one of these. Its further lines give the place.
constexpr std::array kHeadlines = {"Invalid ", "Misaligned ",   "Uninitialized ", "Race reported",
                                   "hazard",   "Barrier error", "Program hit "};

// The largest log that is read. A kernel that is wrong everywhere writes a long one.
constexpr ReadLimits kLog = {int64_t{256} << 20, 0};

struct Log {
  std::map<std::string, int> findings;  // headline and the place below it, how often
  bool ran = false;                     // the tool itself started
};

Log read_log(const fs::path& path) {
  Log log;
  std::istringstream in(file_text(path, kLog));
  std::string headline;
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(kMark)) continue;
    std::string text = line.substr(kMark.size());
    text.erase(0, text.find_first_not_of(' '));
    log.ran |= text.starts_with("COMPUTE-SANITIZER");
    if (!headline.empty() && text.starts_with("at ")) {
      ++log.findings[headline + ", " + text];
      headline.clear();
      continue;
    }
    if (!headline.empty()) ++log.findings[headline];
    headline.clear();
    if (text.find("SUMMARY: 0 ") != text.npos) continue;  // "0 hazards displayed"
    if (std::ranges::any_of(kHeadlines, [&](const char* words) { return text.find(words) != text.npos; }))
      headline = text;
  }
  if (!headline.empty()) ++log.findings[headline];
  return log;
}

}  // namespace

bool is_compute_sanitizer(const std::string& name) {
  const BuildKind* build_kind = find_build_kind(name);
  return build_kind && build_kind->kind == BuildKind::kTool;
}

Exit replay_under(const std::string& tool, const std::string& file, const std::vector<std::string>& further) {
  char name[] = "/tmp/attnfuzz-XXXXXX";
  const int fd = mkstemp(name);
  if (fd < 0) throw UserError("cannot write a temporary file: " + std::string(name));
  close(fd);
  const fs::path log_path = name;
  std::error_code ignored;
  const std::string self = fs::read_symlink("/proc/self/exe", ignored);
  std::vector<std::string> command = {"compute-sanitizer",
                                      "--tool",
                                      tool,
                                      "--target-processes",
                                      "all",
                                      "--require-cuda-init=no",
                                      "--log-file",
                                      log_path,
                                      self,
                                      "replay",
                                      file,
                                      "--backend",
                                      "cuda",
                                      "--build",
                                      "plain"};
  command.insert(command.end(), further.begin(), further.end());
  const int ended = run_program(command).status;
  const int status = ended < 0 ? -1 : WIFEXITED(ended) ? WEXITSTATUS(ended) : 128;
  const Log log = read_log(log_path);
  fs::remove(log_path, ignored);
  if (!log.ran) {
    throw UserError(
        status < 0 || status == 127
            ? "compute-sanitizer cannot be started: it comes with the CUDA toolkit; put it on the PATH"
            : tool + " said nothing about this run (exit status " + std::to_string(status) + ")");
  }
  if (log.findings.empty()) {
    emit("{}: nothing found\n", tool);
    return status == kFound ? kFound : status == kPassed ? kPassed : kBadUse;
  }
  emit("{} confirms:\n", tool);
  for (const auto& [finding, count] : log.findings) emit("  {:5} x {}\n", count, finding);
  return kFound;
}

}  // namespace attnfuzz
