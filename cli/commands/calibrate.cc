// attnfuzz calibrate: measures a back end and writes the table from which bounds are computed. The programs
// attnfuzz-calibrate-cpu and -cuda, in the folder of this command, measure (reference/calibrate).
#include <sys/wait.h>

#include <cctype>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "base/subprocess.h"
#include "cli/options/command.h"
#include "cli/options/help.h"
#include "cli/terminal/terminal.h"
#include "reference/model/calibration.h"
#include "reference/model/device_arithmetic.h"

namespace attnfuzz {
namespace {

struct CalibrateArguments {
  std::string backend = "cpu", out, raw, arithmetic;
  int64_t stride = 0, random = 0;  // 0: the program's own default
  bool bits = false;
  int64_t products = 0;  // 0: as many as the back end can do in about a second
};

// "NVIDIA H200" -> "h200"
std::string device_short_name(const std::string& device) {
  std::string name;
  const std::string vendor = "NVIDIA ";
  for (const char c : device.starts_with(vendor) ? device.substr(vendor.size()) : device) {
    name += std::isalnum(static_cast<unsigned char>(c))
                ? static_cast<char>(std::tolower(static_cast<unsigned char>(c)))
                : '-';
  }
  return name;
}

// The documented classes, with the measured values in place of the documented ones.
Calibration make_calibration(const Json& measured, const std::string& backend) {
  const int64_t stride = measured.at("stride");
  Json table = json_of(calibration_text(documented()));
  for (const auto& [key, value] : measured.at("table").items()) table[key] = value;
  table["device"] = measured.at("device");
  table["name"] = backend == "cpu" ? "executor" : device_short_name(measured.at("device"));
  table["measured"] = stride == 1;
  std::string inputs = "all 2^32 inputs";
  if (stride > 1) inputs = "one in " + std::to_string(stride) + " of all 2^32 inputs";
  table["origin"] = "attnfuzz calibrate: ex2, lg2, rcp and tanhf at " + inputs +
                    ", mma by probes and random sums; the rest as documented";
  std::string error;
  const Calibration calibration = parse_calibration(json_text(table), &error);
  if (!error.empty()) throw std::runtime_error(error);
  return calibration;
}

void print_functions(const Json& measured) {
  const Json known = json_of(calibration_text(documented()));
  emit("  {:12} {:>12} {:>12}   in units of 2^-24\n", "", "measured", "documented");
  for (const auto& [key, value] : measured.at("table").items()) {
    emit("  {:12} {:12.5g} {:12.5g}\n", key, value.get<double>(), known.at(key).get<double>());
  }
  emit("\n");
  for (const auto& [name, f] : measured.at("functions").items()) {
    const auto fate = [](uint64_t gone, uint64_t kept, const char* gone_word) -> std::string {
      if (gone == 0 && kept == 0) return "none";
      return kept == 0 ? gone_word : gone == 0 ? "kept" : "some kept, some " + std::string(gone_word);
    };
    const Json &in = f.at("subnormal_inputs"), &out = f.at("subnormal_results");
    emit("  {:5} worst at {}; subnormal inputs: {}; subnormal results: {}\n", name,
         f.at("relative_at").get<std::string>(), fate(in.at("taken_for_zero"), in.at("kept"), "taken for 0"),
         fate(out.at("flushed"), out.at("kept"), "flushed to 0"));
  }
}

void print_products(const Json& measured) {
  for (const Json& f : measured.at("products")) {
    const int block = f.at("block");
    const std::string blocks =
        block == 1 ? "one product after the other" : "blocks of " + std::to_string(block);
    emit(
        "  mma {:4} seed {}: {}, sums rounded to {}, {} bits kept below the largest term's last; "
        "mean error {:+.3f}\n",
        f.at("format").get<std::string>(), f.at("rounding_seed").get<uint64_t>(), blocks,
        f.at("rounding").get<std::string>(), f.at("alignment_bits").get<int>(), f.at("bias").get<double>());
  }
}

// The calibration of a device whose results equal a model's bit for bit: the documented classes, and the
// model's name.
Calibration calibration_by_bits(const Json& compared) {
  Calibration calibration = documented();
  calibration.device = compared.at("device");
  calibration.name = device_short_name(calibration.device);
  calibration.origin =
      "attnfuzz calibrate --bits: no bit of functions and products differs; errors as documented";
  calibration.arithmetic = *arithmetic_named(compared.at("arithmetic").get<std::string>());
  return calibration;
}

// Prints how much was compared, and how much of it differs.
Exit print_bits(const Json& compared) {
  const std::string model = compared.at("arithmetic");
  emit("bits of {}, beside the model {}\n  {:28} {:>14} {:>14}\n", compared.at("device").get<std::string>(),
       arithmetic_words(*arithmetic_named(model)), "", "compared", "differ");
  bool differs = false;
  for (const Json& one : compared.at("bits")) {
    const auto count = [&](const char* key) { return one.at(key).get<uint64_t>(); };
    emit("  {:28} {:14} {:14}", one.at("what").get<std::string>(), count("compared"), count("differ"));
    if (count("differ") > 0) {
      differs = true;
      emit("   first at {}: {}, expected {}", count("first"), one.at("got").get<std::string>(),
           one.at("expected").get<std::string>());
    }
    emit("\n");
  }
  return differs ? kFound : kPassed;
}

Exit calibrate(const CalibrateArguments& arguments) {
  const auto here = program_folder();
  const std::string program = (here / ("attnfuzz-calibrate-" + arguments.backend)).string();
  if (!std::filesystem::exists(program)) {
    throw UserError("there is no " + program + ": build the target attnfuzz-calibrate-" + arguments.backend +
                    (arguments.backend == "cuda" ? " (it needs the CUDA toolkit)" : ""));
  }
  if (arguments.bits && !arguments.out.empty() && arguments.backend == "cpu")
    throw UserError("--bits --out says what a GPU has shown: the executor is the model; give --backend cuda");
  std::vector<std::string> command = {program};
  if (arguments.stride > 0) command.insert(command.end(), {"--stride", std::to_string(arguments.stride)});
  if (arguments.random > 0) command.insert(command.end(), {"--random", std::to_string(arguments.random)});
  // This takes a tenth of a second on one CPU core, and a second on a GPU.
  const int64_t quickly = arguments.backend == "cpu" ? 1 : 100'000'000;
  const int64_t products = arguments.products > 0 ? arguments.products : quickly;
  if (arguments.bits) command.insert(command.end(), {"--bits", std::to_string(products)});
  if (!arguments.arithmetic.empty()) command.insert(command.end(), {"--arithmetic", arguments.arithmetic});
  const Ran ran = run_program(command, {.take_output = true});
  if (!WIFEXITED(ran.status) || WEXITSTATUS(ran.status) > 1) {
    throw UserError(program + " could not measure: see its message above");
  }

  const Json measured = json_of(ran.output);
  if (arguments.bits) {
    if (!arguments.raw.empty()) write_file(arguments.raw, ran.output);
    const Exit exit = print_bits(measured);
    if (exit == kPassed && !arguments.out.empty())
      write_file(arguments.out, calibration_text(calibration_by_bits(measured)));
    return exit;
  }
  const Calibration calibration = make_calibration(measured, arguments.backend);
  emit("calibration '{}' of {}\n  {}\n\n", calibration.name, calibration.device, calibration.origin);
  print_functions(measured);
  print_products(measured);
  const Json& objections = measured.at("objections");
  for (const Json& objection : objections) emit("  OBJECTION: {}\n", objection.get<std::string>());

  if (!arguments.out.empty()) write_file(arguments.out, calibration_text(calibration));
  if (!arguments.raw.empty()) write_file(arguments.raw, ran.output);
  return objections.empty() ? kPassed : kFound;
}

}  // namespace

void add_calibrate(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "calibrate", "Measures how wrong a back end's instructions are: the table that bounds are made from");
  const auto arguments = std::make_shared<CalibrateArguments>();
  command->add_option("--backend", arguments->backend, "cpu (the executor) or cuda")
      ->check(one_of("back end", {"cpu", "cuda"}))
      ->capture_default_str();
  command
      ->add_option(
          "--stride", arguments->stride,
          "try each N-th of a function's 2^32 inputs (default: cpu 3, cuda 1); only 1 gives a full calibration")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30));
  command->add_option("--random", arguments->random, "random mma of 128 sums each (default 4000)")
      ->check(CLI::Range(1, 1000000));
  CLI::Option* bits = command->add_flag("--bits", arguments->bits,
                                        "instead: compare functions and products bit for bit with the model of "
                                        "that GPU (docs/how-it-works/executor.md)");
  command
      ->add_option("--arithmetic", arguments->arithmetic,
                   "the model (default: by the GPU's name; for the executor device:h200)")
      ->check(one_of("arithmetic", {std::begin(kArithmeticNames), std::end(kArithmeticNames)}))
      ->needs(bits);
  command->add_option("--products", arguments->products, "blocks of products to compare, of each kind")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->needs(bits);
  command->add_option("--out", arguments->out,
                      "write the table to this file, for --calibration; with --bits only if no bit differs");
  command->add_option("--json", arguments->raw, "write everything that was measured to this file");
  add_footer(*command, "attnfuzz calibrate --backend cuda --out my-gpu.json",
             {"it was measured", "what was measured contradicts what is documented (OBJECTION), or bits differ",
              kBadUseStatus});
  command->callback([&action, arguments] { action = [arguments] { return calibrate(*arguments); }; });
}

}  // namespace attnfuzz
