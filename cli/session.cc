#include "cli/session.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "cli/compute_sanitizer.h"
#include "cli/help.h"
#include "cli/terms.h"
#include "fuzz/host/confinement.h"
#include "fuzz/host/freshness.h"
#include "fuzz/host/zygote.h"
#include "properties/judge/oracles.h"
#include "properties/judge/property.h"
#include "properties/judge/twin.h"
#include "reference/cuda/cuda_oracle.h"
#include "reference/model/arithmetic_table.h"
#include "reference/model/ceiling.h"
#include "text/printable.h"

namespace attnfuzz {

const char* backend_name(int32_t backend) { return backend == ATTN_CUDA ? "cuda" : "cpu"; }

const std::vector<std::string>& lane_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Lane& lane : lanes()) all.push_back(lane.name);
    return all;
  }();
  return names;
}

CLI::Validator is_backend() { return one_of("back end", {"cpu", "cuda"}); }
CLI::Validator is_lane() { return one_of("lane", lane_names()); }
CLI::Validator is_property() {
  std::vector<std::string> names;
  for (const Property* property : all_properties()) names.emplace_back(property->name);
  return one_of("property", names);
}

void add_calibration_option(CLI::App& app, TargetOptions& options) {
  app.add_option("--calibration", options.calibration, "table of the device's errors, from attnfuzz calibrate")
      ->check(CLI::ExistingFile);
}

void add_watchdog_option(CLI::App& app, TargetOptions& options) {
  const auto of = [](double seconds) { return std::to_string(std::lround(seconds)); };
  std::string sanitizers;
  for (const Lane& lane : lanes()) {
    if (lane.sanitizer()) sanitizers = of(lane.watchdog);
  }
  app.add_option("--watchdog", options.watchdog,
                 "seconds that one plan or run may take, and more for much work: of processor time (default: " +
                     of(default_watchdog(ATTN_CPU, "plain")) + ", in a sanitizer's lane " + sanitizers +
                     "), on a GPU of the clock (default: " + of(default_watchdog(ATTN_CUDA, "plain")) + ")")
      ->check(CLI::Range(0.01, 86400.0));
}

void add_stale_flag(CLI::App& app, TargetOptions& options) {
  app.add_flag("--allow-stale", options.allow_stale,
               "run a library whose sources have changed since it was built");
}

void add_oracle_option(CLI::App& app, TargetOptions& options, const std::string& then) {
  app.add_option("--oracle", options.oracle, "cpu, or cuda: on a GPU, in double; " + then)
      ->check(one_of("oracle", {"cpu", "cuda"}))
      ->capture_default_str();
}

void add_batch_option(CLI::App& app, TargetOptions& options) {
  app.add_option(
         "--batch", options.batch,
         "so many cases at once are made, run and judged on the GPU, in the kernel's own process; what is "
         "wrong there, and one case in a hundred, is judged one by one by the CPU's oracle; 0: none")
      ->check(CLI::Range(0u, screen::kMostCalls))
      ->capture_default_str();
}

void add_beside_option(CLI::App& app, TargetOptions& options) {
  app.add_option("--beside", options.beside,
                 "threads, with a worker each, that judge the one in a hundred of a batch while the GPU goes "
                 "on; 0: none")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
}

void add_untrusted_flag(CLI::App& app, TargetOptions& options) {
  app.add_flag(
         "--untrusted{available}", options.untrusted,
         "the kernel is a stranger's: its worker is confined as far as this machine can, and what it says "
         "of itself loosens no bound; --untrusted=strict: refused where anything is lacking")
      ->check(one_of("way to distrust a kernel", {"available", "strict"}));
  app.add_option("--errors", options.errors,
                 "the loosest rounding that its plans may claim: 'p=input accumulator=tensor merges=8' "
                 "(docs/untrusted.md)");
}

void add_twin_option(CLI::App& app, TargetOptions& options) {
  app.add_option(
      "--twin", options.twin,
      "for the property cpu_gpu_bits: the kernel whose bits it must have (default: of one on a GPU its "
      "build for the executor, in that GPU's arithmetic)");
}

void add_target_options(CLI::App& app, TargetOptions& options) {
  add_untrusted_flag(app, options);
  app.add_option("--backend", options.backend, "cpu (the executor) or cuda; default: cpu, of a plug-in its own")
      ->check(is_backend());
  app.add_option("--lane", options.lane, "how the kernel is built and run: see attnfuzz list")
      ->check(is_lane())
      ->capture_default_str();
  add_calibration_option(app, options);
  add_watchdog_option(app, options);
  add_stale_flag(app, options);
}

void add_kernel_option(CLI::App& app, std::string& kernel) {
  app.add_option("--kernel", kernel, "another kernel than the file's, by name or path");
}

