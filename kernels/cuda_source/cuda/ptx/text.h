// Inline PTX as data: parses the text of an asm statement at compile time.
//
//   constexpr const Program& program = Parsed<"mov.u32 %0, %laneid;">::kProgram;
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <string_view>
#include <type_traits>

namespace simt::ptx {

template <size_t N>
struct Text {
  char chars[N];
  constexpr Text(const char (&text)[N]) {
    for (size_t i = 0; i < N; ++i) chars[i] = text[i];
  }
  constexpr std::string_view view() const { return {chars, N - 1}; }
};

inline constexpr int kMostParts = 8, kMostOperands = 6, kMostInstructions = 24;

// %n, a register that the text declares, a number or a special register.
struct Value {
  enum Kind { kNone, kArgument, kRegister, kNumber, kSpecial } kind = kNone;
  long long number = 0;
  std::string_view name;
  bool negated = false;  // !p
};

// A value, several in braces, or an address in brackets.
struct Operand {
  Value parts[kMostParts];
  int count = 0;
  bool address = false;
  long long offset = 0;
};

struct Instruction {
  std::string_view op;
  Value guard;
  Operand operands[kMostOperands];
  int count = 0;
};

struct Program {
  Instruction instructions[kMostInstructions];
  int count = 0;
  std::string_view registers[16];
  int register_count = 0;
  bool legible = true;
};

struct Reader {
  std::string_view text;
  size_t at = 0;
  Program program;

