// Lets a command take a CUDA source in place of a kernel: FILE.cu --entry 'launch(q, k, v, o, B, H, S, D)'.
//
//   add_entry_options(*command, arguments->entry);
//   expect_source(arguments.kernels, arguments.entry);
//   kernel = library_of_source(kernel, arguments.entry, arguments.target, out);   // the path of a library
//
// No declaration says what the function takes, so it is run on small problems first (fuzz/check/takes/tried.h). The
// library declares the limits that were found, and they are printed as text for --takes. Limits in --takes or
// --domain are believed and not tried. The result is kept beside the build, and found anew when the source, the
// call or --takes has changed.
#pragma once

#include <string>
#include <vector>

#include "cli/options/options.h"
#include "fuzz/check/check.h"

namespace attnfuzz {

struct EntryOptions {
  std::string call, takes;  // cli/entry/entry.h
  std::vector<std::string> includes;
};

// --entry, --takes, --include.
void add_entry_options(CLI::App& app, EntryOptions& options);

// Throws UserError if --entry is given and no kernel is a source.
void expect_source(const std::vector<std::string>& kernels, const EntryOptions& options);

// Returns `kernel` itself if it is not a CUDA source, else the library that is built from it in
// `folder`. `terms` are those of --domain. Throws UserError as build_entry() does, and also if the
// function takes none of the small problems although its sizes and formats were left open.
std::string library_of_source(const std::string& kernel, const EntryOptions& options,
                              const TargetOptions& target, const std::string& folder,
                              const std::optional<Terms>& terms = {});

}  // namespace attnfuzz
