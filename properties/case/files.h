// Whole files of text: cases, reproducers, what a campaign keeps.
//
//   write_file(path, encode(c));
//   const std::string text = file_text(path);
#pragma once

#include <string>
#include <variant>

#include "properties/case/codec.h"

namespace attnfuzz {

// Writes by way of a temporary file beside it, so that a file is whole or not
// there. Throws std::system_error that names the file.
void write_file(const std::string& path, const std::string& text);

// Refuses what is larger than 16 MiB. The error names the file and what is wrong with it.
std::variant<std::string, DecodeError> read_file(const std::string& path);
// The same, where there is no going on without it: throws std::runtime_error.
std::string file_text(const std::string& path);

}  // namespace attnfuzz
