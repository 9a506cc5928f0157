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

// %n, a register that the text declares, an integer, a floating-point number or a special register.
struct Value {
  enum Kind { kNone, kArgument, kRegister, kNumber, kReal, kSpecial } kind = kNone;
  long long number = 0;
  std::string_view name;
  bool negated = false;  // !p
  double real = 0;
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
  bool predicate[16] = {};  // registers declared as .pred
  int register_count = 0;
  bool legible = true;
};

// The integer that `w` begins with, in a base of 2 to 16. `end` is where its digits end.
constexpr long long digits_of(std::string_view w, int base, size_t& end) {
  unsigned long long result = 0;
  for (end = 0; end < w.size(); ++end) {
    const char c = w[end];
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : 16;
    if (digit >= base) break;
    result = result * static_cast<unsigned>(base) + static_cast<unsigned>(digit);
  }
  return static_cast<long long>(result);
}

// 1.5 or 25e-1. The kind of the result is kNone if `w` is no such number, or has more digits than fit a long
// double.
constexpr Value decimal(std::string_view w) {
  Value result;
  size_t end = 0;
  const auto whole = digits_of(w, 10, end);
  size_t digits = end;
  int exponent = 0;
  auto value = static_cast<long double>(whole);
  w.remove_prefix(end);
  if (!w.empty() && w[0] == '.') {
    w.remove_prefix(1);
    const auto fraction = digits_of(w, 10, end);
    for (size_t i = 0; i < end; ++i) value *= 10;
    value += static_cast<long double>(fraction);
    digits += end;
    exponent = -static_cast<int>(end);
    w.remove_prefix(end);
  }
  if (!w.empty() && (w[0] | 0x20) == 'e') {
    const bool minus = w.size() > 1 && w[1] == '-';
    w.remove_prefix(w.size() > 1 && (minus || w[1] == '+') ? 2 : 1);
    const auto power = static_cast<int>(digits_of(w, 10, end));
    if (end == 0) return result;
    exponent += minus ? -power : power;
    w.remove_prefix(end);
  }
  if (!w.empty() || digits > 18 || exponent < -27 || exponent > 27) return result;
  long double scale = 1;  // powers of ten up to 10^27 are exact
  for (int i = 0; i < (exponent < 0 ? -exponent : exponent); ++i) scale *= 10;
  result.real = static_cast<double>(exponent < 0 ? value / scale : value * scale);
  result.kind = Value::kReal;
  return result;
}

// A number of PTX's syntax: 12, 017, 0x1F, 0b101, each with U; decimal(); 0f and 0d with the bits of a float or
// of a double. The kind of the result is kNone if `w` is none of these.
constexpr Value constant(std::string_view w) {
  Value result;
  size_t end = 0;
  const char second = w.size() > 2 && w[0] == '0' ? static_cast<char>(w[1] | 0x20) : '\0';
  if ((second == 'f' && w.size() == 10) || (second == 'd' && w.size() == 18)) {
    const auto bits = digits_of(w.substr(2), 16, end);
    result.real = second == 'd' ? __builtin_bit_cast(double, bits)
                                : static_cast<double>(__builtin_bit_cast(float, static_cast<uint32_t>(bits)));
    if (end == w.size() - 2) result.kind = Value::kReal;
    return result;
  }
  if (second != 'x' && w.find_first_of(".eE") != std::string_view::npos) return decimal(w);
  if (w.back() == 'U') w.remove_suffix(1);
  const int base = second == 'x' ? 16 : second == 'b' ? 2 : w.size() > 1 && w[0] == '0' ? 8 : 10;
  if (base == 16 || base == 2) w.remove_prefix(2);
  result.number = digits_of(w, base, end);
  if (end == w.size() && end > 0) result.kind = Value::kNumber;
  return result;
}

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
  constexpr Value value() {
    Value result;
    skip();
    const bool negated = take('!'), minus = take('-');
    if (take('%')) {
      take('%');
      const std::string_view w = word();
      if (!w.empty() && w[0] >= '0' && w[0] <= '9') {
        size_t end = 0;
        result.number = digits_of(w, 10, end);
        result.kind = Value::kArgument;
        if (end != w.size()) program.legible = false;
      } else {
        const int index = find_register(w);  // %%name, declared as .reg .b32 %%name
        result.kind = index < 0 ? Value::kSpecial : Value::kRegister;
        result.number = index;
        if (negated && index < 0) program.legible = false;
      }
      result.name = w;
      result.negated = negated;
      if (minus) program.legible = false;
      return result;
    }
    std::string_view w = word();
    if (w.empty()) {
      program.legible = false;
    } else if (w[0] >= '0' && w[0] <= '9') {
      if ((w.back() | 0x20) == 'e' && w.find_first_of("xX") == std::string_view::npos &&
          (take('-') || take('+'))) {
        const std::string_view power = word();  // 1.5e-3 is two words
        w = {w.data(), w.size() + 1 + power.size()};
      }
      result = constant(w);
      if (result.kind == Value::kNone || negated) program.legible = false;
      if (minus) result.number = -result.number, result.real = -result.real;
    } else if (w == "_") {
      result.kind = Value::kNone;
    } else {
      const int index = find_register(w);
      result.kind = Value::kRegister;
      result.number = index;
      result.negated = negated;
      if (index < 0 || minus) program.legible = false;
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
      if (take('+')) {
        const Value offset = value();
        result.offset = offset.number;
        if (offset.kind != Value::kNumber) program.legible = false;
      }
      if (!take(']')) program.legible = false;
    } else {
      result.parts[result.count++] = value();
      if (take('|')) result.parts[result.count++] = value();
    }
    return result;
  }
  constexpr void declare() {  // after .reg
    const bool predicate = word() == ".pred";
    do {
      std::string_view name = word();
      while (take('%')) name = word();
      if (program.register_count == 16) {
        program.legible = false;
        return;
      }
      program.predicate[program.register_count] = predicate;
      program.registers[program.register_count++] = name;
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
         type.find('x') == std::string_view::npos;
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
