// Shows a failing case as one HTML page with the picture and the text of explain, for a bug report or a CI
// artifact.
//
// The page has no script and needs no font, file or network. It follows the reader's light or dark theme.
//
//   write_file("case.html", html_page("fa1: wrong", "attnfuzz replay found/x.attn.json", svg_picture(...), text));
#pragma once

#include <string>

namespace attnfuzz {

// `svg` is inserted as it is and may be empty. Everything else is escaped.
std::string html_page(const std::string& title, const std::string& replay, const std::string& svg,
                      const std::string& text);

}  // namespace attnfuzz
