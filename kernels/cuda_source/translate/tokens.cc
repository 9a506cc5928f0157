#include "kernels/cuda_source/translate/tokens.h"

#include <cctype>
#include <string>

namespace attnfuzz {
namespace {

bool starts_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || c == '$'; }
bool in_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$'; }

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  std::vector<Token> all() {
    while (skip_blank()) {
      const size_t begin = at_;
      const Token::Kind kind = next();
      const bool glued = !tokens_.empty() && tokens_.back().end == begin;
      if (at_line_start_ && text_[begin] == '#') directive_ = true;
      at_line_start_ = false;
      tokens_.push_back({kind, begin, at_, directive_, glued});
    }
    return std::move(tokens_);
  }

 private:
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  // A backslash and the end of the line.
  size_t splice() const {
    if (peek() != '\\') return 0;
    if (peek(1) == '\n') return 2;
    return peek(1) == '\r' && peek(2) == '\n' ? 3 : 0;
  }

  bool skip_blank() {
    while (at_ < text_.size()) {
      if (const size_t length = splice()) {
        at_ += length;
      } else if (peek() == '\n') {
        directive_ = false;
        at_line_start_ = true;
        ++at_;
      } else if (std::isspace(static_cast<unsigned char>(peek()))) {
        ++at_;
      } else if (peek() == '/' && peek(1) == '/') {
        while (at_ < text_.size() && peek() != '\n') at_ += splice() ? splice() : 1;
      } else if (peek() == '/' && peek(1) == '*') {
        const size_t end = text_.find("*/", at_ + 2);
        at_ = end == std::string_view::npos ? text_.size() : end + 2;
      } else {
        return true;
      }
    }
    return false;
  }

  void quoted(char quote) {
    for (++at_; at_ < text_.size() && peek() != '\n'; ++at_) {
      if (peek() == '\\') {
        at_ += splice() == 3 ? 2 : 1;
      } else if (peek() == quote) {
        ++at_;
        return;
      }
    }
  }

  void raw_string() {
    const size_t open = text_.find('(', at_);
    if (open == std::string_view::npos) return quoted('"');
    const std::string close = ")" + std::string(text_.substr(at_ + 1, open - at_ - 1)) + "\"";
    const size_t end = text_.find(close, open);
    at_ = end == std::string_view::npos ? text_.size() : end + close.size();
  }

  Token::Kind next() {
    const char c = peek();
    if (starts_name(c)) {
      const size_t begin = at_;
      while (in_name(peek())) ++at_;
      const std::string_view name = text_.substr(begin, at_ - begin);
      const bool prefix = name == "L" || name == "u" || name == "U" || name == "u8";
      if (peek() == '"' && (name == "R" || name == "LR" || name == "uR" || name == "UR" || name == "u8R"))
        return raw_string(), Token::kString;
      if (peek() == '"' && prefix) return quoted('"'), Token::kString;
      if (peek() == '\'' && prefix) return quoted('\''), Token::kChar;
      return Token::kName;
    }
    if (std::isdigit(static_cast<unsigned char>(c)) ||
        (c == '.' && std::isdigit(static_cast<unsigned char>(peek(1))))) {
      for (++at_; in_name(peek()) || peek() == '.' || (peek() == '\'' && in_name(peek(1))) || exponent_sign();)
        ++at_;
      return Token::kNumber;
    }
    if (c == '"') return quoted('"'), Token::kString;
    if (c == '\'') return quoted('\''), Token::kChar;
    ++at_;
    return Token::kPunct;
  }

  bool exponent_sign() const {
    const char before = text_[at_ - 1];
    return (peek() == '+' || peek() == '-') &&
           (before == 'e' || before == 'E' || before == 'p' || before == 'P');
  }

  std::string_view text_;
  size_t at_ = 0;
  bool directive_ = false, at_line_start_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view text) { return Lexer(text).all(); }

}  // namespace attnfuzz
