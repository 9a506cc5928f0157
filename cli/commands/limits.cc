// attnfuzz limits: finds out which problems a kernel takes, by calling its plan() and by running it, and prints
// a declaration to paste.
#include <fmt/format.h>

#include "base/printable.h"
#include "cli/entry/entry.h"
#include "cli/open/entry_options.h"
#include "cli/open/open_kernel.h"
#include "cli/options/help.h"
#include "cli/terminal/terminal.h"
#include "fuzz/check/check.h"
#include "fuzz/check/failure/exploits.h"
#include "fuzz/check/takes/declaration.h"
#include "fuzz/check/takes/refusals.h"
#include "fuzz/check/takes/tried.h"
#include "properties/case/features/domain.h"
#include "properties/case/words.h"
#include "properties/operations/operation.h"

namespace attnfuzz {
namespace {

constexpr double kOfDrawn = 0.95;

struct LimitsArguments {
  std::string kernel;
  TargetOptions target;
  EntryOptions entry;
  std::string out = ".";
  int cases = 400;
  bool verbose = false;
};

// Finds by running the kernel what it refuses beyond its declaration (tried.h). Returns nothing for a kernel
// that refuses in run().
std::optional<Terms> found_by_running(Target& target) {
  if (target.info().refuses_late) return std::nullopt;
  const Tried tried = try_function(target);
  if (tried.refused.empty()) return std::nullopt;
  const attn_domain declared = target.info().domain.value_or(attn_domain{});
  const std::string found = join(statements(tried, declared), "; ");
  const std::string takes = !tried.found ? "none" : found.empty() ? "all that was tried" : found;
  print("  run on " + std::to_string(tried.runs) + " small problems, it takes " + takes +
        "; elsewhere: " + elsewhere(tried) + "\n");
  const auto both = narrowed(declared, tried.domain);
  const auto* const domain = std::get_if<attn_domain>(&both);
  if (as_takes(tried.domain, declared).empty() || domain == nullptr) return std::nullopt;
  Terms terms;
  terms.domain = *domain;
  return terms;
}

Exit run_limits(LimitsArguments arguments) {
  expect_source({arguments.kernel}, arguments.entry);
  arguments.kernel = library_of_source(arguments.kernel, arguments.entry, arguments.target, arguments.out);
  const KernelLibrary library = library_of(arguments.kernel, arguments.target);
  const std::unique_ptr<Target> target = open(library, arguments.target);
  say_identity(identity_line(target->info(), arguments.target), arguments.verbose);
  // A kernel that refuses only in plan() is also run, on forward problems.
  if (!kernel_has(operations::forward, target->info().features) && !target->info().refuses_late)
    throw UserError(
        target->info().name +
        " has no forward pass, and limits asks only for forward problems: its plan() says what it refuses");
  // The function declares no limits yet, so an exception counts as a refusal.
  const AskedLate late = {.seconds = 60, .raised = true, .runs = true};
  CheckOptions asked;
  asked.terms = found_by_running(*target);
  if (asked.terms) target->terms = asked.terms->domain;
  asked.refused = ask_for_refusals(*target, late);
  const GeneratorConfig config = config_for(*target, asked);
  Declaration takes = declaration_of(config.refused);
  if (asked.terms) {
    takes.domain = asked.terms->domain;
  } else if (const auto& declared = target->info().domain) {
    if (says_sizes(*declared)) takes.domain = *declared;
    takes.domain.dtypes = declared->dtypes;
  }
  for (attn_sizes attn_domain::* size :
       {&attn_domain::batch, &attn_domain::heads_q, &attn_domain::group, &attn_domain::seq_q,
        &attn_domain::seq_k, &attn_domain::dim_qk, &attn_domain::dim_v}) {
    if ((takes.domain.*size).multiple == 1) (takes.domain.*size).multiple = 0;  // multiples of 1 limit nothing
  }
  const Taken inside = problems_taken(*target, config, arguments.cases, late);
  const bool declared = target->info().domain.has_value();
  if (config.refused.nothing() && !declared && inside.share() < kOfDrawn) {
    print("  it took none of the small problems that were tried, so its limits cannot be found\n");
  } else {
    const std::string words = in_words(config.refused);
    print("  refuses " + (words.empty() ? "nothing that it was asked for" : words) + "\n");
    if (declared) print("  it declares what it takes: only problems inside that were asked for\n");
    if (!target->info().refuses_late) emit("\n{}", as_c(takes));
    emit("\n{}\n", as_python(takes));
    const std::string terms = as_terms(takes);
    if (!terms.empty()) emit("\n--domain '{}'\n", terms);
  }
  print(fmt::format("\nof {} problems drawn inside it takes {} ({:.1f} %)\n", inside.of, inside.taken,
                    100 * inside.share()));
  constexpr size_t kReasons = 5;
  size_t shown = 0;
  for (const auto& [reason, n] : inside.reasons) {
    if (arguments.verbose || shown++ < kReasons) print(fmt::format("  {}: {}\n", n, printable(reason)));
  }
  if (shown > kReasons) print(fmt::format("  ... {} more reasons: -v prints them\n", shown - kReasons));
  if (inside.share() >= kOfDrawn) return kPassed;
  print("it has further limits: declare what its reasons say\n");
  return kFound;
}

}  // namespace

void add_limits(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("limits", "Finds what a kernel takes, and prints it as a declaration to paste");
  const auto arguments = std::make_shared<LimitsArguments>();
  command
      ->add_option("kernel", arguments->kernel,
                   "a kernel by name, a plug-in by path, or a CUDA source (mine.cu)")
      ->required();
  add_entry_options(*command, arguments->entry);
  command->add_option("--out", arguments->out, "folder that a source is built in")->capture_default_str();
  add_verbose_flag(*command, arguments->verbose, "what the library is, and all reasons of refusals");
  add_target_options(*command, arguments->target);
  command
      ->add_option("--cases", arguments->cases, "problems drawn inside the declaration, to find further limits")
      ->check(CLI::Range(20, 100000))
      ->capture_default_str();
  add_footer(*command, "attnfuzz limits ./libmine.so",
             {"95 % of the problems drawn inside were taken", "fewer were", kBadUseStatus});
  command->callback([&action, arguments] { action = [arguments] { return run_limits(*arguments); }; });
}

}  // namespace attnfuzz