  constexpr explicit Reader(std::string_view of) : text(of) {}
  constexpr bool blank(char c) const { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
  constexpr char peek() const { return at < text.size() ? text[at] : '\0'; }
  constexpr void skip() {
    for (;;) {
      while (at < text.size() && blank(text[at])) ++at;
      if (text.substr(at, 2) == "//") {
        while (at < text.size() && text[at] != '\n') ++at;
      } else if (text.substr(at, 2) == "/*") {
        const size_t end = text.find("*/", at);
        at = end == std::string_view::npos ? text.size() : end + 2;
      } else {
        return;
      }
    }
  }
  constexpr bool in_word(char c) const {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == ':' || c == '$';
  }
  constexpr std::string_view word() {
    skip();
    const size_t begin = at;
    while (at < text.size() && in_word(text[at])) ++at;
    return text.substr(begin, at - begin);
  }
  constexpr bool take(char c) {
    skip();
    if (peek() != c) return false;
    ++at;
    return true;
  }
  constexpr int find_register(std::string_view name) const {
    for (int i = 0; i < program.register_count; ++i) {
      if (program.registers[i] == name) return i;
    }
    return -1;
  }
  static constexpr long long number_of(std::string_view w) {
    const bool hex = w.size() > 2 && w[0] == '0' && (w[1] == 'x' || w[1] == 'X');
    // 0f3F800000: the bits of a float
    const bool bits = w.size() == 10 && w[0] == '0' && (w[1] == 'f' || w[1] == 'F');
    long long result = 0;
    for (const char c : w.substr(hex || bits ? 2 : 0)) {
      if (c == 'U' || c == 'u') continue;
      const int digit = c <= '9' ? c - '0' : c <= 'F' ? c - 'A' + 10 : c - 'a' + 10;
      result = result * (hex || bits ? 16 : 10) + digit;
    }
    return result;
  }
  constexpr Value value() {
    Value result;
    skip();
    if (take('!')) result.negated = true;
    const bool minus = take('-');
    if (take('%')) {
      take('%');
      const std::string_view w = word();
      if (!w.empty() && w[0] >= '0' && w[0] <= '9') return {Value::kArgument, number_of(w), w, result.negated};
      return {Value::kSpecial, 0, w, false};
    }
    const std::string_view w = word();
    if (w.empty()) {
      program.legible = false;
    } else if (w[0] >= '0' && w[0] <= '9') {
      result.kind = Value::kNumber;
      result.number = minus ? -number_of(w) : number_of(w);
    } else if (w == "_") {
      result.kind = Value::kNone;
    } else {
      const int index = find_register(w);
      result.kind = Value::kRegister;
      result.number = index;
      if (index < 0) program.legible = false;
    }
    return result;
  }
  constexpr Operand operand() {
    Operand result;
    if (take('{')) {
      do {
        result.parts[result.count++] = value();
      } while (result.count < kMostParts && take(','));
      if (!take('}')) program.legible = false;
    } else if (take('[')) {
      result.address = true;
      result.parts[result.count++] = value();
      if (take('+')) result.offset = value().number;
      if (!take(']')) program.legible = false;
    } else {
      result.parts[result.count++] = value();
      if (take('|')) result.parts[result.count++] = value();
    }
    return result;
  }
  constexpr void declare() {  // after .reg .type
    do {
      std::string_view name = word();
      if (take('%')) name = word();
      if (program.register_count < 16) program.registers[program.register_count++] = name;
    } while (take(','));
  }
  constexpr Program read() {
    while (program.legible) {
      skip();
      if (at >= text.size()) break;
      if (take(';') || take('{') || take('}')) continue;
      Instruction now;
      if (take('@')) now.guard = value();
      now.op = word();
      if (now.op == ".reg") {
        word();
        declare();
        continue;
      }
      if (now.op.empty()) program.legible = false;
      skip();
      while (peek() != ';' && peek() != '\0' && peek() != '}' && program.legible) {
        if (now.count == kMostOperands) program.legible = false;
        if (!program.legible) break;
        now.operands[now.count++] = operand();
        skip();
        if (!take(',')) break;
        skip();
      }
      skip();
      if (peek() != ';' && peek() != '\0' && peek() != '}') program.legible = false;
      if (program.count == kMostInstructions) program.legible = false;
      if (program.legible) program.instructions[program.count++] = now;
    }
    return program;
  }
};

template <Text kText>
struct Parsed {
  static constexpr Program kProgram = Reader(kText.view()).read();
};

// True if the dotted parts of `op` begin with the parts of `words`.
constexpr bool begins(std::string_view op, std::string_view words) {
  return op.substr(0, words.size()) == words && (op.size() == words.size() || op[words.size()] == '.');
}
constexpr bool has(std::string_view op, std::string_view part) {
  for (size_t at = op.find(part); at != std::string_view::npos; at = op.find(part, at + 1)) {
    const size_t end = at + part.size();
    if (at > 0 && op[at - 1] == '.' && (end == op.size() || op[end] == '.' || op[end] == ':')) return true;
  }
  return false;
}
constexpr std::string_view last_part(std::string_view op) { return op.substr(op.rfind('.') + 1); }

constexpr size_t bytes_of(std::string_view type) {
  const std::string_view digits = type.substr(1);
  return digits == "8"                        ? 1
         : digits == "16"                     ? 2
         : digits == "32" || digits == "16x2" ? 4
         : digits == "64"                     ? 8
         : digits == "128"                    ? 16
                                              : 0;
}
constexpr bool is_integer(std::string_view type) {
  return !type.empty() && (type[0] == 'b' || type[0] == 'u' || type[0] == 's') && bytes_of(type) &&
         type != "bf16";
}

using Wide = unsigned __int128;

// The C++ type of an integer of 1, 2, 4 or 8 bytes. 16 bytes are always unsigned.
template <size_t kBytes, bool kSigned>
using Integer = std::conditional_t<
    kBytes == 1, std::conditional_t<kSigned, int8_t, uint8_t>,
    std::conditional_t<kBytes == 2, std::conditional_t<kSigned, int16_t, uint16_t>,
                       std::conditional_t<kBytes == 4, std::conditional_t<kSigned, int32_t, uint32_t>,
                                          std::conditional_t<kBytes == 16, Wide,
                                                             std::conditional_t<kSigned, int64_t, uint64_t>>>>>;

}  // namespace simt::ptx
