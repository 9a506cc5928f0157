// Text that others wrote, on its way to a terminal, a page, a shell or a program.
//
// Names, reasons and messages come from kernels and from files, and may hold
// anything: escape sequences, line ends, bytes that are no UTF-8, marks that
// turn the direction of writing. Whoever shows them passes them through here.
//
//   std::printf("refused: %s\n", printable(reason).c_str());
//   issue += "- " + markdown(message) + "\n";
//   line = "attnfuzz replay " + shell_word(file);
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace attnfuzz {

// One line: what cannot be seen as itself becomes \n, \x1b, \u202e; what is longer than `most`
// bytes loses its end, and says so. printable(printable(x)) == printable(x).
inline constexpr size_t kMostShown = 4096;
std::string printable(std::string_view text, size_t most = kMostShown);

// Any number of lines, each as above, tabs kept.
std::string printable_lines(std::string_view text);

// Inline in Markdown: no link, no code, no HTML, no table's column.
std::string markdown(std::string_view text);

// Inside a string literal in double quotes, of C++ and of Python (text or bytes): the same bytes.
std::string in_literal(std::string_view text);

// A kernel's name as commands, files and reports have it: one line, and without a '/', so that the
// last '/' of "PATH:NAME" ends the folder. kernel_label(kernel_label(name)) == kernel_label(name).
std::string kernel_label(std::string_view name);

// What a POSIX shell takes for this one word; $'...' for what cannot be printed. An
// option's value or a file that begins with '-' is quoted with "./".
std::string shell_word(std::string_view text);

// ": did you mean 'softcap'?" for the nearest of `known`, where one is near; or nothing.
std::string suggestion(std::string_view word, const std::vector<std::string>& known);

}  // namespace attnfuzz
