// Files of lines that are only appended to, and may be cut short by a kill.
//
// One write() writes a line. If a full disk accepts only a part of it, the part is removed. A reader
// ignores a last line without an end, because it is still being written, or its writer was killed. The next
// append ends such a line first.
//
//   LineFile file(path);
//   file.append(R"({"t":5})");
//   LineTail tail(path);
//   for (const std::string& line : tail.more()) ...   // the lines since the last call
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace attnfuzz {

class LineFile {
 public:
  explicit LineFile(std::string path);  // throws std::system_error
  ~LineFile();
  LineFile(LineFile&& other) noexcept : path_(std::move(other.path_)), fd_(other.fd_) { other.fd_ = -1; }
  LineFile& operator=(LineFile&&) = delete;
  // Throws std::system_error if the line cannot be written; the file is then unchanged.
  void append(const std::string& line);
  void clear();

 private:
  std::string path_;
  int fd_ = -1;
};

class LineTail {
 public:
  explicit LineTail(std::string path) : path_(std::move(path)) {}
  // Whole lines since the last call; none if there is no file. Throws std::runtime_error for a FIFO, a device,
  // a line longer than 16 MiB, or a file that is too large for a campaign's.
  std::vector<std::string> more();

 private:
  std::string path_;
  uint64_t at_ = 0;
};

std::vector<std::string> read_lines(const std::string& path);

}  // namespace attnfuzz
