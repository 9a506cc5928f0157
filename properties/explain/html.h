// What explain says of a failing case as one HTML page: the picture and the text, for a bug report or a CI
// artifact.
//
// The page has no script, and needs no font, file or network of its own; it follows the reader's light or dark
// theme.
//
//   write_file("case.html", html_page("fa1: wrong", "attnfuzz replay found/x.attn.json", svg_picture(...), text));
#pragma once

#include <string>

namespace attnfuzz {

// `svg` is put in as it is, and may be empty; all else is escaped.
std::string html_page(const std::string& title, const std::string& replay, const std::string& svg,
                      const std::string& text);

}  // namespace attnfuzz
