// What subcommands share: which kernel, opened how, judged by which table.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "fuzz/host/kernel_registry.h"
#include "fuzz/host/lanes.h"
#include "properties/judge/property.h"
#include "properties/reduce/reproducer.h"
#include "reference/calibration.h"

namespace attnfuzz {

struct TargetOptions {
  std::string backend;      // empty: cpu, and of a plug-in the one that it says
  std::string lane;         // empty: plain
  std::string calibration;  // file; empty: the committed table for the device
  double watchdog = 0;      // seconds; 0: as default_watchdog() says
  bool allow_stale = false;
};

// Every lane there is.
const std::vector<std::string>& lane_names();

// --backend, --lane, --calibration, --watchdog, --allow-stale.
void add_target_options(CLI::App& app, TargetOptions& options);

// What was not given, as the file has it.
TargetOptions for_file(TargetOptions options, const Reproducer& file);

// Each throws UserError with what to do.
// All that a name stands for: a plug-in may have several kernels.
std::vector<KernelLibrary> libraries_of(const std::string& name, const TargetOptions& options);
// Of a name that must stand for one.
KernelLibrary library_of(const std::string& kernel, const TargetOptions& options);
std::unique_ptr<Target> open(const KernelLibrary& library, const TargetOptions& options);
Calibration calibration_for(const KernelInfo& kernel, const TargetOptions& options);
// "30s", "5m", "2h", "45" (seconds).
double parse_duration(const std::string& text);
const Property& property_named(const std::string& name);
// A reproducer file; of a bare case, one with property `reference` and no kernel.
Reproducer load_reproducer(const std::string& path);
// What to judge the case of the file at `path` with: `named` by --kernel, or the file's. A library is
// loaded only for whoever named it: of one that the file alone names this says how, and throws.
std::string trusted_kernel(const Reproducer& r, const std::string& path, const std::string& named);

// Refuses a stale library unless that is allowed, and says what it is.
std::string identity_line(const KernelInfo& kernel, const TargetOptions& options);

const char* backend_name(int32_t backend);

}  // namespace attnfuzz
