// Exports a finding as a standalone program, for the person who gets the bug report.
//
// The program is one file of C++ or Python. It needs neither this project nor its case format. It contains the
// tensors as bit patterns, in the layout of the case; a call of the library by the contract
// (kernels/attention.h); its own reference in double precision; and what is wrong, in words. It exits with 1 if
// the failure shows, 0 if it does not, and 2 if it cannot be tried. Its reference does not know how far
// rounding may move each element, so the file also has the oracle's bounds, for the plan that the kernel makes
// here. These bounds refer to the exact result. Where the oracle predicts how P is rounded, they are wider than
// the oracle's own.
//
//   auto prepared = prepare_export(reproducer, *target, calibration);
//   if (auto* why = std::get_if<std::string>(&prepared)) die(*why);
//   puts(export_cpp(std::get<Export>(prepared), "found.cc").c_str());
//
// For a Python function, the program is a Python script that imports the user's file and calls the
// function. It needs NumPy and whatever that file imports, but not attnfuzz.
//
// The finding is judged again when it is exported. If a variant of the case failed and not the case itself,
// the variant is exported. Some failures are refused: those that need two runs, each right by itself; those
// that only a sanitizer sees; and those that only the predicted rounding of P shows.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "properties/case/case.h"
#include "properties/judge/target/target.h"
#include "properties/operations/operation.h"
#include "properties/reduce/reproducer.h"
#include "reference/model/calibration.h"
#include "reference/oracle.h"

namespace attnfuzz {

// Paths on the exporting machine, for the head of the program. Empty: not known.
struct Places {
  std::string library;   // of the kernel; for a Python function its file
  std::string executor;  // the CPU executor's library
  std::string include;   // the folder that holds kernels/attention.h
};

struct Export {
  Reproducer r;
  Case c;                   // the case that is called: the reproducer's, or its failing variant
  std::string kernel_name;  // as the library gives it: any bytes
  int32_t backend = ATTN_CPU;
  bool fails = false;   // true if it fails here and now
  std::string message;  // of that failure; if it does not fail, the reproducer's
  std::string shape;
  attn_plan plan = {};
  std::optional<attn_plan> cap;  // of an untrusted kernel's plan: it says what the LSE holds
  Reference reference;
  std::array<std::vector<std::byte>, kTensorCount> derived;  // elements of inputs that were computed from others
  Places places = {};      // prepare_export() sets the library only
  bool is_python = false;  // the kernel is a function of the Python file places.library
};

// The most values, over all tensors, that a readable file can hold.
inline constexpr int64_t kMaxExported = int64_t{1} << 20;

// Prepares an export. A string instead says why it cannot be exported and what to do.
std::variant<Export, std::string> prepare_export(const Reproducer& r, Target& target,
                                                 const Calibration& calibration);

// True if some output is farther from the exact value than a right one may be. A program that knows nothing
// about roundings sees this.
bool seen_from_exact_values(const Reference& reference, const Outputs& outputs);

// `name`: the file's name, for the lines that show how to compile and run it. There is no C++ program for a
// Python function.
std::string export_cpp(const Export& e, const std::string& name);
std::string export_python(const Export& e, const std::string& name);

}  // namespace attnfuzz
