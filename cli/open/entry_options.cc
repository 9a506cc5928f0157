#include "cli/open/entry_options.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <variant>

#include "base/files.h"
#include "base/json.h"
#include "cli/entry/entry.h"
#include "cli/open/open_kernel.h"
#include "cli/options/terms.h"
#include "cli/terminal/terminal.h"
#include "fuzz/check/takes/declaration.h"
#include "fuzz/check/takes/tried.h"
#include "properties/case/words.h"

namespace attnfuzz {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<Target> open_library(const std::string& path, TargetOptions options) {
  options.build_kind.clear();  // the plain build says what it takes
  return open(library_of(path, options), options);
}

// The limits that were found, with the hash of the library that they were found with. Another hash
// means another source.
struct Found {
  std::string call, takes, domain, hash;
  std::string statements;  // "dim = one_of(64, 128)"
};

fs::path file_of(const std::string& library) { return library + ".takes.json"; }

std::optional<Found> read_found(const fs::path& path) {
  if (!fs::exists(path)) return std::nullopt;
  const auto text = read_file(path.string());
  const auto* words = std::get_if<std::string>(&text);
  const Json j = words ? Json::parse(*words, nullptr, false) : Json();
  if (!j.is_object()) return std::nullopt;
  const auto of = [&](const char* key) {
    const auto at = j.find(key);
    return at != j.end() && at->is_string() ? at->get<std::string>() : std::string();
  };
  return Found{of("call"), of("takes"), of("domain"), of("build"), of("found")};
}

void write_found(const fs::path& path, const Found& f) {
  const Json j = {
      {"call", f.call}, {"takes", f.takes}, {"domain", f.domain}, {"build", f.hash}, {"found", f.statements}};
  write_file(path.string(), j.dump(1) + "\n");
}

// A field of a domain: a regular expression for its names in --takes, how to keep the declared value, and
// whether --domain sets it.
struct Said {
  const char* takes;
  void (*keep)(attn_domain& found, const attn_domain& declared);
  bool (*named)(const attn_domain& asked);
};

bool says(const attn_sizes& s) { return s.least > 0 || s.most > 0 || s.multiple > 0 || s.count > 0; }

template <attn_sizes attn_domain::* kSize>
constexpr Said said_size(const char* takes) {
  return {takes, [](attn_domain& found, const attn_domain& declared) { found.*kSize = declared.*kSize; },
          [](const attn_domain& asked) { return says(asked.*kSize); }};
}
template <int32_t attn_domain::* kFlag>
constexpr Said said_flag(const char* takes) {
  return {takes, [](attn_domain& found, const attn_domain& declared) { found.*kFlag = declared.*kFlag; },
          [](const attn_domain& asked) { return asked.*kFlag != 0; }};
}

constexpr Said kSaid[] = {
    {"format", [](attn_domain& found, const attn_domain&) { found.dtypes = 0; },
     [](const attn_domain& asked) { return asked.dtypes != 0; }},
    said_size<&attn_domain::batch>("batch"),
    said_size<&attn_domain::heads_q>("heads"),
    said_size<&attn_domain::group>("group"),
    said_size<&attn_domain::dim_qk>("dim"),
    said_size<&attn_domain::dim_v>("dim(_v)?"),
    said_size<&attn_domain::seq_q>("seq"),
    said_size<&attn_domain::seq_k>("seq(_k)?"),
    said_flag<&attn_domain::equal_dims>("equal_dims"),
    said_flag<&attn_domain::equal_lengths>("equal_lengths"),
    said_flag<&attn_domain::causal>("causal"),
};

// `found`, except that fields which the user has set keep the value that the library declares.
attn_domain without_said(attn_domain found, const attn_domain& declared, const std::string& takes,
                         const std::optional<Terms>& terms) {
  for (const Said& one : kSaid) {
    if (sets(takes, one.takes) || (terms && one.named(terms->domain))) one.keep(found, declared);
  }
  return found;
}

bool says_anything(const std::string& takes, const std::optional<Terms>& terms) {
  return std::ranges::any_of(
      kSaid, [&](const Said& one) { return sets(takes, one.takes) || (terms && one.named(terms->domain)); });
}

bool says_lengths(const std::string& takes, const std::optional<Terms>& terms) {
  return sets(takes, "(seq_k|equal_lengths|page)") ||
         (terms && (says(terms->domain.seq_q) || says(terms->domain.seq_k)));
}

// Runs the function, prints what was concluded, and returns it as statements of --takes.
std::string ask(const std::string& source, Target& target, const TargetOptions& by, const EntryOptions& options,
                const std::optional<Terms>& terms) {
  constexpr double kSeconds = 20;
  const attn_domain declared = target.info().domain.value_or(attn_domain{});
  const Calibration calibration = calibration_for(target.info(), by);
  const bool lengths_said = names_lengths(options.call) || says_lengths(options.takes, terms);
  const bool align_said = sets(options.takes, "align") || (terms && terms->domain.align != 0);
  Tried tried =
      try_function(target, kSeconds, {.table = &calibration, .lengths = !lengths_said, .align = !align_said});
  const std::string asked = source + ": run on " + std::to_string(tried.runs) + " small problems, it takes ";
  const bool none = !tried.found && !tried.refused.empty();
  if (none && tried.in_time && !says_anything(options.takes, terms))
    throw UserError(
        asked + "none: " + elsewhere(tried) +
        "; say what it takes, --takes 'dim = one_of(...); format = ...', or mend the call, --entry '" +
        options.call + "'");
  if (!tried.found) {
    print(asked + "none, and nothing is concluded" + (none ? ": " + elsewhere(tried) : "") + "\n");
    return "";
  }
  tried.domain = without_said(tried.domain, declared, options.takes, terms);
  if (sets(options.takes, "shared")) tried.shared = 0;
  const std::string statements = join(attnfuzz::statements(tried, declared), "; ");
  if (statements.empty()) {
    print(asked + "all that was tried\n");
  } else {
    const std::string all = options.takes + (options.takes.empty() ? "" : "; ") + statements;
    print(asked + statements + "; elsewhere: " + elsewhere(tried) + "\n");
    print("  it is checked inside that; to declare it, or to say otherwise: --takes '" + all + "'\n");
  }
  const bool formats_said = sets(options.takes, "format") || (terms && terms->domain.dtypes != 0);
  if (declared.dtypes == 7 && tried.domain.dtypes == 0 && !formats_said)
    print(
        "  its types do not say which format it reads, so it is checked in fp16, bf16 and fp32. If it reads only "
        "one, say --takes 'format = Formats::kF16'\n");
  if (!tried.in_time) print("  the time for asking was spent: some sizes were not tried\n");
  return statements;
}

}  // namespace

