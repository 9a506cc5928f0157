// Files of lines that are only ever appended to, and may be cut short by a kill.
//
// A line is written by one write(); what a full disk lets through of it is taken
// back. A reader passes over a last line without its end: either it is still
// being written, or its writer was killed. The next append ends it first.
//
//   LineFile file(path);
//   file.append(R"({"t":5})");
//   LineTail tail(path);
//   for (const std::string& line : tail.more()) ...   // what has come since
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
  // Throws std::system_error, having written nothing.
  void append(const std::string& line);
  void clear();

 private:
  std::string path_;
  int fd_ = -1;
};

class LineTail {
 public:
  explicit LineTail(std::string path) : path_(std::move(path)) {}
  // Whole lines since the last call; none if there is no file. Throws std::runtime_error for what is no
  // file of lines: a FIFO, a device, a line without an end.
  std::vector<std::string> more();

 private:
  std::string path_;
  uint64_t at_ = 0;
};

std::vector<std::string> read_lines(const std::string& path);

}  // namespace attnfuzz
