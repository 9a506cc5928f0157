// Reads and writes whole text files. All commands use these functions for cases,
// reproducers, ledgers, calibrations and the files of a campaign.
//
// A path may come from a stranger and may name a FIFO or a device. The reader
// limits the size, and the time that it waits for anything but a regular file:
// it refuses /dev/zero, and a FIFO that nobody writes to, with a message.
//
//   write_file(path, encode(c));
//   const std::string text = file_text(path);
#pragma once

#include <cstdint>
#include <string>
#include <variant>

namespace attnfuzz {

struct DecodeError {
  std::string message;  // names the fault, the value, and the values that are allowed
};

struct ReadLimits {
  int64_t bytes = int64_t{16} << 20;
  double seconds = 10;  // for a FIFO, a socket or a device; 0: only a regular file is read
};
// For files inside one of our own folders, where a FIFO is never legitimate.
inline constexpr ReadLimits kInFolder = {int64_t{256} << 20, 0};

// The error names the file and what is wrong with it.
std::variant<std::string, DecodeError> read_file(const std::string& path, const ReadLimits& limits = {});
// The same for a file that the caller needs: throws std::runtime_error.
std::string file_text(const std::string& path, const ReadLimits& limits = {});

// Opens a regular file for reading and never waits. Returns -1, with *error empty, if there is no such file.
int open_regular(const std::string& path, std::string* error);

// Throws std::runtime_error if write_file() would fail: the path is a folder, or its parent is missing, is no
// folder or is read-only. A command that writes hours later calls this first.
void expect_room_for(const std::string& path);

// Writes a temporary file beside the target and renames it, so that a reader sees
// the old file (or none) or the whole new one. A symbolic link is followed first. A device or a FIFO is written
// to and never replaced. Throws std::system_error that names the file.
void write_file(const std::string& path, const std::string& text);

}  // namespace attnfuzz
