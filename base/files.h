// Whole files of text: the one reader and the one writer of everything that the
// commands take from a disk and put on it: cases, reproducers, ledgers,
// calibrations, what a campaign keeps.
//
// A file may come from a stranger, and may be no file at all. The reader has a
// limit of size and, for what is no regular file, a limit of time: a FIFO that
// nobody writes to and /dev/zero are refused with a sentence.
//
//   write_file(path, encode(c));
//   const std::string text = file_text(path);
#pragma once

#include <cstdint>
#include <string>
#include <variant>

namespace attnfuzz {

struct DecodeError {
  std::string message;  // names what is wrong, what it holds, and what it may hold
};

struct ReadLimits {
  int64_t bytes = int64_t{16} << 20;
  double seconds = 10;  // for a FIFO, a socket, a device; 0: a regular file is due
};
// Of a folder's own files: nobody puts a FIFO there in good faith.
inline constexpr ReadLimits kInFolder = {int64_t{256} << 20, 0};

// The error names the file and what is wrong with it.
std::variant<std::string, DecodeError> read_file(const std::string& path, const ReadLimits& limits = {});
// The same, where there is no going on without it: throws std::runtime_error.
std::string file_text(const std::string& path, const ReadLimits& limits = {});

// Opens for reading what is a regular file, and never waits. -1 with *error empty: there is no such file.
int open_regular(const std::string& path, std::string* error);

// Throws std::runtime_error that says why write_file() would fail: the path is a folder, or that above it is
// not there, is none or may not be written to. For whoever writes hours later.
void expect_room_for(const std::string& path);

// Writes by way of a temporary file beside it, so that a file is whole or not
// there; of a symbolic link, beside its target. What is no regular file (a device,
// a FIFO) is written to, never replaced. Throws std::system_error that names the file.
void write_file(const std::string& path, const std::string& text);

}  // namespace attnfuzz
