#include "base/files.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <system_error>

namespace attnfuzz {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

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

// True for a device, a FIFO and a socket. Also true for a file behind /dev/stdout or /dev/fd: it is open
// already, and a file that replaced it would not be seen.
bool is_written_in_place(const std::string& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) return false;
  if (!S_ISREG(status.st_mode)) return !S_ISDIR(status.st_mode);
  std::error_code none;
  fs::path at = path;
  for (int hop = 0; hop < 40 && fs::is_symlink(at, none); ++hop) {
    const fs::path folder = fs::canonical(fs::absolute(at, none).parent_path(), none);
    if (folder.string().starts_with("/proc/")) return true;
    at = folder / fs::read_symlink(at, none);
  }
  return false;
}

// The end of a chain of symbolic links. It need not exist.
std::string behind_links(const std::string& path) {
  std::error_code error;
  fs::path at = path;
  for (int hop = 0; fs::is_symlink(at, error); ++hop) {
    if (hop == 40) fail("cannot write", path, ELOOP);
    const fs::path to = fs::read_symlink(at, error);
    if (error) fail("cannot follow", at.string(), error.value());
    at = at.parent_path() / to;
  }
  return at.string();
}

void write_in_place(const std::string& path, const std::string& text) {
  // Without O_NONBLOCK, open() waits for a reader of a FIFO.
  const Descriptor file{::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_APPEND)};
  if (file.fd < 0 && errno == ENXIO) {
    throw std::runtime_error("cannot write " + path + ": nobody reads it; start its reader first");
  }
  if (file.fd < 0) fail("cannot open", path, errno);
  ::fcntl(file.fd, F_SETFL, ::fcntl(file.fd, F_GETFL) & ~O_NONBLOCK);
  write_all(file.fd, text, path);
}

std::string in_words(const ReadLimits& limits) { return std::to_string(limits.bytes >> 20) + " MiB"; }

}  // namespace

int open_regular(const std::string& path, std::string* error) {
  error->clear();
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  struct stat status = {};
  if (fd < 0 && errno == ENOENT) return -1;
  if (fd >= 0 && ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) return fd;
  *error = fd < 0 ? "cannot open " + path + ": " + std::strerror(errno) : path + " is no regular file";
  if (fd >= 0) ::close(fd);
  return -1;
}

std::variant<std::string, DecodeError> read_file(const std::string& path, const ReadLimits& limits) {
  const auto error = [&path](const std::string& what, int why) {
    return DecodeError{what + " " + path + ": " + std::strerror(why)};
  };
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)};
  if (file.fd < 0) return error("cannot read", errno);
  struct stat status = {};
  if (::fstat(file.fd, &status) != 0) return error("cannot look at", errno);
  const bool regular = S_ISREG(status.st_mode);
  if (!regular && limits.seconds <= 0) return DecodeError{path + " is no regular file"};
  if (regular && status.st_size > limits.bytes)
    return DecodeError{path + " is larger than " + in_words(limits)};

  const auto end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limits.seconds));
  std::string text;
  char buffer[1 << 16];
  bool waits = !regular;
  while (true) {
    if (waits) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
      pollfd ready = {file.fd, POLLIN, 0};
      const int n = left > 0 ? ::poll(&ready, 1, static_cast<int>(left)) : 0;
      if (n < 0 && errno == EINTR) continue;
      if (n == 0)
        return DecodeError{path + " has not come to its end in time: its writer is late, or there is none"};
    }
    const ssize_t n = ::read(file.fd, buffer, sizeof buffer);
    if (n < 0 && errno == EAGAIN) waits = true;  // /proc/kmsg says that it is a regular file
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) return error("cannot read", errno);
    if (n == 0) return text;
    text.append(buffer, static_cast<size_t>(n));
    if (static_cast<int64_t>(text.size()) > limits.bytes) {
      return DecodeError{path + " is larger than " + in_words(limits)};
    }
  }
}

std::string file_text(const std::string& path, const ReadLimits& limits) {
  auto text = read_file(path, limits);
  if (const auto* error = std::get_if<DecodeError>(&text)) throw std::runtime_error(error->message);
  return std::get<std::string>(std::move(text));
}

void write_file(const std::string& given, const std::string& text) {
  if (is_written_in_place(given)) return write_in_place(given, text);
  const std::string path = behind_links(given);
  // The temporary file lies in the same directory, because rename() is atomic only there.
  std::string temporary = path + ".XXXXXX";
  Descriptor file{::mkostemp(temporary.data(), O_CLOEXEC)};
  if (file.fd < 0) fail("cannot create a file beside", path, errno);
  // Keep the mode of the file that is replaced: mkostemp() gives 0600, but others must read a reproducer.
  struct stat before = {};
  const mode_t mode = ::stat(path.c_str(), &before) == 0 ? before.st_mode & 07777 : 0644;
  try {
    write_all(file.fd, text, temporary);
    if (::fchmod(file.fd, mode) != 0) fail("cannot set the mode of", temporary, errno);
    if (::fsync(file.fd) != 0) fail("cannot flush", temporary, errno);
    if (::rename(temporary.c_str(), path.c_str()) != 0) fail("cannot write", path, errno);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

void expect_room_for(const std::string& path) {
  std::error_code none;
  if (fs::is_directory(path, none)) throw std::runtime_error(path + " is a folder: name a file in it");
  if (fs::exists(path, none)) return;  // a device or a file, which is replaced
  const fs::path parent = fs::path(path).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  if (!fs::is_directory(folder, none))
    throw std::runtime_error(folder + (fs::exists(folder, none) ? " is no folder" : " is not there") +
                             ": nothing can be written to " + path);
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    throw std::runtime_error(folder + ": " + std::strerror(errno) + ": nothing can be written to " + path);
}

}  // namespace attnfuzz
