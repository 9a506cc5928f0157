// CUDA source as tokens, as far as translate.h needs them. Comments, literals and line splices are recognised;
// macros are not expanded.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace attnfuzz {

struct Token {
  enum Kind { kName, kNumber, kString, kChar, kPunct } kind;
  size_t begin, end;  // offsets in the text
  bool directive;     // in a preprocessor directive, for example a macro's definition
  bool glued;         // nothing stands between it and the token before

  std::string_view in(std::string_view text) const { return text.substr(begin, end - begin); }
};

// The tokens of a text, without white space and comments. Each punctuation character is a token of its own.
std::vector<Token> tokens_of(std::string_view text);

}  // namespace attnfuzz
