// A CUDA source wherever a command takes a kernel: FILE.cu --entry 'launch(q, k, v, o, B, H, S, D)'.
//
//   add_entry_options(*command, arguments->entry);
//   expect_source(arguments.kernels, arguments.entry);
//   kernel = library_of_source(kernel, arguments.entry, arguments.target, out);   // the path of a library
//
// Nobody has said what the function takes. So it is run on small problems first (fuzz/check/tried.h), and the
// library declares what was found. The user reads it as text for --takes. What --takes or --domain names is
// believed, and keeps what it says. The conclusion is kept beside the build, and is drawn again when the
// source, the call or --takes has changed.
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

// Throws UserError where --entry is given and no kernel is a source.
void expect_source(const std::vector<std::string>& kernels, const EntryOptions& options);

// `kernel` itself if it is no CUDA source; else the library that is built of it in `folder`. `terms`: of
// --domain. Throws UserError: as build_entry() does, and if the function takes none of the small problems
// though nothing is said of its sizes and formats.
std::string library_of_source(const std::string& kernel, const EntryOptions& options,
                              const TargetOptions& target, const std::string& folder,
                              const std::optional<Terms>& terms = {});

}  // namespace attnfuzz
