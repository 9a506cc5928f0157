// A finding as a program of its own, for the one who gets the bug report.
//
// One file, C++ or Python, that needs neither this project nor its case format:
// the tensors as bit patterns, laid out as they were, a call of the library by
// the contract (kernels/attention.h), a double-precision reference of its own,
// and what is wrong in words. It exits with 1 where the failure shows, 0 where
// it does not, 2 where it cannot be tried. What the reference cannot know, how far
// rounding may bring each element off, is in the file as well: bounds of the
// oracle, for the plan that the kernel makes here. They are about the exact result,
// and so wider than the oracle's own where that predicts how P is rounded.
//
//   auto prepared = prepare_export(reproducer, *target, calibration);
//   if (auto* why = std::get_if<std::string>(&prepared)) die(*why);
//   puts(export_cpp(std::get<Export>(prepared), "found.cc").c_str());
//
// A failure of a Python function becomes a Python script that imports the user's file and calls the function.
// It needs NumPy and what that file imports; attnfuzz itself need not be installed there.
//
// Life of an export: the finding is judged again here. Where another variant of
// the case failed than the case itself, that one is exported. A failure that takes
// two runs to see, each right by itself, is not one call's, and is refused; so are
// one that only a sanitizer sees, and one that only the predicted rounding of P shows.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "properties/case/case.h"
#include "properties/judge/operation.h"
#include "properties/judge/target.h"
#include "properties/reduce/reproducer.h"
#include "reference/model/calibration.h"
#include "reference/oracle.h"

namespace attnfuzz {

// Where things lie on the machine that exports: the head of a program names them. Empty: not known.
struct Places {
  std::string library;   // of the kernel; of a Python function its file
  std::string executor;  // the CPU executor's library
  std::string include;   // the folder in which kernels/attention.h is
};

struct Export {
  Reproducer r;
  Case c;                   // which is called: r's, or the variant of it that fails
  std::string kernel_name;  // as the library gives it: any bytes
  int32_t backend = ATTN_CPU;
  bool fails = false;   // here and now
  std::string message;  // of that failure; of the file's where it does not fail
  std::string shape;
  attn_plan plan = {};
  Reference reference;
  Places places = {};      // prepare_export() knows the library alone
  bool is_python = false;  // the kernel is a function of the Python file places.library
};

// Values of all tensors together that a readable file can hold.
inline constexpr int64_t kMaxExported = int64_t{1} << 20;

// Or a sentence: why it cannot be exported, and what to do.
std::variant<Export, std::string> prepare_export(const Reproducer& r, Target& target,
                                                 const Calibration& calibration);

// Whether some output is farther from what is exactly due than a right one may be: what a program sees that
// knows nothing of roundings.
bool seen_from_exact_values(const Reference& reference, const Outputs& outputs);

// `name`: of the file, for the lines that say how it is compiled and run.
// In C++ there is no program of a Python function.
std::string export_cpp(const Export& e, const std::string& name);
std::string export_python(const Export& e, const std::string& name);

}  // namespace attnfuzz
