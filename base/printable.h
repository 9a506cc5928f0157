// Makes foreign text safe for a terminal, a page, a shell or a program.
//
// Names, reasons and messages come from kernels and files. They may hold escape
// sequences, line ends, invalid UTF-8, or marks that change the direction of text. All code that
// shows such text passes it through these functions.
//
//   std::printf("refused: %s\n", printable(reason).c_str());
//   issue += "- " + markdown(message) + "\n";
//   line = "attnfuzz replay " + shell_word(file);
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace attnfuzz {

// One line. Invisible characters become \n, \x1b or \u202e. A text of more than `most` bytes
// is cut, and ends with a note that says so. printable(printable(x)) == printable(x).
inline constexpr size_t kMostShown = 4096;
std::string printable(std::string_view text, size_t most = kMostShown);

// printable() for a text of several lines: line ends and tabs stay, and nothing is cut.
std::string printable_lines(std::string_view text);

// For inline Markdown: the text makes no link, code, HTML or table column.
std::string markdown(std::string_view text);

// The inside of a double-quoted literal of C++ or Python (text or bytes) that holds the same bytes.
std::string in_literal(std::string_view text);

// The form of a kernel's name in commands, files and reports: one line without a '/', because the
// last '/' of "PATH:NAME" ends the folder. kernel_label(kernel_label(name)) == kernel_label(name).
std::string kernel_label(std::string_view name);

// Quotes one word for a POSIX shell; $'...' holds unprintable bytes. A value or file
// that begins with '-' gets "./" before it.
std::string shell_word(std::string_view text);

// ": did you mean 'softcap'?" if a word of `known` is near; otherwise empty.
std::string suggestion(std::string_view word, const std::vector<std::string>& known);

}  // namespace attnfuzz
