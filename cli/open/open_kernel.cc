#include "cli/open/open_kernel.h"

#include <cstdio>
#include <filesystem>

#include "base/printable.h"
#include "cli/open/compute_sanitizer.h"
#include "cli/options/terms.h"
#include "cli/terminal/terminal.h"
#include "fuzz/host/confinement.h"
#include "fuzz/host/freshness.h"
#include "fuzz/host/zygote.h"
#include "properties/judge/oracles.h"
#include "properties/judge/property.h"
#include "properties/judge/target/peer.h"
#include "reference/cuda/cuda_oracle.h"
#include "reference/model/arithmetic_table.h"
#include "reference/model/error_cap.h"

namespace attnfuzz {

namespace {

// The build's name may come from a file, and becomes part of a library's path, so it must be a
// known one.
std::string build_kind_of(const TargetOptions& options) {
  if (options.build_kind.empty()) return "plain";
  if (const std::string why = is_build_kind()(options.build_kind); !why.empty()) throw UserError(why);
  return options.build_kind;
}

Wanted wanted_by(const TargetOptions& options) {
  Wanted wanted = {std::nullopt, build_kind_of(options), measures_of(options)};
  if (!options.backend.empty()) wanted.backend = options.backend == "cuda" ? ATTN_CUDA : ATTN_CPU;
  return wanted;
}

// Finds the executor's build of lib/libattn_NAME_cuda.so. That is libattn_NAME_cpu.so in lib/peers, where it
// has all paths of the GPU's build; else in lib/twins, the former name of lib/peers; else in lib. Empty if
// there is none.
std::string executor_build(const std::string& library) {
  const std::filesystem::path path(library);
  const std::string ending = "_cuda.so", file = path.filename();
  if (!file.ends_with(ending)) return "";
  const std::string name = file.substr(0, file.size() - ending.size()) + "_cpu.so";
  for (const auto& there :
       {path.parent_path() / "peers" / name, path.parent_path() / "twins" / name, path.parent_path() / name}) {
    if (std::error_code none; std::filesystem::exists(there, none)) return there;
  }
  return "";
}

// The arithmetic that --calibration says the device has.
int32_t calibrated_arithmetic(const TargetOptions& options) {
  if (options.calibration.empty()) return ATTN_ARITHMETIC_ANY;
  std::string error;
  const Calibration calibration = read_calibration(options.calibration, &error);
  if (!error.empty()) throw UserError(error);
  return calibration.arithmetic;
}

void give_peer(Target& target, const KernelLibrary& library, const TargetOptions& options) {
  const bool on_gpu = library.backend == ATTN_CUDA;
  std::string of = options.peer;
  if (of.empty() && on_gpu) of = executor_build(library.path);
  if (of.empty()) return;
  if (options.peer.empty() && !library.kernel.empty()) of += ":" + library.kernel;
  const Peer::Open open_peer = [of, options](std::string* error) -> std::unique_ptr<Target> {
    TargetOptions there = options;
    there.peer.clear();
    there.backend = "cpu";
    there.build_kind.clear();
    there.watchdog = 0;
    try {
      std::unique_ptr<Target> peer = open(library_of(of, there), there);
      identity_line(peer->info(), there);  // refuses what is stale
      return peer;
    } catch (const UserError& e) {
      *error = e.what();
      return nullptr;
    }
  };
  target.peer = std::make_shared<Peer>(open_peer, !options.peer.empty(), calibrated_arithmetic(options));
}

}  // namespace

uint32_t measures_of(const TargetOptions& options) {
  if (options.untrusted.empty()) return 0;
  const BuildKind* build_kind = find_build_kind(build_kind_of(options));
  if (build_kind == nullptr || build_kind->sanitizer() || build_kind->kind == BuildKind::kTool) {
    throw UserError(
        "--untrusted is for the builds plain, schedules and coverage: a sanitizer needs what confinement takes "
        "away");
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

std::string confinement_text(uint32_t measures) {
  std::string text;
  for (const MeasureName& m : measure_names()) {
    if (measures & m.measure) text += std::string(text.empty() ? "" : ", ") + m.name;
  }
  text = "  untrusted: confined by " + text + "\n";
  for (const std::string& words : lacking_words(measures)) text += "  NOT CONFINED: " + words + "\n";
  return text;
}

namespace {

void tell_left_out(const std::string& name, const KernelLibrary& library) {
  if (library.left_out.empty()) return;
  const bool cuda = library.backend == ATTN_CPU;
  std::string text =
      printable(name, 200) + " has " + (cuda ? "CUDA" : "CPU") + " kernels too, which are left out:";
  for (const std::string& kernel : library.left_out) text += " " + kernel;
  std::fprintf(stderr, "attnfuzz: %s; --backend %s takes them\n", text.c_str(), cuda ? "cuda" : "cpu");
}

}  // namespace

std::vector<KernelLibrary> libraries_of(const std::string& name, const TargetOptions& options) {
  std::string error;
  std::vector<KernelLibrary> libraries = find_kernels(name, wanted_by(options), &error);
  if (libraries.empty()) throw UserError(error);
  tell_left_out(name, libraries.front());
  return libraries;
}

KernelLibrary library_of(const std::string& kernel, const TargetOptions& options) {
  std::string error;
  const auto library = find_kernel(kernel, wanted_by(options), &error);
  if (!library) throw UserError(error);
  tell_left_out(kernel, *library);
  return *library;
}

std::unique_ptr<Target> open(const KernelLibrary& library, const TargetOptions& options) {
  if (is_compute_sanitizer(options.build_kind)) {
    throw UserError("the build " + options.build_kind +
                    " confirms single cases: attnfuzz replay FILE --build " + options.build_kind);
  }
  WorkerOptions worker = worker_options(library);
  worker.build_kind = build_kind_of(options);
  // A kernel in Python may have to compile first.
  constexpr double kOfPython = 60;
  worker.watchdog = options.watchdog > 0      ? options.watchdog
                    : is_python(library.path) ? kOfPython
                                              : default_watchdog(library.backend, worker.build_kind);
  std::string error;
  std::unique_ptr<Target> target = open_target(worker, &error);
  if (target == nullptr) throw UserError(error);
  if (target->info().cache != CacheKind::kNone && !options.classes)
    throw UserError(printable(target->info().name) +
                    " is a class, which makes calls in sequences: attnfuzz sequence " +
                    printable(library.path) + ":" + printable(target->info().name));
  give_peer(*target, library, options);
  return target;
}

std::string expect_peer(Target& target, const Property& property) {
  if (&property != find_property("cpu_gpu_bits")) return "";
  if (!target.peer)
    throw UserError(std::string(property.name) +
                    " compares a GPU with the executor: give --backend cuda, or name the "
                    "kernel to compare with: --peer KERNEL");
  const Target* const peer = target.peer->get();
  const std::string why =
      peer ? cannot_be_compared(target.info(), peer->info(), target.peer->calibrated()) : target.peer->error();
  if (!why.empty()) throw UserError(std::string(property.name) + ": " + why);
  const KernelInfo& kernel = target.info();
  const bool contracted = kernel.backend == ATTN_CUDA && !kernel.build.flags.empty() &&
                          kernel.build.flags.find("-fmad=false") == std::string::npos;
  return contracted ? "  note: compiled without -fmad=false, so nvcc may fuse what the source does not, and "
                      "its bits may differ (attnfuzz_add_kernel(... EXACT))\n"
                    : "";
}

std::unique_ptr<Target> open_in(const std::string& build_kind, const KernelLibrary& library,
                                const BuildInfo& build, TargetOptions options) {
  const BuildKind* row = find_build_kind(build_kind);
  if (row == nullptr || row->kind != BuildKind::kBuilt) return nullptr;
  options.build_kind = build_kind;
  options.backend = "cpu";
  options.watchdog = 0;  // the build's own
  std::string error;
  // A build that exists but cannot run does not fail the check, but it is reported.
  const auto passed_over = [&](const std::string& why) {
    std::fprintf(stderr, "attnfuzz: the build %s is left out: %s\n", build_kind.c_str(),
                 printable(why, why.size()).c_str());
    return nullptr;
  };
  // The library of the build lies beside a plug-in's plain one.
  const auto there = find_kernel(library.name, wanted_by(options), &error);
  if (!there && in_build(library.path, build_kind) == library.path) return nullptr;  // there is no such build
  if (!there) return passed_over(error);
  std::unique_ptr<Target> target;
  try {
    target = open(*there, options);
  } catch (const UserError& e) {
    return passed_over(e.what());
  }
  if (const auto why = stale(target->info()); why && !options.allow_stale)
    return passed_over(target->info().library + " is stale: " + *why);
  if (const auto file = built_differently(build, target->info().build); file && !options.allow_stale)
    return passed_over(target->info().library + " was built of another " + *file + " than " + library.path +
                       ": build it anew");
  return target;
}

void put_oracle(Target& target, const TargetOptions& options, bool all) {
  if (options.oracle != "cuda") return;
  std::string why;
  std::unique_ptr<FastOracle> oracle = open_cuda_oracle(&why, all ? 0 : kWorthIt);
  if (!oracle) throw UserError(why);
  target.oracles = std::make_shared<Oracles>(std::move(oracle), 1, all ? 1 : 100);
}

BatchTarget* batch_target_of(Target& target, const TargetOptions& options) {
  if (options.batch == 0) return nullptr;
  auto* batch_target = dynamic_cast<BatchTarget*>(&target);
  const std::string why = batch_target ? batch_target->why_no_batch() : "its worker cannot judge any";
  if (!why.empty())
    throw UserError("--batch: " + target.info().name + " judges no batches: " + why +
                    "; give --backend cuda, or leave --batch out");
  return batch_target;
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
  return device_table(kernel.device);
}

}  // namespace

Calibration calibration_for(const KernelInfo& kernel, const TargetOptions& options) {
  Calibration calibration = device_calibration(kernel, options);
  if (!options.errors.empty()) {
    calibration.error_cap = parse_errors(options.errors);
  } else if (!options.untrusted.empty()) {
    calibration.error_cap = documented_cap();
  }
  return calibration;
}

void say_identity(const std::string& line, bool verbose) {
  if (verbose || line.find("STALE") != line.npos) print(line + "\n");
}

std::string identity_line(const KernelInfo& kernel, const TargetOptions& options) {
  // An untrusted library names its own source files. Reading them here would read any file that it
  // names, outside of its confinement.
  const FreshnessReply reply =
      options.untrusted.empty() ? freshness(kernel) : FreshnessReply{Freshness::kNotAsked, ""};
  if (reply.freshness == Freshness::kStale && !options.allow_stale) {
    throw UserError(kernel.library + " is stale: " + reply.message +
                    ", or judge it as it is with --allow-stale");
  }
  std::string line = kernel.name + " (" + backend_name(kernel.backend) + ", " + kernel.build_kind + "), build ";
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
    case Freshness::kNotAsked:
      line += ", not compared with its sources";
      break;
  }
  if (!kernel.device.empty()) line += ", " + kernel.device;
  return printable(line);
}

}  // namespace attnfuzz
