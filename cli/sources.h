// CUDA sources among the kernels of a command: --entry, --takes, --include.
//
// A plain CUDA function that is given what it was not written for throws, aborts, fails its launch or writes
// nothing. Told as failures those hide its bugs. So a library that was built of a source is first run on small
// problems: usual head dimensions and lengths, each format that the function may have. What it answers in such
// a way is declared, in a line that says what was concluded, and the library is built once more with that
// declaration.
//
//   add_source_options(*command, arguments->source);
//   build_sources(arguments.kernels, arguments.source, arguments.target, arguments.out);   // now they are libraries
#pragma once

#include <string>
#include <vector>

#include "cli/options.h"

namespace attnfuzz {

struct SourceOptions {
  std::string entry, takes;  // cli/entry.h
  std::vector<std::string> includes;
};

void add_source_options(CLI::App& app, SourceOptions& options);

// Builds a source as it is said to be, without asking it anything, and returns the library. Throws as
// build_entry().
std::string build_source(const std::string& kernel, const SourceOptions& source, const TargetOptions& target,
                         const std::string& folder);

// Builds each source among `kernels` in `folder`, and puts its library in its place. Throws UserError: for
// --entry without a source, and as build_entry() does.
void build_sources(std::vector<std::string>& kernels, const SourceOptions& source, const TargetOptions& target,
                   const std::string& folder);

}  // namespace attnfuzz
