// attnfuzz replay: runs the case of a file again.
#include <cstdio>

#include "cli/print.h"
#include "cli/session.h"

namespace attnfuzz {
namespace {

struct Arguments {
  std::vector<std::string> files;
  std::string kernel;    // instead of the file's
  std::string property;  // instead of the file's
  TargetOptions target;
  bool backend_given = false;
};

// One target a (kernel, back end), kept while files follow one another.
struct Opened {
  std::string key;
  std::unique_ptr<Target> target;
};

Exit replay(const std::string& path, const Arguments& arguments, Opened& opened) {
  Reproducer r = load_reproducer(path);
  if (!arguments.kernel.empty()) r.kernel = arguments.kernel;
  if (!arguments.property.empty()) r.property = arguments.property;
  if (r.kernel.empty()) throw UserError(path + " names no kernel: say which with --kernel");
  TargetOptions options = arguments.target;
  if (!arguments.backend_given) options.backend = backend_name(r.backend);
  const Property& property = property_named(r.property);

  const std::string key = r.kernel + " " + options.backend;
  if (opened.key != key) {
    opened.target.reset();
    opened.target = open(library_of(r.kernel, options), options);
    opened.key = key;
    std::printf("%s\n", identity_line(opened.target->info(), options).c_str());
  }
  Target& target = *opened.target;
  const KernelInfo& kernel = target.info();
  if (!r.build_hash.empty() && r.build_hash != kernel.build.hash) {
    std::printf("  note: the file was made with build %s of this kernel\n", r.build_hash.substr(0, 12).c_str());
  }
  const auto digests = LaidOut(r.c, target.arena()).digests();
  for (int i = 0; i < kTensorCount; ++i) {
    if (r.digests[i] != 0 && r.digests[i] != digests[i]) {
      throw UserError(path + ": the bytes of " + kTensorNames[i] +
                      " are not those the file was made with; it comes from another version of the fills");
    }
  }
  const Verdict verdict = judge(r.c, property, target, calibration_for(kernel, options));
  std::printf("%s: %s\n  %s", path.c_str(), describe(r.c).c_str(), verdict_text(verdict).c_str());
  std::fflush(stdout);
  return verdict.outcome == Outcome::kFail ? kFound : kHeld;
}

Exit run(const Arguments& arguments) {
  Opened opened;
  Exit status = kHeld;
  for (const std::string& file : arguments.files) {
    if (replay(file, arguments, opened) != kHeld) status = kFound;
  }
  return status;
}

}  // namespace

void add_replay(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("replay", "Runs the cases of reproducer files again");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("file", arguments->files, "NAME.attn.json")->required()->check(CLI::ExistingFile);
  command->add_option("--kernel", arguments->kernel, "another kernel than the file's, by name or path");
  command->add_option("--property", arguments->property, "another property than the file's");
  add_target_options(*command, arguments->target);
  command->callback([&action, arguments, command] {
    arguments->backend_given = command->count("--backend") > 0;
    action = [arguments] { return run(*arguments); };
  });
}

}  // namespace attnfuzz
