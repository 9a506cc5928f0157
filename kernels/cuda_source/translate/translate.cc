#include "kernels/cuda_source/translate/translate.h"

#include <algorithm>
#include <stdexcept>

#include "kernels/cuda_source/translate/tokens.h"

namespace attnfuzz {
namespace {

constexpr size_t kNone = static_cast<size_t>(-1);

class Translator {
 public:
  Translator(std::string_view text, const std::string& name)
      : text_(text), name_(name), tokens_(tokens_of(text)) {}

  std::string run() {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      if (i < skip_until_) continue;
      follow_braces(i);
      if (is(i, "<") && starts_spaced_run(i, '<')) launch(i);
      if (tokens_[i].kind != Token::kName) continue;
      if (is(i, "__shared__")) {
        if (is(i + 1, "alignas")) replace(i + 1, i + 1, "__align__");  // a host compiler wants alignas first
        dynamic_shared(i);
      }
      if (is(i, "asm") || is(i, "__asm__") || is(i, "__asm")) inline_ptx(i);
      if (is(i, "__launch_bounds__") && is(i + 1, "(") && !tokens_[i].directive) launch_bounds(i);
      if (is(i, "cudaLaunchKernel") && is(i + 1, "(")) bare_kernel(i + 2);
      if (is_inline(i) && is_declared_twice(i)) replace(i, i, "");
      if (is(i, "__noinline__") && !(i > 0 && is(i - 1, "("))) replace(i, i, "__attribute__((noinline))");
    }
    return apply();
  }

 private:
  struct Edit {
    size_t begin, end;
    std::string with;
  };

  std::string_view word(size_t i) const { return tokens_[i].in(text_); }
  bool is(size_t i, std::string_view what) const { return i < tokens_.size() && word(i) == what; }
  std::string_view between(size_t first, size_t last) const {  // tokens, both included
    return text_.substr(tokens_[first].begin, tokens_[last].end - tokens_[first].begin);
  }

  [[noreturn]] void fail(size_t i, const std::string& why) const {
    const auto line =
        1 + std::count(text_.begin(), text_.begin() + static_cast<ptrdiff_t>(tokens_[i].begin), '\n');
    throw std::runtime_error(name_ + ":" + std::to_string(line) + ": " + why);
  }

  // Replaces tokens `first` to `last` by `with`, and keeps their number of lines.
  void replace(size_t first, size_t last, std::string with) {
    const std::string_view old = between(first, last);
    const auto lines = [](std::string_view s) { return std::count(s.begin(), s.end(), '\n'); };
    const std::string end_of_line = tokens_[first].directive ? "\\\n" : "\n";
    for (auto more = lines(old) - lines(with); more > 0; --more) with += end_of_line;
    edits_.push_back({tokens_[first].begin, tokens_[last].end, std::move(with)});
  }

  // The text without comments and line ends, for text that is written twice.
  std::string flat(size_t first, size_t last) const {
    std::string result;
    for (size_t i = first; i <= last; ++i) {
      if (i > first && !tokens_[i].glued) result += ' ';
      result += word(i);
    }
    return result;
  }

  // True if three equal characters begin here, without space between them.
  bool starts_run(size_t i, char c) const {
    return starts_spaced_run(i, c) && tokens_[i + 1].glued && tokens_[i + 2].glued;
  }
  // The same, but one space is allowed, because some formatters take a launch for shift operators and write
  // f<< <1, 2>> >(...).
  bool starts_spaced_run(size_t i, char c) const {
    const std::string one(1, c);
    return is(i, one) && is(i + 1, one) && is(i + 2, one) && (tokens_[i + 1].glued || tokens_[i + 2].glued);
  }

  static bool opens(std::string_view w) { return w == "(" || w == "[" || w == "{"; }
  static bool closes(std::string_view w) { return w == ")" || w == "]" || w == "}"; }

  bool is_inline(size_t i) const { return is(i, "inline") || is(i, "__inline__") || is(i, "__inline"); }
  // True if the declaration whose specifiers hold token i has __forceinline__ too, which means `inline` again.
  // clang accepts both together; g++ and nvcc 13.0 do not.
  bool is_declared_twice(size_t i) const {
    const auto ends = [&](size_t at) {
      return tokens_[at].directive != tokens_[i].directive || is(at, ";") || is(at, "{") || is(at, "}") ||
             is(at, "(") || is(at, ")") || is(at, ">") || (tokens_[at].directive && is(at, "#"));
    };
    for (size_t at = i + 1; at < tokens_.size() && !ends(at); ++at) {
      if (is(at, "__forceinline__")) return true;
    }
    for (size_t at = i; at-- > 0 && !ends(at);) {
      if (is(at, "__forceinline__")) return true;
    }
    return false;
  }