void add_case_arguments(CLI::App& app, CaseArguments& arguments) {
  app.add_option("file", arguments.file, "NAME.attn.json, or a case")->required()->check(CLI::ExistingFile);
  add_kernel_option(app, arguments.kernel);
  add_target_options(app, arguments.target);
  add_twin_option(app, arguments.target);
}

OpenedCase open_case(const CaseArguments& arguments) {
  Reproducer r = load_reproducer(arguments.file);
  r.kernel = trusted_kernel(r, arguments.file, arguments.kernel);
  TargetOptions options = for_file(arguments.target, r);
  options.twin = trusted_twin(r, arguments.file, options.twin);
  const Property& property = property_named(r.property);
  std::unique_ptr<Target> target = open(library_of(r.kernel, options), options);
  std::string identity = identity_line(target->info(), options);
  if (const std::string note = expect_twin(*target, property); !note.empty()) identity += "\n" + note;
  const Calibration calibration = calibration_for(target->info(), options);
  return {std::move(r), property, std::move(target), calibration, std::move(identity)};
}

namespace {

// A lane may come from a file, and becomes part of a library's name.
std::string lane_of(const TargetOptions& options) {
  if (options.lane.empty()) return "plain";
  if (const std::string why = is_lane()(options.lane); !why.empty()) throw UserError(why);
  return options.lane;
}

Wanted wanted_by(const TargetOptions& options) {
  Wanted wanted = {std::nullopt, lane_of(options), measures_of(options)};
  if (!options.backend.empty()) wanted.backend = options.backend == "cuda" ? ATTN_CUDA : ATTN_CPU;
  return wanted;
}

// Beside lib/libattn_NAME_cuda.so: lib/twins/libattn_NAME_cpu.so, which has all ways through it, else
// lib/libattn_NAME_cpu.so; empty: neither.
std::string executor_build(const std::string& library) {
  const std::filesystem::path path(library);
  const std::string ending = "_cuda.so", file = path.filename();
  if (!file.ends_with(ending)) return "";
  const std::string name = file.substr(0, file.size() - ending.size()) + "_cpu.so";
  for (const auto& there : {path.parent_path() / "twins" / name, path.parent_path() / name}) {
    if (std::error_code none; std::filesystem::exists(there, none)) return there;
  }
  return "";
}

// What --calibration says that the device has.
int32_t calibrated_arithmetic(const TargetOptions& options) {
  if (options.calibration.empty()) return ATTN_ARITHMETIC_ANY;
  std::string error;
  const Calibration calibration = read_calibration(options.calibration, &error);
  if (!error.empty()) throw UserError(error);
  return calibration.arithmetic;
}

void give_twin(Target& target, const KernelLibrary& library, const TargetOptions& options) {
  const bool on_gpu = library.backend == ATTN_CUDA;
  std::string of = options.twin;
  if (of.empty() && on_gpu) of = executor_build(library.path);
  if (of.empty()) return;
  if (options.twin.empty() && !library.kernel.empty()) of += ":" + library.kernel;
  const Twin::Open open_twin = [of, options](std::string* error) -> std::unique_ptr<Target> {
    TargetOptions there = options;
    there.twin.clear();
    there.backend = "cpu";
    there.lane.clear();
    there.watchdog = 0;
    try {
      std::unique_ptr<Target> twin = open(library_of(of, there), there);
      identity_line(twin->info(), there);  // refuses what is stale
      return twin;
    } catch (const UserError& e) {
      *error = e.what();
      return nullptr;
    }
  };
  target.twin = std::make_shared<Twin>(open_twin, !options.twin.empty(), calibrated_arithmetic(options));
}

}  // namespace

uint32_t measures_of(const TargetOptions& options) {
  if (options.untrusted.empty()) return 0;
  const Lane* lane = find_lane(lane_of(options));
  if (lane == nullptr || lane->sanitizer() || lane->kind == Lane::kTool) {
    throw UserError(
        "--untrusted is for the lanes plain, schedules and coverage: a sanitizer needs what it takes away");
  }
  const uint32_t measures = available_measures();
  const std::vector<std::string> lacking = lacking_words(measures);
  if (options.untrusted == "strict" && !lacking.empty()) {
    std::string text = "--untrusted=strict: this machine lacks what it needs:";
    for (const std::string& words : lacking) text += "\n  " + words;
    throw UserError(
        text +
        "\nallow Landlock (Linux 6.12, lsm=landlock) and seccomp, or say --untrusted for as much as there is");
  }
  guard_own_memory();
  return measures;
}

std::string distrust_words(const TargetOptions& options) {
  return (options.untrusted.empty()       ? ""
          : options.untrusted == "strict" ? " --untrusted=strict"
                                          : " --untrusted") +
         (options.errors.empty() ? "" : " --errors " + shell_word(options.errors));
}

