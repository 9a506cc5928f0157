#include "cli/terminal/results_apart.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/files.h"

namespace attnfuzz {

void write_to(const std::string& path, const std::string& text) {
  if (path == "-") {
    std::fwrite(text.data(), 1, text.size(), stdout);
  } else {
    write_file(path, text);
  }
}

ResultsApart::ResultsApart(std::initializer_list<std::string> paths) {
  if (std::ranges::find(paths, "-") == paths.end()) return;
  std::fflush(stdout);
  stdout_ = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  if (stdout_ >= 0) ::dup2(STDERR_FILENO, STDOUT_FILENO);
}

ResultsApart::~ResultsApart() {
  if (stdout_ < 0) return;
  std::fflush(stdout);
  ::dup2(stdout_, STDOUT_FILENO);
  ::close(stdout_);
}

}  // namespace attnfuzz
