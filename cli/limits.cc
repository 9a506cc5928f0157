// attnfuzz limits: what a kernel takes, found out by asking its plan(), as a declaration to paste.
#include <cstdio>

#include "cli/help.h"
#include "cli/open_kernel.h"
#include "cli/terminal.h"
#include "fuzz/check/cheats.h"
#include "fuzz/check/check.h"
#include "fuzz/check/declaration.h"
#include "fuzz/check/refusals.h"
#include "properties/case/domain.h"
#include "text/printable.h"

namespace attnfuzz {
namespace {

constexpr double kOfDrawn = 0.95;

struct LimitsArguments {
  std::string kernel;
  TargetOptions target;
  int cases = 400;
};

Exit run_limits(const LimitsArguments& arguments) {
  const KernelLibrary library = library_of(arguments.kernel, arguments.target);
  const std::unique_ptr<Target> target = open(library, arguments.target);
  print(identity_line(target->info(), arguments.target) + "\n");
  // Nobody has said yet what it takes, so what it raises says that it does not.
  const AskedLate late = {.seconds = 60, .raised = true};
  CheckOptions asked;
  asked.refused = ask_for_refusals(*target, late);
  const Aim aim = aim_at(*target, asked);
  Declaration takes = declaration_of(aim.refused);
  if (const auto& declared = target->info().domain) {
    if (says_sizes(*declared)) takes.domain = *declared;
    takes.domain.dtypes = declared->dtypes;
  }
  const Taken inside = problems_taken(*target, aim, arguments.cases, late);
  const bool declared = target->info().domain.has_value();
  if (aim.refused.nothing() && !declared && inside.share() < kOfDrawn) {
    print("  no small problem was found that it takes, so there is nothing to ask from\n");
  } else {
    const std::string words = in_words(aim.refused);
    print("  refuses " + (words.empty() ? "nothing that it was asked for" : words) + "\n");
    if (declared) print("  it declares what it takes: this was asked inside of that\n");
    if (!target->info().refuses_late) std::printf("\n%s", as_c(takes).c_str());
    std::printf("\n%s\n", as_python(takes).c_str());
    const std::string terms = as_terms(takes);
    if (!terms.empty()) std::printf("\n--domain '%s'\n", terms.c_str());
  }
  std::printf("\nof %d problems drawn inside it takes %d (%.1f %%)\n", inside.of, inside.taken,
              100 * inside.share());
  for (const auto& [reason, n] : inside.reasons)
    print("  " + std::to_string(n) + ": " + printable(reason) + "\n");
  if (inside.share() >= kOfDrawn) return kHeld;
  print("these limits are not all that it has: declare what its reasons say\n");
  return kFound;
}

}  // namespace

void add_limits(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("limits", "Finds what a kernel takes, and prints it as a declaration to paste");
  const auto arguments = std::make_shared<LimitsArguments>();
  command->add_option("kernel", arguments->kernel, "a kernel by name, or a plug-in by path")->required();
  add_target_options(*command, arguments->target);
  command->add_option("--cases", arguments->cases, "problems drawn inside to see what is left")
      ->check(CLI::Range(20, 100000))
      ->capture_default_str();
  add_footer(*command, "attnfuzz limits ./libmine.so",
             {"95 % of the problems drawn inside were taken", "fewer were", kBadUseStatus});
  command->callback([&action, arguments] { action = [arguments] { return run_limits(*arguments); }; });
}

}  // namespace attnfuzz