std::string confinement_text(uint32_t measures) {
  std::string text;
  for (const MeasureName& m : measure_names()) {
    if (measures & m.measure) text += std::string(text.empty() ? "" : ", ") + m.name;
  }
  text = "  untrusted: confined by " + text + "\n";
  for (const std::string& words : lacking_words(measures)) text += "  NOT CONFINED: " + words + "\n";
  return text;
}

TargetOptions for_file(TargetOptions options, const Reproducer& file) {
  if (options.backend.empty()) options.backend = backend_name(file.backend);
  if (options.lane.empty()) options.lane = options.backend == "cuda" ? "plain" : file.c.lane;
  options.arithmetic = file.c.env.arithmetic;
  return options;
}

std::vector<KernelLibrary> libraries_of(const std::string& name, const TargetOptions& options) {
  std::string error;
  std::vector<KernelLibrary> libraries = find_kernels(name, wanted_by(options), &error);
  if (libraries.empty()) throw UserError(error);
  return libraries;
}

KernelLibrary library_of(const std::string& kernel, const TargetOptions& options) {
  std::string error;
  const auto library = find_kernel(kernel, wanted_by(options), &error);
  if (!library) throw UserError(error);
  return *library;
}

std::unique_ptr<Target> open(const KernelLibrary& library, const TargetOptions& options) {
  if (is_compute_sanitizer(options.lane)) {
    throw UserError("the lane " + options.lane + " confirms single cases: attnfuzz replay FILE --lane " +
                    options.lane);
  }
  WorkerOptions worker = worker_options(library);
  worker.lane = lane_of(options);
  // A library of Python may have to compile first.
  constexpr double kOfPython = 60;
  worker.watchdog = options.watchdog > 0      ? options.watchdog
                    : is_python(library.path) ? kOfPython
                                              : default_watchdog(library.backend, worker.lane);
  std::string error;
  std::unique_ptr<Target> target = open_target(worker, &error);
  if (target == nullptr) throw UserError(error);
  give_twin(*target, library, options);
  return target;
}

std::string expect_twin(Target& target, const Property& property) {
  if (&property != find_property("cpu_gpu_bits")) return "";
  if (!target.twin)
    throw UserError(std::string(property.name) +
                    " compares a GPU with the executor: give --backend cuda, or name the "
                    "kernel to compare with: --twin KERNEL");
  const Target* const twin = target.twin->get();
  const std::string why =
      twin ? cannot_be_compared(target.info(), twin->info(), target.twin->calibrated()) : target.twin->error();
  if (!why.empty()) throw UserError(std::string(property.name) + ": " + why);
  const KernelInfo& kernel = target.info();
  const bool contracted = kernel.backend == ATTN_CUDA && !kernel.build.flags.empty() &&
                          kernel.build.flags.find("-fmad=false") == std::string::npos;
  return contracted ? "  note: compiled without -fmad=false, so that nvcc has fused what the source does not: "
                      "its bits "
                      "are others (attnfuzz_add_kernel(... EXACT))\n"
                    : "";
}

std::unique_ptr<Target> open_in(const std::string& lane, const KernelLibrary& library, TargetOptions options) {
  const Lane* row = find_lane(lane);
  if (row == nullptr || row->kind != Lane::kBuilt) return nullptr;
  options.lane = lane;
  options.backend = "cpu";
  options.watchdog = 0;  // the lane's own
  std::string error;
  // One that is there and cannot be asked fails nothing, but is not to be passed over in silence.
  const auto passed_over = [&](const std::string& why) {
    std::fprintf(stderr, "attnfuzz: the lane %s is left out: %s\n", lane.c_str(),
                 printable(why, why.size()).c_str());
    return nullptr;
  };
  // Of a plug-in that beside the plain library.
  const auto there = find_kernel(library.name, wanted_by(options), &error);
  if (!there && in_lane(library.path, lane) == library.path) return nullptr;  // it is not built for it
  if (!there) return passed_over(error);
  std::unique_ptr<Target> target;
  try {
    target = open(*there, options);
  } catch (const UserError& e) {
    return passed_over(e.what());
  }
  if (!options.allow_stale && freshness(target->info()).freshness == Freshness::kStale)
    return passed_over(target->info().library + " is not of the sources as they are: build it anew");
  return target;
}

void put_oracle(Target& target, const TargetOptions& options, bool all) {
  if (options.oracle != "cuda") return;
  std::string why;
  std::unique_ptr<FastOracle> oracle = open_cuda_oracle(&why, all ? 0 : kWorthIt);
  if (!oracle) throw UserError(why);
  target.oracles = std::make_shared<Oracles>(std::move(oracle), 1, all ? 1 : 100);
}

Screening* screening_of(Target& target, const TargetOptions& options) {
  if (options.batch == 0) return nullptr;
  auto* screening = dynamic_cast<Screening*>(&target);
  const std::string why = screening ? screening->why_no_screen() : "its worker has none";
  if (!why.empty())
    throw UserError("--batch: " + target.info().name + " has no screen: " + why +
                    "; give --backend cuda, or leave --batch out");
  return screening;
}

