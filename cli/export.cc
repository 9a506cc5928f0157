// attnfuzz export: a finding as one C++ or Python file, for the one who gets the bug report.
#include "properties/export/export.h"

#include <cstdio>
#include <filesystem>

#include "cli/session.h"
#include "properties/case/words.h"

namespace attnfuzz {
namespace {

struct Arguments {
  std::string file, kernel, out;
  bool cpp = false, python = false;
  TargetOptions target;
};

Exit run(const Arguments& arguments) {
  if (arguments.cpp == arguments.python) throw UserError("say which: --cpp or --python");
  Reproducer r = load_reproducer(arguments.file);
  r.kernel = trusted_kernel(r, arguments.file, arguments.kernel);
  property_named(r.property);
  const TargetOptions options = for_file(arguments.target, r);
  const std::unique_ptr<Target> target = open(library_of(r.kernel, options), options);
  identity_line(target->info(), options);  // refuses a stale library
  const auto prepared = prepare_export(r, *target, calibration_for(target->info(), options));
  if (const auto* why = std::get_if<std::string>(&prepared)) throw UserError(arguments.file + ": " + *why);
  const Export& e = std::get<Export>(prepared);

  const bool to_file = !arguments.out.empty() && arguments.out != "-";
  const std::string name = to_file ? std::filesystem::path(arguments.out).filename().string()
                                   : std::string(arguments.cpp ? "finding.cc" : "finding.py");
  const std::string text = arguments.cpp ? export_cpp(e, name) : export_python(e, name);
  if (to_file) {
    write_file(arguments.out, text);
  } else {
    std::fwrite(text.data(), 1, text.size(), stdout);
  }
  if (!e.fails)
    std::fprintf(stderr, "attnfuzz: note: %s does not fail here with this kernel\n", arguments.file.c_str());
  if (!(e.c == r.c))
    std::fprintf(stderr, "attnfuzz: note: exported is the variant of the case that fails: %s\n",
                 describe(e.c).c_str());
  return kHeld;
}

}  // namespace

void add_export(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("export", "Writes a finding as one C++ or Python file that shows it without attnfuzz");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("file", arguments->file, "NAME.attn.json, or a case")
      ->required()
      ->check(CLI::ExistingFile);
  command->add_flag("--cpp", arguments->cpp, "a C++17 file that needs kernels/attention.h alone");
  command->add_flag("--python", arguments->python, "a Python script that needs NumPy alone");
  command->add_option("-o,--out", arguments->out, "file to write (default: standard output)");
  command->add_option("--kernel", arguments->kernel, "another kernel than the file's, by name or path");
  add_target_options(*command, arguments->target);
  command->callback([&action, arguments] { action = [arguments] { return run(*arguments); }; });
}

}  // namespace attnfuzz
