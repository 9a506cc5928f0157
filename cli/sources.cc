#include "cli/sources.h"

#include <algorithm>
#include <regex>

#include "cli/entry.h"
#include "cli/open_kernel.h"
#include "cli/terminal.h"
#include "fuzz/check/declaration.h"
#include "fuzz/check/refusals.h"
#include "properties/case/words.h"
#include "text/printable.h"

namespace attnfuzz {
namespace {

// Whether the user has said this field: then an answer that is none is a bug, and no limit.
bool is_said(const std::string& statement, const std::string& takes) {
  const std::string field = statement.substr(0, statement.find(' '));
  return std::regex_search(takes, std::regex("(^|;)[ .]*" + field + "\\s*="));
}

// What the kernel was found to take beside what it declares, as --takes has it; empty: nothing.
std::string takes_found(const std::string& library, const std::string& said, const TargetOptions& options) {
  constexpr double kSeconds = 20;
  const std::unique_ptr<Target> target = open(library_of(library, options), options);
  const auto& declared = target->info().domain;
  if (!declared) return "";
  const Refused refused = ask_for_refusals(*target, {.seconds = kSeconds, .raised = true, .ends = true});
  std::vector<std::string> found = as_takes(declaration_of(refused), *declared);
  std::erase_if(found, [&](const std::string& statement) { return is_said(statement, said); });
  return join(found, "; ");
}

Entry entry_of(const std::string& kernel, const SourceOptions& source, const TargetOptions& target) {
  return {.source = kernel,
          .call = source.entry,
          .takes = source.takes,
          .backend = target.backend.empty() ? "cpu" : target.backend,
          .lane = target.lane,
          .includes = source.includes};
}

std::string library_inside_its_limits(Entry entry, const TargetOptions& options, const std::string& folder) {
  const std::string library = build_entry(entry, folder);
  const std::string found = takes_found(library, entry.takes, options);
  if (found.empty()) return library;
  entry.takes += (entry.takes.empty() ? "" : "; ") + found;
  print("asked with small problems, it takes no more than: " + printable(found) +
        "\n  elsewhere it throws, aborts, fails its launch or writes nothing. To paste, or to mend: --takes '" +
        printable(entry.takes) + "'\n");
  return build_entry(entry, folder);
}

}  // namespace

void add_source_options(CLI::App& app, SourceOptions& options) {
  CLI::Option* entry = app.add_option(
      "--entry", options.entry,
      "how a source's function is called: 'launch(q, k, v, o, B, H, S, D)', of PyTorch 'o, lse = f(q, k, v)'; "
      "names: kernels/adapter.h, Args");
  app.add_option("--takes", options.takes,
                 "what it takes beyond what the call says: 'dim = one_of(32, 64); causal = Causal::kOnly'; "
                 "names: kernels/adapter/takes.h")
      ->needs(entry);
  app.add_option("--include", options.includes, "folders of its headers, beside the source's own")
      ->check(CLI::ExistingDirectory)
      ->needs(entry);
}

std::string build_source(const std::string& kernel, const SourceOptions& source, const TargetOptions& target,
                         const std::string& folder) {
  return build_entry(entry_of(kernel, source, target), folder);
}

void build_sources(std::vector<std::string>& kernels, const SourceOptions& source, const TargetOptions& target,
                   const std::string& folder) {
  if (!source.entry.empty() && !std::ranges::any_of(kernels, is_cuda_source))
    throw UserError("--entry says how the function of a CUDA source is called: name the source, mine.cu");
  for (std::string& kernel : kernels) {
    if (!is_cuda_source(kernel)) continue;
    kernel = library_inside_its_limits(entry_of(kernel, source, target), target, folder);
  }
}

}  // namespace attnfuzz
