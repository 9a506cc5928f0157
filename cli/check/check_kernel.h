// A check of one kernel: asks what it refuses, tries what was found before, draws and judges cases, files the
// failures, and prints all of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/open/entry_options.h"
#include "cli/open/open_kernel.h"
#include "cli/print/checked.h"
#include "reference/model/arithmetic_names.h"

namespace attnfuzz {

class Interrupts;

struct CheckArguments {
  std::vector<std::string> kernels;
  std::vector<std::string> properties;
  TargetOptions target;
  CheckOptions check;
  std::optional<uint64_t> seed;  // if not given: 1, or a random seed for an untrusted kernel
  std::string duration, out = ".", json, junit, sarif;
  std::string arithmetic = kArithmeticNames[0];
  std::string domain;  // the text of --domain; empty: none
  EntryOptions entry;  // of a CUDA source
  double reduce_seconds = 30;
  bool census = false;   // print the census
  bool verbose = false;  // print the tables, and all lines of a failure
};

// Throws UserError if the kernel cannot be opened or cannot be checked as the arguments say.
Checked check_kernel(const KernelLibrary& library, const CheckArguments& arguments,
                     const Interrupts& interrupts);

}  // namespace attnfuzz
