#include "properties/case/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <system_error>

namespace attnfuzz {
namespace {

constexpr int64_t kLargestFile = int64_t{16} << 20;

[[noreturn]] void fail(const std::string& what, const std::string& path, int error) {
  throw std::system_error(error, std::generic_category(), what + " " + path);
}

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

void write_all(int fd, const std::string& text, const std::string& path) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("cannot write", path, errno);
    done += static_cast<size_t>(n);
  }
}

}  // namespace

void write_file(const std::string& path, const std::string& text) {
  // In the same directory, or the rename below would not be atomic.
  std::string temporary = path + ".XXXXXX";
  Descriptor file{::mkostemp(temporary.data(), O_CLOEXEC)};
  if (file.fd < 0) fail("cannot create a file beside", path, errno);
  try {
    write_all(file.fd, text, temporary);
    // mkostemp gives 0600; a reproducer is for others to read as well.
    if (::fchmod(file.fd, 0644) != 0) fail("cannot set the mode of", temporary, errno);
    if (::fsync(file.fd) != 0) fail("cannot flush", temporary, errno);
    if (::rename(temporary.c_str(), path.c_str()) != 0) fail("cannot write", path, errno);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

std::variant<std::string, DecodeError> read_file(const std::string& path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) return DecodeError{"cannot open " + path + ": " + std::strerror(errno)};
  std::string text;
  char buffer[1 << 16];
  while (true) {
    const ssize_t n = ::read(file.fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return DecodeError{"cannot read " + path + ": " + std::strerror(errno)};
    if (n == 0) return text;
    text.append(buffer, static_cast<size_t>(n));
    if (static_cast<int64_t>(text.size()) > kLargestFile) {
      return DecodeError{path + " is larger than 16 MiB: not a reproducer, a case or a trace"};
    }
  }
}

std::string file_text(const std::string& path) {
  auto text = read_file(path);
  if (const auto* error = std::get_if<DecodeError>(&text)) throw std::runtime_error(error->message);
  return std::get<std::string>(std::move(text));
}

}  // namespace attnfuzz
