#include "cli/open/case_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "base/printable.h"
#include "cli/open/open_kernel.h"
#include "cli/options/help.h"
#include "properties/judge/trial.h"
#include "properties/sequences/session/codec.h"

namespace attnfuzz {

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
  } else if (sequences::holds_session(std::get<std::string>(text))) {
    throw UserError(path + " holds a sequence of calls: attnfuzz sequence --replay " + shell_word(path) +
                    " KERNEL... runs it");
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

std::string trusted_peer(const Reproducer& r, const std::string& path, const std::string& named) {
  if (!named.empty() || !is_plug_in(r.peer)) return named.empty() ? r.peer : named;
  throw UserError(path +
                  " names a library to compare with, and what that holds would be run: if you trust it, say "
                  "--peer " +
                  shell_word(r.peer));
}

TargetOptions for_file(TargetOptions options, const Reproducer& file) {
  if (options.backend.empty()) options.backend = backend_name(file.backend);
  if (options.build_kind.empty()) options.build_kind = options.backend == "cuda" ? "plain" : file.c.build_kind;
  options.arithmetic = file.c.env.arithmetic;
  return options;
}

std::string fit_variant(Reproducer& r, const std::string& path, const KernelInfo& kernel) {
  if (r.c.env.variant <= static_cast<int32_t>(kernel.variants.size())) return "";
  const Json file = json_of(file_text(path));
  const Json& of_case = file.contains("case") ? file.at("case") : file;
  if (of_case.contains("env") && of_case.at("env").contains("variant")) return "";  // the kernel refuses it
  const int32_t lacking = std::exchange(r.c.env.variant, 0);
  return fmt::format(
      "  note: {} names no variant, and {} has no variant {}, so the kernel chooses (\"env\": {{\"variant\": 0}})\n",
      printable(path), printable(kernel.name), lacking);
}

void add_kernel_option(CLI::App& app, std::string& kernel) {
  app.add_option("--kernel", kernel,
                 "another kernel than the file's, by name, by path, or a CUDA source (mine.cu)");
}

CLI::Validator is_case_file() {
  return {[](const std::string& path) -> std::string {
            const bool there = std::filesystem::exists(path);
            if (there && !std::filesystem::is_directory(path)) return "";
            return printable(path) + (there ? " is a folder" : " does not exist") +
                   ": give the file of a case here, and a kernel with --kernel";
          },
          "FILE"};
}

void add_case_arguments(CLI::App& app, CaseArguments& arguments) {
  app.add_option("file", arguments.file, "NAME.attn.json, or a case")->required()->check(is_case_file());
  add_kernel_option(app, arguments.kernel);
  add_entry_options(app, arguments.entry);
  add_target_options(app, arguments.target);
  add_peer_option(app, arguments.target);
}

OpenedCase open_case(const CaseArguments& arguments) {
  Reproducer r = load_reproducer(arguments.file);
  r.kernel = trusted_kernel(r, arguments.file, arguments.kernel);
  TargetOptions options = for_file(arguments.target, r);
  options.peer = trusted_peer(r, arguments.file, options.peer);
  expect_source({r.kernel}, arguments.entry);
  r.kernel = library_of_source(r.kernel, arguments.entry, options, ".");
  const Property& property = property_named(r.property);
  std::unique_ptr<Target> target = open(library_of(r.kernel, options), options);
  if (const std::string note = fit_variant(r, arguments.file, target->info()); !note.empty()) print(note);
  if (const std::string why = other_operation(r.c, property, *target); !why.empty())
    throw UserError(arguments.file + ": " + printable(why) +
                    ": name a kernel that has the operation (--kernel)");
  std::string identity = identity_line(target->info(), options);
  if (const std::string note = expect_peer(*target, property); !note.empty()) identity += "\n" + note;
  const Calibration calibration = calibration_for(target->info(), options);
  return {std::move(r), property, std::move(target), calibration, std::move(identity)};
}

}  // namespace attnfuzz