namespace {

Calibration device_calibration(const KernelInfo& kernel, const TargetOptions& options) {
  if (!options.calibration.empty()) {
    std::string error;
    Calibration calibration = read_calibration(options.calibration, &error);
    if (!error.empty()) throw UserError(error);
    return calibration;
  }
  if (kernel.backend == ATTN_CPU) return arithmetic_table(options.arithmetic);
  return kernel.device.find("H200") != std::string::npos ? h200() : documented();
}

}  // namespace

Calibration calibration_for(const KernelInfo& kernel, const TargetOptions& options) {
  Calibration calibration = device_calibration(kernel, options);
  if (!options.errors.empty()) {
    calibration.ceiling = parse_errors(options.errors);
  } else if (!options.untrusted.empty()) {
    calibration.ceiling = documented_ceiling();
  }
  return calibration;
}

double parse_duration(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit(end, text.data() + text.size());
  const double scale = unit.empty() || unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  if (error != std::errc() || scale == 0 || !(value > 0) || value > 1e9) {
    throw UserError("'" + text + "' is not a duration: write 30s, 5m or 2h");
  }
  return value * scale;
}

const Property& property_named(const std::string& name) {
  if (const Property* property = find_property(name)) return *property;
  throw UserError(is_property()(name));
}

void write_to(const std::string& path, const std::string& text) {
  if (path == "-") {
    std::fwrite(text.data(), 1, text.size(), stdout);
  } else {
    write_file(path, text);
  }
}

ResultsApart::ResultsApart(std::initializer_list<std::string> paths) {
  if (std::ranges::find(paths, "-") == paths.end()) return;
  std::fflush(stdout);
  stdout_ = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  if (stdout_ >= 0) ::dup2(STDERR_FILENO, STDOUT_FILENO);
}

ResultsApart::~ResultsApart() {
  if (stdout_ < 0) return;
  std::fflush(stdout);
  ::dup2(stdout_, STDOUT_FILENO);
  ::close(stdout_);
}

Reproducer load_reproducer(const std::string& path) {
  auto text = read_file(path);
  if (auto* error = std::get_if<DecodeError>(&text)) throw UserError(error->message);
  Reproducer r;
  auto decoded = decode_reproducer(std::get<std::string>(text));
  auto bare = decode(std::get<std::string>(text));
  if (auto* whole = std::get_if<Reproducer>(&decoded)) {
    r = *whole;
  } else if (auto* c = std::get_if<Case>(&bare)) {
    r.c = *c;
    r.property = "reference";
  } else {
    throw UserError(path + " is neither a reproducer (" + std::get<DecodeError>(decoded).message +
                    ") nor a case (" + std::get<DecodeError>(bare).message + ")");
  }
  if (const auto why = illegal(r.c)) throw UserError(path + " holds a case that cannot be run: " + *why);
  return r;
}

std::string trusted_kernel(const Reproducer& r, const std::string& path, const std::string& named) {
  if (!named.empty()) return named;
  if (r.kernel.empty()) throw UserError(path + " names no kernel: say which with --kernel");
  if (!is_plug_in(r.kernel)) return r.kernel;
  throw UserError(path + " names a library, and what it holds would be run: if you trust it, say --kernel " +
                  shell_word(r.kernel));
}

std::string trusted_twin(const Reproducer& r, const std::string& path, const std::string& named) {
  if (!named.empty() || !is_plug_in(r.twin)) return named.empty() ? r.twin : named;
  throw UserError(path +
                  " names a library to compare with, and what that holds would be run: if you trust it, say "
                  "--twin " +
                  shell_word(r.twin));
}

std::string identity_line(const KernelInfo& kernel, const TargetOptions& options) {
  const FreshnessReply reply = freshness(kernel);
  if (reply.freshness == Freshness::kStale && !options.allow_stale) {
    throw UserError(kernel.library + " is stale: " + reply.message +
                    ", or judge it as it is with --allow-stale");
  }
  std::string line = kernel.name + " (" + backend_name(kernel.backend) + ", " + kernel.lane + "), build ";
  line += kernel.build.hash.empty() ? "unknown" : kernel.build.hash.substr(0, 12);
  switch (reply.freshness) {
    case Freshness::kFresh:
      line += ", as in the tree";
      break;
    case Freshness::kStale:
      line += ", STALE: " + reply.message;
      break;
    case Freshness::kNoTree:
      line += ", its tree is not here";
      break;
    case Freshness::kUnknown:
      line += ", it does not say what it was built from";
      break;
  }
  if (!kernel.device.empty()) line += ", " + kernel.device;
  return printable(line);
}

}  // namespace attnfuzz
