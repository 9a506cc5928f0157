// What subcommands share: which kernel, opened how, judged by which table.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "fuzz/host/kernel_registry.h"
#include "fuzz/host/lanes.h"
#include "fuzz/screen/screen.h"
#include "properties/judge/property.h"
#include "properties/reduce/reproducer.h"
#include "reference/model/calibration.h"

namespace attnfuzz {

struct TargetOptions {
  std::string backend;      // empty: cpu, and of a plug-in the one that it says
  std::string lane;         // empty: plain
  std::string calibration;  // file; empty: the committed table for the device, or of the arithmetic
  int32_t arithmetic = ATTN_ARITHMETIC_ANY;  // of the cases
  double watchdog = 0;      // seconds; 0: as default_watchdog() says
  bool allow_stale = false;
  std::string oracle = "cpu";  // or cuda: that one first, and the CPU's for what fails
  int beside = 0;              // threads that judge by the CPU what is drawn of a batch (Screen)
  uint32_t batch = 0;          // cases judged at once on the device, beside the kernel (fuzz/screen); 0: none
  std::string twin;            // whose bits it must have; empty: on a GPU those of its build for the executor
  std::string errors;  // what plans may claim at most (cli/terms.h); empty: with `untrusted` what is documented
  std::string untrusted;  // "": as trusted as the command; "available", "strict" (confinement.h)
};

// Every lane there is.
const std::vector<std::string>& lane_names();

// Of kernels: cpu or cuda; and of CPU lanes.
CLI::Validator is_backend();
CLI::Validator is_lane();
CLI::Validator is_property();

// The same in all subcommands that have them.
void add_calibration_option(CLI::App& app, TargetOptions& options);
void add_watchdog_option(CLI::App& app, TargetOptions& options);
void add_stale_flag(CLI::App& app, TargetOptions& options);
// `then`: what is judged by the CPU's besides.
void add_oracle_option(
    CLI::App& app, TargetOptions& options,
    const std::string& then = "what fails by it, and one result in a hundred, is judged by the CPU's too");
void add_batch_option(CLI::App& app, TargetOptions& options);
void add_beside_option(CLI::App& app, TargetOptions& options);
void add_twin_option(CLI::App& app, TargetOptions& options);
// --untrusted, --untrusted=strict, --errors.
void add_untrusted_flag(CLI::App& app, TargetOptions& options);
// The same, and --backend, --lane, --calibration, --watchdog, --allow-stale.
void add_target_options(CLI::App& app, TargetOptions& options);

// What was not given, as the file has it.
TargetOptions for_file(TargetOptions options, const Reproducer& file);

// A file of a case, and what to judge it with: of explain, export and reduce.
struct CaseArguments {
  std::string file, kernel;
  TargetOptions target;
};
// FILE, --kernel and the options of a target.
void add_case_arguments(CLI::App& app, CaseArguments& arguments);
void add_kernel_option(CLI::App& app, std::string& kernel);

struct OpenedCase {
  Reproducer r;
  const Property& property;
  std::unique_ptr<Target> target;
  Calibration calibration;
  std::string identity;  // identity_line()
};
OpenedCase open_case(const CaseArguments& arguments);

// Each throws UserError with what to do.
// All that a name stands for: a plug-in may have several kernels.
std::vector<KernelLibrary> libraries_of(const std::string& name, const TargetOptions& options);
// Of a name that must stand for one.
KernelLibrary library_of(const std::string& kernel, const TargetOptions& options);
std::unique_ptr<Target> open(const KernelLibrary& library, const TargetOptions& options);
// For a property that compares with a twin: throws UserError where the target has none that can be opened. A
// line to print, or nothing: why its bits may be others though nothing is wrong.
std::string expect_twin(Target& target, const Property& property);
// The same kernel in another lane of the CPU; null: it is not built for that, or cannot be asked there, which
// is said on stderr.
std::unique_ptr<Target> open_in(const std::string& lane, const KernelLibrary& library, TargetOptions options);
// The oracle that the options ask for, if that is another than the CPU's. Not in a process that goes on to
// fork: CUDA does not survive it. `all`: it is asked of small problems too, and the CPU's of all that it says.
void put_oracle(Target& target, const TargetOptions& options, bool all = false);
// The screen that --batch asks for; nullptr: it asks for none. Throws UserError where the target has none.
Screening* screening_of(Target& target, const TargetOptions& options);
Calibration calibration_for(const KernelInfo& kernel, const TargetOptions& options);
// "30s", "5m", "2h", "45" (seconds).
double parse_duration(const std::string& text);
const Property& property_named(const std::string& name);
// A reproducer file; of a bare case, one with property `reference` and no kernel.
Reproducer load_reproducer(const std::string& path);
// What to judge the case of the file at `path` with: `named` by --kernel, or the file's. A library is
// loaded only for whoever named it: of one that the file alone names this says how, and throws.
std::string trusted_kernel(const Reproducer& r, const std::string& path, const std::string& named);
// Likewise what to compare its bits with: `named` by --twin, or the file's; empty: neither names any.
std::string trusted_twin(const Reproducer& r, const std::string& path, const std::string& named);

// Refuses a stale library unless that is allowed, and says what it is.
std::string identity_line(const KernelInfo& kernel, const TargetOptions& options);

// What the worker of a kernel that is not trusted takes on, 0 of one that is; throws UserError where
// that is not to be had. From then on nobody can trace this process either.
uint32_t measures_of(const TargetOptions& options);
// "confined: process, files, network, signals, system calls" and what is lacking, a line each.
std::string confinement_text(uint32_t measures);
// What a replay line must say to be as careful.
std::string distrust_words(const TargetOptions& options);

const char* backend_name(int32_t backend);

// To the file, or to standard output where that is "-".
void write_to(const std::string& path, const std::string& text);

// Where one of `paths` is "-": while it lives what is printed for a person goes to standard error, so that
// standard output holds the results alone.
class ResultsApart {
 public:
  explicit ResultsApart(std::initializer_list<std::string> paths);
  ~ResultsApart();
  ResultsApart(const ResultsApart&) = delete;
  ResultsApart& operator=(const ResultsApart&) = delete;

 private:
  int stdout_ = -1;  // kept for them
};

}  // namespace attnfuzz
