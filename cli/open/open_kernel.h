// Opens kernels for subcommands. A kernel is found by name or path, and must not be stale. The
// options choose its peer build, oracle, batch and table of errors. Its worker is confined if the
// kernel is not trusted.
//
// Each function throws UserError that says what to do.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/options/options.h"
#include "fuzz/batch/batch_judge.h"
#include "fuzz/host/build_kinds.h"
#include "fuzz/host/kernel_registry.h"
#include "properties/judge/property.h"
#include "reference/call/backend.h"
#include "reference/model/calibration.h"

namespace attnfuzz {

// All kernels that a name stands for: a plug-in may have several.
std::vector<KernelLibrary> libraries_of(const std::string& name, const TargetOptions& options);
// The library of a name that must stand for exactly one.
KernelLibrary library_of(const std::string& kernel, const TargetOptions& options);
std::unique_ptr<Target> open(const KernelLibrary& library, const TargetOptions& options);
// Opens the same kernel in another CPU build. Null if the kernel does not have that build or cannot run in it.
// Why it cannot run is printed on stderr.
std::unique_ptr<Target> open_in(const std::string& build_kind, const KernelLibrary& library,
                                const BuildInfo& build, TargetOptions options);

// Returns a line that identifies the kernel. Throws UserError for a stale library unless that is
// allowed.
std::string identity_line(const KernelInfo& kernel, const TargetOptions& options);
// Prints this line if `verbose`, or if the library is stale.
void say_identity(const std::string& line, bool verbose);

// For a property that compares with a peer build: throws UserError if the peer build cannot be opened. Returns
// a line to print if the bits may differ although nothing is wrong, else nothing.
std::string expect_peer(Target& target, const Property& property);
// Gives the target the GPU's oracle if --oracle asks for it. Do not call this in a process that forks later:
// CUDA does not survive a fork. `all`: both oracles evaluate all problems, small ones too.
void put_oracle(Target& target, const TargetOptions& options, bool all = false);
// The target's judge of batches if --batch is given, else nullptr. Throws UserError if the target
// has none.
BatchTarget* batch_target_of(Target& target, const TargetOptions& options);
Calibration calibration_for(const KernelInfo& kernel, const TargetOptions& options);

// The measures for the worker of an untrusted kernel, 0 for a trusted one. Throws UserError if they
// are not available. For an untrusted kernel, it also makes this process untraceable.
uint32_t measures_of(const TargetOptions& options);
// "confined: process, files, network, signals, system calls", then a line for each missing measure.
std::string confinement_text(uint32_t measures);

}  // namespace attnfuzz