  // Removes a cast to `const void*` in front of a launched kernel. Without the cast, the kernel's type shows
  // its parameters.
  void bare_kernel(size_t i) {
    const auto is_void_pointer = [&](size_t first, std::string_view end) {
      size_t at = first + (is(first, "const") ? 1 : 0);
      if (!is(at, "void")) return kNone;
      at += is(at + 1, "const") ? 2 : 1;
      return is(at, "*") && is(at + 1, end) ? at + 1 : kNone;
    };
    size_t last = kNone;
    if (is(i, "(")) last = is_void_pointer(i + 1, ")");
    if ((is(i, "reinterpret_cast") || is(i, "static_cast")) && is(i + 1, "<"))
      last = is_void_pointer(i + 2, ">");
    if (last != kNone) replace(i, last, "");
  }

  size_t closing(size_t i) const {  // the bracket that closes the one at i
    int depth = 0;
    for (size_t at = i; at < tokens_.size(); ++at) {
      if (tokens_[at].kind != Token::kPunct) continue;
      depth += opens(word(at)) - closes(word(at));
      if (depth == 0) return at;
    }
    return kNone;
  }
  size_t opening(size_t i) const {
    int depth = 0;
    for (size_t at = i + 1; at-- > 0;) {
      if (tokens_[at].kind != Token::kPunct) continue;
      depth += closes(word(at)) - opens(word(at));
      if (depth == 0) return at;
    }
    return kNone;
  }
  // The < of template arguments that end at i.
  size_t opening_angle(size_t i) const {
    int depth = 0;
    for (size_t at = i + 1; at-- > 0;) {
      if (closes(word(at)) && tokens_[at].kind == Token::kPunct) {
        at = opening(at);
        if (at == kNone) return kNone;
      } else if (is(at, ">") && !(at > 0 && is(at - 1, "-") && tokens_[at].glued)) {
        ++depth;
      } else if (is(at, "<")) {
        if (--depth == 0) return at;
      } else if (is(at, ";") || is(at, "{")) {
        return kNone;
      }
    }
    return kNone;
  }

  bool joined(size_t i, std::string_view two) const {  // ends at i
    return i > 0 && word(i - 1) == two.substr(0, 1) && word(i) == two.substr(1) && tokens_[i].glued;
  }

  // The first token of the expression that ends at `last`: a.b<c>::d<e>, (f), g[h], i(j).
  size_t callee(size_t last) const {
    size_t at = last;
    for (;;) {
      if (is(at, ">")) {
        at = opening_angle(at);
        if (at == kNone || at == 0) return kNone;
        --at;
        if (tokens_[at].kind != Token::kName) return kNone;
      }
      if (is(at, ")") || is(at, "]")) {
        at = opening(at);
        if (at == kNone) return kNone;
        const bool of_something = at > 0 && (is(at - 1, ")") || is(at - 1, "]") || is(at - 1, ">") ||
                                             (tokens_[at - 1].kind == Token::kName && !is(at - 1, "return") &&
                                              !is(at - 1, "else") && !is(at - 1, "do")));
        if (of_something && !(is(at, "(") && at > 1 && is(at - 1, ")") && is_statement_head(at - 1))) {
          --at;
          continue;
        }
        return at;
      }
      if (tokens_[at].kind != Token::kName) return kNone;
      if (at > 0 && is(at - 1, "template")) --at;
      if (at > 1 && joined(at - 1, "::")) {
        const bool of_something = at > 2 && (tokens_[at - 3].kind == Token::kName || is(at - 3, ">")) &&
                                  !is(at - 3, "return") && !is(at - 3, "else") && !is(at - 3, "do");
        if (!of_something) return at - 2;  // ::kernel
        at -= 3;
        continue;
      }
      if (at > 2 && joined(at - 1, "->")) {
        at -= 3;
        continue;
      }
      if (at > 1 && is(at - 1, ".")) {
        at -= 2;
        continue;
      }
      return at;
    }
  }