void add_entry_options(CLI::App& app, EntryOptions& options) {
  CLI::Option* entry = app.add_option(
      "--entry", options.call,
      "how a source's function is called: 'launch(q, k, v, o, B, H, S, D)', of PyTorch 'o, lse = f(q, k, v)'; "
      "names: kernels/adapter.h, Args");
  app.add_option("--takes", options.takes,
                 "what it takes beyond what the call says: 'dim = one_of(32, 64); causal = Causal::kOnly'; "
                 "names: kernels/cuda_source/adapter/takes.h. Sizes and formats that it does not set are found "
                 "by running "
                 "the function on small problems")
      ->needs(entry);
  app.add_option("--include", options.includes, "folders of its headers, beside the source's own")
      ->check(CLI::ExistingDirectory)
      ->needs(entry);
}

void expect_source(const std::vector<std::string>& kernels, const EntryOptions& options) {
  if (!options.call.empty() && !std::ranges::any_of(kernels, is_cuda_source))
    throw UserError("--entry says how the function of a CUDA source is called: name the source, mine.cu");
}

std::string library_of_source(const std::string& kernel, const EntryOptions& options,
                              const TargetOptions& target, const std::string& folder,
                              const std::optional<Terms>& terms) {
  if (!is_cuda_source(kernel)) return kernel;
  const Entry entry = {.source = kernel,
                       .call = options.call,
                       .takes = options.takes,
                       .backend = target.backend.empty() ? "cpu" : target.backend,
                       .build_kind = target.build_kind,
                       .includes = options.includes};
  expect_entry(entry);
  if (const std::string why = entry.build_kind.empty() ? "" : lacks_build(entry.build_kind); !why.empty())
    throw UserError(why);
  const Compiler compiler = compiler_of_this_machine(entry.build_kind);
  const auto build = [&](const std::string& statements) {
    Entry declared = entry;
    declared.found = statements;
    return build_entry(declared, compiler, folder);
  };
  // nvcc compiles for CUDA, with the host compiler that CMake finds for it.
  std::printf("%s: built for %s ...\n", kernel.c_str(),
              entry.backend == "cuda" ? "CUDA" : ("the CPU executor by " + describe(compiler)).c_str());
  std::fflush(stdout);
  const std::string domain = terms ? as_c({terms->domain, {}}) : "";
  // Uses the library of an earlier call if the source has not changed.
  if (const auto f = read_found(file_of(library_path(entry, folder)));
      f && f->call == entry.call && f->takes == entry.takes && f->domain == domain) {
    const std::string library = build(f->statements);
    const std::string hash = open_library(library, target)->info().build.hash;
    if (!hash.empty() && hash == f->hash) {
      if (!f->statements.empty())
        print(kernel + ": takes, as was found before by running it: " + f->statements + "\n");
      return library;
    }
  }
  std::string library = build("");
  std::unique_ptr<Target> opened = open_library(library, target);
  if (terms) opened->terms = narrowed(*terms, opened->info()).domain;
  const std::string statements = ask(kernel, *opened, target, options, terms);
  if (!statements.empty()) {
    opened.reset();
    library = build(statements);
    opened = open_library(library, target);
  }
  write_found(file_of(library), {entry.call, entry.takes, domain, opened->info().build.hash, statements});
  return library;
}

}  // namespace attnfuzz
