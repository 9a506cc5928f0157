// A file of a case, and what to judge it with: of replay, explain, export and reduce.
#pragma once

#include <memory>
#include <string>

#include "cli/open/entry_options.h"
#include "cli/options/options.h"
#include "properties/judge/property.h"
#include "properties/reduce/reproducer.h"
#include "reference/model/calibration.h"

namespace attnfuzz {

// A reproducer file; of a bare case, one with property `reference` and no kernel. Throws UserError.
Reproducer load_reproducer(const std::string& path);
// The kernel to judge the case of the file at `path` with: `named` by --kernel, or the file's. A library is
// loaded only if the caller names it: for one that the file alone names this throws and says how to name it.
std::string trusted_kernel(const Reproducer& r, const std::string& path, const std::string& named);
// Likewise what to compare its bits with: `named` by --peer, or the file's; empty: neither names any.
std::string trusted_peer(const Reproducer& r, const std::string& path, const std::string& named);
// Takes the options that were not given from the file.
TargetOptions for_file(TargetOptions options, const Reproducer& file);

struct CaseArguments {
  std::string file, kernel;
  EntryOptions entry;  // of a kernel that is a CUDA source
  TargetOptions target;
};
// FILE, --kernel, those of a CUDA source, and the options of a target.
void add_case_arguments(CLI::App& app, CaseArguments& arguments);
void add_kernel_option(CLI::App& app, std::string& kernel);

struct OpenedCase {
  Reproducer r;
  const Property& property;
  std::unique_ptr<Target> target;
  Calibration calibration;
  std::string identity;  // identity_line(), and the note of expect_peer()
};
OpenedCase open_case(const CaseArguments& arguments);

}  // namespace attnfuzz
