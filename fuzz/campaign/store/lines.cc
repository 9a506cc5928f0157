#include "fuzz/campaign/store/lines.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>

#include "base/files.h"

namespace attnfuzz {
namespace {

constexpr size_t kMostInLine = size_t{16} << 20;

[[noreturn]] void fail(const std::string& what, const std::string& path, int error) {
  throw std::system_error(error, std::generic_category(), what + " " + path);
}

bool ends_whole(int fd, off_t size) {
  char last = '\n';
  return size == 0 || (::pread(fd, &last, 1, size - 1) == 1 && last == '\n');
}

}  // namespace

LineFile::LineFile(std::string path) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd_ < 0) fail("cannot open", path_, errno);
}

LineFile::~LineFile() {
  if (fd_ >= 0) ::close(fd_);
}

void LineFile::append(const std::string& line) {
  struct stat before = {};
  if (::fstat(fd_, &before) != 0) fail("cannot look at", path_, errno);
  const std::string text = (ends_whole(fd_, before.st_size) ? "" : "\n") + line + "\n";
  ssize_t n = 0;
  do n = ::write(fd_, text.data(), text.size());
  while (n < 0 && errno == EINTR);
  if (n == static_cast<ssize_t>(text.size())) return;
  const int error = n < 0 ? errno : ENOSPC;
  if (n > 0 && ::ftruncate(fd_, before.st_size) != 0) fail("cannot remove a part of a line from", path_, errno);
  fail("cannot write to", path_, error);
}

void LineFile::clear() {
  if (::ftruncate(fd_, 0) != 0) fail("cannot empty", path_, errno);
}

std::vector<std::string> LineTail::more() {
  std::vector<std::string> lines;
  std::string error;
  const int fd = open_regular(path_, &error);
  if (fd < 0 && !error.empty()) throw std::runtime_error(error);
  if (fd < 0) return lines;
  std::string text;  // a line whose end has not come yet
  char buffer[1 << 16];
  for (uint64_t at = at_; error.empty();) {
    const ssize_t n = ::pread(fd, buffer, sizeof buffer, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    at += static_cast<uint64_t>(n);
    text.append(buffer, static_cast<size_t>(n));
    size_t begin = 0;
    for (size_t end = 0; (end = text.find('\n', begin)) != text.npos; begin = end + 1) {
      if (end > begin) lines.push_back(text.substr(begin, end - begin));
    }
    text.erase(0, begin);
    at_ += begin;
    if (text.size() > kMostInLine)
      error = path_ + " holds a line longer than 16 MiB, so it is not a file of lines";
    if (at > static_cast<uint64_t>(kInFolder.bytes)) error = path_ + " is larger than any file of a campaign";
  }
  ::close(fd);
  if (!error.empty()) throw std::runtime_error(error);
  return lines;
}

std::vector<std::string> read_lines(const std::string& path) { return LineTail(path).more(); }

}  // namespace attnfuzz