  // True if the parenthesis that closes at i belongs to an if, for or while.
  bool is_statement_head(size_t i) const {
    const size_t open = opening(i);
    if (open == kNone || open == 0) return false;
    return is(open - 1, "if") || is(open - 1, "for") || is(open - 1, "while") || is(open - 1, "switch") ||
           is(open - 1, "constexpr");
  }

  void launch(size_t i) {
    if (i == 0 || is(i - 1, "operator") || (i > 0 && is(i - 1, "<") && tokens_[i].glued)) return;
    const bool spaced = !starts_run(i, '<');
    size_t end = i + 3;
    for (; end < tokens_.size(); ++end) {
      if (tokens_[end].kind != Token::kPunct) continue;
      if (opens(word(end))) {
        end = closing(end);
        if (end == kNone) return;
      } else if (starts_run(end, '>') || (spaced && starts_spaced_run(end, '>') && is(end + 3, "("))) {
        break;
      } else if (is(end, ";") || closes(word(end))) {
        return;
      }
    }
    if (end >= tokens_.size()) return;
    while (starts_run(end + 1, '>') && tokens_[end + 1].glued) ++end;  // f<<<g<x>>>>: the last three
    const size_t first = callee(i - 1);
    if (first == kNone) fail(i, "the text before <<< is not the name of a kernel, or cannot be translated");
    if (!is(end + 3, "(")) fail(i, "a launch without arguments in parentheses after >>>");
    if (end == i + 3) fail(i, "a launch without a grid");
    const std::string kernel = flat(first, i - 1);
    replace(first, i + 2,
            "::simt::launch_of([&](auto simt_use) -> decltype(simt_use(" + kernel + ")) { return simt_use(" +
                kernel + "); }, [&](auto&... simt_given) -> decltype(static_cast<void>(" + kernel +
                "(simt_given...))) { " + kernel + "(simt_given...); }, ::simt::simt_here(), ");
    replace(end, end + 2, ")");
  }

  // Lets the body of a kernel with __launch_bounds__(most, ...) begin with a check of the block. A declaration
  // without a body stays as it is.
  void launch_bounds(size_t i) {
    const size_t close = closing(i + 1);
    if (close == kNone || close == i + 2) return;
    size_t end = i + 2;  // of the first argument
    while (end < close && !is(end, ",")) end = opens(word(end)) ? closing(end) + 1 : end + 1;
    size_t at = close + 1;
    for (; at < tokens_.size() && !is(at, "("); ++at) {
      if (is(at, ";") || is(at, "{") || is(at, "}")) return;
      if (is(at + 1, "(") && is_attribute(at + 1)) at = closing(at + 1);
      if (at == kNone) return;
    }
    if (!is(at, "(") || closing(at) == kNone) return;
    const size_t body = closing(at) + 1;
    if (!is(body, "{")) return;
    replace(body, body,
            "{ ::simt::check_launch_bounds(static_cast<unsigned>(" + flat(i + 2, end - 1) +
                "), ::simt::simt_here());");
  }

  void follow_braces(size_t i) {
    if (tokens_[i].directive || tokens_[i].kind != Token::kPunct) return;
    if (is(i, "{")) {
      bool space = false;
      for (size_t at = i; at-- > 0 && i - at < 12;) {
        if (is(at, ";") || is(at, "}") || is(at, "{") || is(at, ")")) break;
        if (is(at, "namespace") || (is(at, "extern") && tokens_[at + 1].kind == Token::kString)) space = true;
      }
      inner_.push_back(!space);
    } else if (is(i, "}") && !inner_.empty()) {
      inner_.pop_back();
    }
  }

  // The first token of the declaration that contains token i.
  size_t declaration(size_t i) const {
    while (i > 0 && tokens_[i - 1].directive == tokens_[i].directive) {
      const std::string_view before = word(i - 1);
      if (tokens_[i - 1].kind == Token::kPunct && (before == ";" || before == "{" || before == "}")) break;
      if (before == ")") {
        // This parenthesis belongs to an attribute or to a macro's head.
        const size_t open = opening(i - 1);
        if (open == kNone || open == 0 || !is_attribute(open)) break;
        i = open;
      }
      --i;
      if (is(i, "extern")) break;
    }
    return i;
  }
  // True if the ( at `open` belongs to __align__(...), alignas(...) or __attribute__((...)).
  bool is_attribute(size_t open) const {
    return open > 0 && (is(open - 1, "__align__") || is(open - 1, "alignas") || is(open - 1, "__attribute__"));
  }

