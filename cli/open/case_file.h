// Opens the file of a case and the kernel to judge it with, for replay, explain, export and reduce.
#pragma once

#include <memory>
#include <string>

#include "cli/open/entry_options.h"
#include "cli/options/options.h"
#include "properties/judge/property.h"
#include "properties/reduce/reproducer.h"
#include "reference/model/calibration.h"

namespace attnfuzz {

// Reads a reproducer file. A bare case becomes a reproducer with property `reference` and no
// kernel. Throws UserError.
Reproducer load_reproducer(const std::string& path);
// The kernel to judge the case with: `named` by --kernel, or the one in the file at `path`. A
// library is loaded only if the user names it. If only the file names a library, this throws
// UserError that says how to name it.
std::string trusted_kernel(const Reproducer& r, const std::string& path, const std::string& named);
// The peer build to compare bits with: `named` by --peer, or the one in the file, under the same rule. Empty if
// there is none.
std::string trusted_peer(const Reproducer& r, const std::string& path, const std::string& named);
// Fills in options that were not given with those of the file.
TargetOptions for_file(TargetOptions options, const Reproducer& file);

// Lets the kernel choose its variant (0) if the file names none and the kernel lacks the default, variant 1.
// Returns a note for the user; empty if nothing changed.
std::string fit_variant(Reproducer& r, const std::string& path, const KernelInfo& kernel);

struct CaseArguments {
  std::string file, kernel;
  EntryOptions entry;  // of a kernel that is a CUDA source
  TargetOptions target;
};
// Refuses a path without a file, and says how a kernel is given.
CLI::Validator is_case_file();
// Adds FILE, --kernel, the options of a CUDA source, and those of a target.
void add_case_arguments(CLI::App& app, CaseArguments& arguments);
void add_kernel_option(CLI::App& app, std::string& kernel);

struct OpenedCase {
  Reproducer r;
  const Property& property;
  std::unique_ptr<Target> target;
  Calibration calibration;
  std::string identity;  // identity_line() and the note of expect_peer()
};
// Opens the kernel of a case. Throws UserError if it would run another operation than the one that the case
// asks for.
OpenedCase open_case(const CaseArguments& arguments);

}  // namespace attnfuzz
