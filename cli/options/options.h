// Options that subcommands share, the same in all that have them: above all which kernel is asked, and how.
#pragma once

#include <string>
#include <vector>

#include "cli/options/command.h"
#include "kernels/attention.h"

namespace attnfuzz {

struct Property;

struct TargetOptions {
  std::string backend;      // empty: cpu, and of a plug-in the one that it says
  std::string build_kind;   // empty: plain
  std::string calibration;  // file; empty: the committed table for the device, or of the arithmetic
  int32_t arithmetic = ATTN_ARITHMETIC_ANY;  // of the cases
  double watchdog = 0;                       // seconds; 0: as default_watchdog() says
  bool allow_stale = false;
  std::string oracle = "cpu";  // or cuda: that one first, and the CPU's for what fails
  int background = 0;          // threads that judge by the CPU what is drawn of a batch (BatchJudge)
  uint32_t batch = 0;          // cases judged at once on the device, beside the kernel (fuzz/batch); 0: none
  std::string peer;            // whose bits it must have; empty: on a GPU those of its build for the executor
  std::string
      errors;  // what plans may claim at most (cli/options/terms.h); empty: with `untrusted` what is documented
  std::string untrusted;  // "": as trusted as the command; "available", "strict" (confinement.h)
};

// Every build there is.
const std::vector<std::string>& build_kind_names();

// Validators: of a kernel's back end, cpu or cuda; of a CPU build; of a property.
CLI::Validator is_backend();
CLI::Validator is_build_kind();
CLI::Validator is_property();

void add_calibration_option(CLI::App& app, TargetOptions& options);
void add_watchdog_option(CLI::App& app, TargetOptions& options);
void add_stale_flag(CLI::App& app, TargetOptions& options);
// `then`: what is judged by the CPU's besides.
void add_oracle_option(
    CLI::App& app, TargetOptions& options,
    const std::string& then = "what fails by it, and one result in a hundred, is judged by the CPU's too");
void add_batch_option(CLI::App& app, TargetOptions& options);
void add_background_option(CLI::App& app, TargetOptions& options);
void add_peer_option(CLI::App& app, TargetOptions& options);
// --untrusted, --untrusted=strict, --errors.
void add_untrusted_flag(CLI::App& app, TargetOptions& options);
// -v: `what` says what it prints besides.
void add_verbose_flag(CLI::App& app, bool& verbose, const std::string& what);
// The same, and --backend, --build, --calibration, --watchdog, --allow-stale.
void add_target_options(CLI::App& app, TargetOptions& options);

// The words that make a replay line as careful as this command was.
std::string distrust_words(const TargetOptions& options);

// These throw UserError with what there is to say.
const Property& property_named(const std::string& name);
// "30s", "5m", "2h", "45" (seconds).
double parse_duration(const std::string& text);

}  // namespace attnfuzz