  void dynamic_shared(size_t i) {
    const size_t first = declaration(i);
    if (!is(first, "extern")) return;
    size_t end = i;
    while (end < tokens_.size() && !is(end, ";") && tokens_[end].directive == tokens_[i].directive) ++end;
    const bool whole = is(end, ";");
    const size_t last = end - 1;
    if (!is(last, "]") || !is(last - 1, "[") || tokens_[last - 2].kind != Token::kName)
      fail(i, "extern __shared__ is translated only in the form `extern __shared__ T name[];`");
    const std::string_view name = word(last - 2);
    std::string type;
    for (size_t at = first + 1; at < last - 2; ++at) {
      if (is(at, "__shared__")) continue;
      if (is(at + 1, "(") && is_attribute(at + 1)) {
        at = closing(at + 1);
        continue;
      }
      if (is(at, ",")) fail(i, "one dynamic shared array a declaration, please");
      type += (type.empty() ? "" : " ") + std::string(word(at));
    }
    const bool in_function =
        tokens_[i].directive || std::find(inner_.begin(), inner_.end(), true) != inner_.end();
    const std::string array(name);
    replace(first, last,
            in_function
                ? type + "* const " + array + " = static_cast<" + type +
                      "*>(::simt::dynamic_shared(::simt::simt_here()))"
                : "static " + type + "* " + array + " = nullptr; static const ::simt::DynamicShared simt_of_" +
                      array + "(&" + array + ")");
    skip_until_ = end + whole;
  }

  void inline_ptx(size_t i) {
    size_t open = i + 1;
    while (is(open, "volatile") || is(open, "__volatile__") || is(open, "inline")) ++open;
    if (!is(open, "(")) return;
    const size_t close = closing(open);
    if (close == kNone) return;
    // The sections between colons of the first level.
    std::vector<std::pair<size_t, size_t>> sections = {{open + 1, open + 1}};
    for (size_t at = open + 1; at < close; ++at) {
      if (is(at, ":") && tokens_[at].kind == Token::kPunct) {
        sections.back().second = at;
        sections.emplace_back(at + 1, at + 1);
      } else if (opens(word(at)) && tokens_[at].kind == Token::kPunct) {
        at = closing(at);
      }
    }
    sections.back().second = close;
    if (sections[0].first == sections[0].second) fail(i, "asm without text");
    std::string call = "::simt::ptx::run<::simt::ptx::Text(" + flat(sections[0].first, sections[0].second - 1) +
                       ")>(::simt::simt_here()";
    for (size_t section = 1; section < std::min<size_t>(sections.size(), 3); ++section) {
      for (size_t at = sections[section].first; at < sections[section].second; ++at) {
        if (is(at, ",")) continue;
        if (is(at, "[")) fail(i, "operands of asm with names are not translated: use %0, %1, ...");
        if (tokens_[at].kind != Token::kString || !is(at + 1, "("))
          fail(i, "an operand of asm that is not of the form \"constraint\"(value)");
        const std::string_view constraint = word(at);
        const size_t end = closing(at + 1);
        const char* how = constraint.find('+') != constraint.npos ? "inout" : section == 1 ? "out" : "in";
        call += ", ::simt::ptx::" + std::string(how) + "(" + flat(at + 2, end - 1) + ")";
        at = end;
      }
    }
    replace(i, close, call + ")");
    ptx_ = true;
    skip_until_ = close + 1;
  }

  std::string apply() {
    std::sort(edits_.begin(), edits_.end(), [](const Edit& a, const Edit& b) { return a.begin < b.begin; });
    std::string result;
    size_t at = 0;
    for (const Edit& edit : edits_) {
      result += text_.substr(at, edit.begin - at);
      result += edit.with;
      at = edit.end;
    }
    result += text_.substr(at);
    return ptx_ ? "#include \"kernels/cuda_source/cuda/ptx/ptx.h\"\n#line 1\n" + result : result;
  }

  std::string_view text_;
  const std::string& name_;
  std::vector<Token> tokens_;
  std::vector<Edit> edits_;
  std::vector<bool> inner_;  // the open braces: false for namespaces, true for others
  size_t skip_until_ = 0;
  bool ptx_ = false;
};

}  // namespace

std::string translate(std::string_view text, const std::string& name) { return Translator(text, name).run(); }

}  // namespace attnfuzz
