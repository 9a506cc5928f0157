#include "cli/options/options.h"

#include <charconv>
#include <cmath>

#include "base/printable.h"
#include "cli/options/help.h"
#include "fuzz/batch/batch_judge.h"
#include "fuzz/host/build_kinds.h"
#include "fuzz/host/kernel_registry.h"
#include "properties/judge/property.h"

namespace attnfuzz {

const std::vector<std::string>& build_kind_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const BuildKind& build_kind : build_kinds()) all.push_back(build_kind.name);
    return all;
  }();
  return names;
}

CLI::Validator is_backend() { return one_of("back end", {"cpu", "cuda"}); }
CLI::Validator is_build_kind() { return one_of("build", build_kind_names()); }
CLI::Validator is_property() {
  std::vector<std::string> names;
  for (const Property* property : all_properties()) names.emplace_back(property->name);
  const CLI::Validator known = one_of("property", names);
  return {[known](std::string& given) -> std::string {
            const Property* of_old = find_property(given);  // also finds a property by an older name
            if (of_old != nullptr) given = of_old->name;
            return known(given);
          },
          known.get_description()};
}

void add_calibration_option(CLI::App& app, TargetOptions& options) {
  app.add_option("--calibration", options.calibration, "table of the device's errors, from attnfuzz calibrate")
      ->check(CLI::ExistingFile);
}

void add_watchdog_option(CLI::App& app, TargetOptions& options) {
  const auto of = [](double seconds) { return std::to_string(std::lround(seconds)); };
  std::string sanitizers;
  for (const BuildKind& build_kind : build_kinds()) {
    if (build_kind.sanitizer()) sanitizers = of(build_kind.watchdog);
  }
  app.add_option("--watchdog", options.watchdog,
                 "seconds that one plan or run may take, and more for much work: processor time (default: " +
                     of(default_watchdog(ATTN_CPU, "plain")) + ", in a sanitizer's build " + sanitizers +
                     "), clock time on a GPU (default: " + of(default_watchdog(ATTN_CUDA, "plain")) + ")")
      ->check(CLI::Range(0.01, 86400.0));
}

void add_stale_flag(CLI::App& app, TargetOptions& options) {
  app.add_flag("--allow-stale", options.allow_stale,
               "run a library whose sources have changed since it was built");
}

void add_verbose_flag(CLI::App& app, bool& verbose, const std::string& what) {
  app.add_flag("-v,--verbose", verbose, "print more: " + what);
}

void add_oracle_option(CLI::App& app, TargetOptions& options, const std::string& then) {
  app.add_option("--oracle", options.oracle, "cpu, or cuda: on a GPU, in double; " + then)
      ->check(one_of("oracle", {"cpu", "cuda"}))
      ->capture_default_str();
}

void add_batch_option(CLI::App& app, TargetOptions& options) {
  app.add_option(
         "--batch", options.batch,
         "cases that are made, run and judged together on the GPU, in the kernel's own process; what is "
         "wrong there, and one case in a hundred (of large ones in a thousand), is judged one by one by the "
         "CPU's oracle; 0: none")
      ->check(CLI::Range(0u, batch::kMostCalls))
      ->capture_default_str();
}

void add_device_options(CLI::App& app, int64_t& device_work, int& own_workers, const char* name_of_workers) {
  app.add_option(
         "--device-work", device_work,
         "with --batch: multiply-adds that a case with a long row may cost; one case in ten has one, of 1,024 "
         "to 131,072 keys; 0: none")
      ->needs("--batch")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 31))
      ->capture_default_str();
  app.add_option(name_of_workers, own_workers,
                 "with --batch: workers of each process for the cases that no batch judges; 0: these delay "
                 "the batches")
      ->needs("--batch")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
}

void add_background_option(CLI::App& app, TargetOptions& options) {
  app.add_option("--background,--beside", options.background,
                 "threads, with a worker each, that judge one case in a hundred of a batch while the GPU "
                 "continues; 0: none")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
}

void add_untrusted_flag(CLI::App& app, TargetOptions& options) {
  app.add_flag("--untrusted{available}", options.untrusted,
               "the kernel is not trusted: its worker is confined as far as this machine can, and what it "
               "declares loosens no bound; --untrusted=strict: refused if a means of confinement is missing")
      ->check(one_of("way to distrust a kernel", {"available", "strict"}));
  app.add_option("--errors", options.errors,
                 "the loosest rounding that its plans may claim: 'p=input accumulator=tensor merges=8' "
                 "(docs/untrusted.md)");
}

void add_peer_option(CLI::App& app, TargetOptions& options) {
  app.add_option(
      "--peer,--twin", options.peer,
      "for the property cpu_gpu_bits: the kernel whose bits it must have (default: for a kernel on a GPU its "
      "build for the executor, in that GPU's arithmetic)");
}

void add_target_options(CLI::App& app, TargetOptions& options) {
  add_untrusted_flag(app, options);
  app.add_option("--backend", options.backend, "cpu (the executor) or cuda; default: cpu, or a plug-in's own")
      ->check(is_backend());
  app.add_option("--build,--lane", options.build_kind, "how the kernel is built and run: see attnfuzz list")
      ->check(is_build_kind())
      ->capture_default_str();
  add_calibration_option(app, options);
  add_watchdog_option(app, options);
  add_stale_flag(app, options);
}

std::string distrust_words(const TargetOptions& options) {
  return (options.untrusted.empty()       ? ""
          : options.untrusted == "strict" ? " --untrusted=strict"
                                          : " --untrusted") +
         (options.errors.empty() ? "" : " --errors " + shell_word(options.errors));
}

const Property& property_named(const std::string& name) {
  if (const Property* property = find_property(name)) return *property;
  throw UserError(is_property()(name));
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

}  // namespace attnfuzz
