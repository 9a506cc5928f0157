// Options that several subcommands share, mainly those that choose a kernel and how to run it.
#pragma once

#include <string>
#include <vector>

#include "cli/options/command.h"
#include "kernels/attention.h"

namespace attnfuzz {

struct Property;

struct TargetOptions {
  std::string backend;      // empty: cpu, or for a plug-in the back end of its kernel
  std::string build_kind;   // empty: plain
  std::string calibration;  // file; empty: the committed table of the device or of the arithmetic
  int32_t arithmetic = ATTN_ARITHMETIC_ANY;  // of the cases
  double watchdog = 0;                       // seconds; 0: as default_watchdog() says
  bool allow_stale = false;
  std::string oracle = "cpu";  // "cuda": the GPU's oracle judges first, the CPU's judges failures
  int background = 0;          // threads that judge a sample of each batch by the CPU's oracle (BatchJudge)
  uint32_t batch = 0;          // cases judged at once on the device, beside the kernel (fuzz/batch); 0: none
  std::string peer;            // the peer build; empty: for a kernel on a GPU its build for the executor
  std::string
      errors;  // the error cap (cli/options/terms.h); empty: with `untrusted` the loosest documented classes
  bool classes = false;   // a target in Python may be a class, as for `attnfuzz sequence`
  std::string untrusted;  // "": as trusted as the command; "available", "strict" (confinement.h)
};

// The names of all builds.
const std::vector<std::string>& build_kind_names();

// Validators for a back end (cpu or cuda), a build, and a property.
CLI::Validator is_backend();
CLI::Validator is_build_kind();
CLI::Validator is_property();

void add_calibration_option(CLI::App& app, TargetOptions& options);
void add_watchdog_option(CLI::App& app, TargetOptions& options);
void add_stale_flag(CLI::App& app, TargetOptions& options);
// `then`: the help text that says which results the CPU's oracle also judges.
void add_oracle_option(
    CLI::App& app, TargetOptions& options,
    const std::string& then = "the CPU's oracle also judges what fails and one result in a hundred");
void add_batch_option(CLI::App& app, TargetOptions& options);
void add_device_options(CLI::App& app, int64_t& device_work, int& own_workers, const char* name_of_workers);
void add_background_option(CLI::App& app, TargetOptions& options);
void add_peer_option(CLI::App& app, TargetOptions& options);
// --untrusted, --untrusted=strict, --errors.
void add_untrusted_flag(CLI::App& app, TargetOptions& options);
// -v: `what` is the help text about the additional output.
void add_verbose_flag(CLI::App& app, bool& verbose, const std::string& what);
// --untrusted, --errors, --backend, --build, --calibration, --watchdog, --allow-stale.
void add_target_options(CLI::App& app, TargetOptions& options);

// The words for a replay line that make it distrust the kernel as this command does: --untrusted
// and --errors.
std::string distrust_words(const TargetOptions& options);

// These throw UserError for a name or a duration that is not known.
const Property& property_named(const std::string& name);
// "30s", "5m", "2h", "45" (seconds).
double parse_duration(const std::string& text);

}  // namespace attnfuzz
