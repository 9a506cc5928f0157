// attnfuzz export: a finding as one C++ or Python file, for the one who gets the bug report.
#include "properties/export/export.h"

#include <cstdio>
#include <filesystem>

#include "cli/case_file.h"
#include "cli/help.h"
#include "cli/results_apart.h"
#include "properties/case/words.h"

namespace attnfuzz {
namespace {

struct ExportArguments : CaseArguments {
  std::string out = "-";
  bool cpp = false, python = false;
};

Exit run_export(const ExportArguments& arguments) {
  if (arguments.cpp == arguments.python) throw UserError("say which: --cpp or --python");
  const OpenedCase opened = open_case(arguments);
  const auto prepared = prepare_export(opened.r, *opened.target, opened.calibration);
  if (const auto* why = std::get_if<std::string>(&prepared)) throw UserError(arguments.file + ": " + *why);
  const Export& e = std::get<Export>(prepared);

  std::string name = std::filesystem::path(arguments.out).filename().string();
  if (arguments.out == "-") name = arguments.cpp ? "finding.cc" : "finding.py";
  write_to(arguments.out, arguments.cpp ? export_cpp(e, name) : export_python(e, name));
  if (!e.fails)
    std::fprintf(stderr, "attnfuzz: note: %s does not fail here with this kernel\n", arguments.file.c_str());
  if (!(e.c == opened.r.c))
    std::fprintf(stderr, "attnfuzz: note: exported is the variant of the case that fails: %s\n",
                 describe(e.c).c_str());
  return kHeld;
}

}  // namespace

void add_export(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("export", "Writes a finding as one C++ or Python file that shows it without attnfuzz");
  const auto arguments = std::make_shared<ExportArguments>();
  add_case_arguments(*command, *arguments);
  command->add_flag("--cpp", arguments->cpp, "a C++17 file that needs kernels/attention.h alone");
  command->add_flag("--python", arguments->python, "a Python script that needs NumPy alone");
  command->add_option("-o,--out", arguments->out, "file to write, - for standard output")
      ->capture_default_str();
  add_footer(*command, "attnfuzz export found/fa1-wrong-1a2b3c.attn.json --cpp -o finding.cc",
             {"it was written", "", kBadUseStatus});
  command->callback([&action, arguments] { action = [arguments] { return run_export(*arguments); }; });
}

}  // namespace attnfuzz
