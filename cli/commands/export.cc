// attnfuzz export: writes a finding as one C++ or Python file, for a bug report.
#include "properties/export/export.h"

#include <cstdio>
#include <filesystem>

#include "base/subprocess.h"
#include "cli/open/case_file.h"
#include "cli/options/help.h"
#include "cli/terminal/results_apart.h"
#include "fuzz/host/build_kinds.h"
#include "properties/case/words.h"

namespace attnfuzz {
namespace {

struct ExportArguments : CaseArguments {
  std::string out = "-";
  bool cpp = false, python = false;
};

namespace fs = std::filesystem;

// The first of `paths` that exists; empty if none does.
std::string first_there(const std::vector<fs::path>& paths) {
  for (const fs::path& path : paths) {
    if (std::error_code none; fs::exists(path, none)) return path.lexically_normal();
  }
  return "";
}

// Finds the files that a program needs in addition to the kernel's library. Looks first where the program
// itself will look, then in the folder of this command's installation.
void find_places(Places& places) {
  const fs::path home = program_folder().parent_path(), beside = fs::path(places.library).parent_path();
  const char* executor = "libattnfuzz-executor.so";
  places.executor = first_there({beside / executor, beside / ".." / "lib" / executor, home / "lib" / executor});
  const fs::path include = home / "include" / "attnfuzz";
  if (!first_there({include / "kernels" / "attention.h"}).empty()) places.include = include;
}

// An exported program has no sanitizer runtime and no coverage counter. So it uses the plain library, unless
// --build says otherwise.
OpenedCase open_plainly(ExportArguments arguments) {
  const std::string build_kind = load_reproducer(arguments.file).c.build_kind;
  const BuildKind* const row = find_build_kind(build_kind);
  const bool built_apart = row != nullptr && row->kind == BuildKind::kBuilt;
  if (arguments.target.build_kind.empty() && built_apart) {
    arguments.target.build_kind = "plain";
    std::fprintf(stderr, "attnfuzz: note: found in the build %s; the program takes the plain library\n",
                 build_kind.c_str());
  }
  return open_case(arguments);
}

Exit run_export(const ExportArguments& arguments) {
  if (arguments.cpp == arguments.python) throw UserError("say which: --cpp or --python");
  const OpenedCase opened = open_plainly(arguments);
  auto prepared = prepare_export(opened.r, *opened.target, opened.calibration);
  if (const auto* why = std::get_if<std::string>(&prepared)) throw UserError(arguments.file + ": " + *why);
  Export& e = std::get<Export>(prepared);
  if (arguments.cpp && e.is_python)
    throw UserError(e.places.library + " is Python, which no C++ program calls: say --python");
  find_places(e.places);

  std::string name = std::filesystem::path(arguments.out).filename().string();
  if (arguments.out == "-") name = arguments.cpp ? "finding.cc" : "finding.py";
  write_to(arguments.out, arguments.cpp ? export_cpp(e, name) : export_python(e, name));
  if (!e.fails)
    std::fprintf(stderr, "attnfuzz: note: %s does not fail here with this kernel\n", arguments.file.c_str());
  if (!(e.c == opened.r.c))
    std::fprintf(stderr, "attnfuzz: note: the program has the variant of the case that fails: %s\n",
                 describe(e.c).c_str());
  return kPassed;
}

}  // namespace

void add_export(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("export", "Writes a finding as one C++ or Python file that shows it without attnfuzz");
  const auto arguments = std::make_shared<ExportArguments>();
  add_case_arguments(*command, *arguments);
  command->add_flag("--cpp", arguments->cpp,
                    "a C++17 file that needs only kernels/attention.h; the comment at its top names the paths "
                    "that worked here");
  command->add_flag("--python", arguments->python,
                    "a Python script that needs only NumPy; if a Python function failed, it imports the "
                    "function from its file");
  command->add_option("-o,--out", arguments->out, "file to write, - for standard output")
      ->capture_default_str();
  add_footer(*command, "attnfuzz export found/fa1-wrong-1a2b3c.attn.json --cpp -o finding.cc",
             {"it was written", "", kBadUseStatus});
  command->callback([&action, arguments] { action = [arguments] { return run_export(*arguments); }; });
}

}  // namespace attnfuzz
