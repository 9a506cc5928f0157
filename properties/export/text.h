// The parts of an exported program that both languages share.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "properties/export/export.h"

namespace attnfuzz::exporting {

// The templates (program.cc.in, program.py.in, ...), compiled in.
extern const char* const kProgramCpp;
extern const char* const kMemoryCpu;
extern const char* const kMemoryCuda;
extern const char* const kProgramPython;
extern const char* const kCallLibrary;     // part of kProgramPython: calls a kernel of a library
extern const char* const kCallFunction;    // part of kProgramPython: calls a function of a Python file
extern const char* const kContractPython;  // all of attnfuzz/contract.py

// An operation's part of a program: its definition in double precision, in either language.
struct ReferenceText {
  const char *operation, *cpp, *python;
};
// nullptr: the operation has none.
const ReferenceText* reference_of(const Operation& operation);

// The library with the CPU executor, which must be loaded before a CPU kernel.
inline constexpr const char* kExecutorLibrary = "libattnfuzz-executor.so";

// A tensor as the program lays it out.
struct TensorText {
  TensorSpec spec;
  int64_t bytes = 0;
  std::array<int64_t, 4> size = {}, stride = {};
  int64_t offset = 0;
  bool page_end = false;
  uint32_t surround = 0;
  int64_t owned = 0;  // rows that belong to a batch entry: fewer than size[2] if entries lie packed, with slack behind them
  std::string values = {};  // of an input or a state: "3c00 64*0000"
  std::string bounds = {};  // of an output or a state, by runs: "64*3e-08 nan any inf"
};
// The tensors that exist, without the workspace: inputs, then states, then outputs.
std::vector<TensorText> tensor_texts(const Export& e);

// A field of a struct with its value in the language's syntax.
struct Field {
  std::string name, value, remark;
};
enum class Language { kCpp, kPython };
// The fields that are not zero, and those that have no default.
std::vector<Field> problem_fields(const Case& c, Language language);
std::vector<Field> environment_fields(const Case& c);
// The fields of a plan that the caller of the check sets, because they say what the LSE holds. None if the kernel
// is trusted; none for gradients, which read an LSE that the plan asks for.
std::vector<Field> lse_fields(const Export& e);

// The head of a program: what fails in words, how to compile and run it, what it needs and what it returns.
// Each line starts with `comment`. `commands` stay whole, `needs` are wrapped.
std::string head(const Export& e, const std::vector<std::string>& commands,
                 const std::vector<std::string>& needs, const std::string& comment);

// The arguments of a program that calls a library: the known paths, or placeholders.
std::string library_arguments(const Export& e);
// Explains the placeholders, and how paths differ on another machine.
std::string library_words(const Export& e);

// `text` as adjacent literals of at most 100 columns, each line after `indent`.
std::string literals(const std::string& text, const std::string& indent);

uint32_t workspace_poison(const Case& c);

// Replaces each @NAME@ of the template, in one pass.
std::string fill_in(const std::string& text, const std::vector<std::pair<std::string, std::string>>& parts);

}  // namespace attnfuzz::exporting
