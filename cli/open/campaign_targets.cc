#include "cli/open/campaign_targets.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/printable.h"
#include "base/subprocess.h"
#include "cli/open/open_kernel.h"
#include "cli/terminal/terminal.h"
#include "fuzz/campaign/run/explore_sequences.h"
#include "fuzz/campaign/store/seeded_bug.h"
#include "fuzz/check/takes/refusals.h"

namespace attnfuzz {
namespace {

namespace fs = std::filesystem;

// "libattn_bug-x_cpu.so:fast" -> "bug-x.fast": a kernel's name in files of the campaign.
std::string short_name(const std::string& kernel) {
  std::string name = kernel.substr(kernel.find_last_of('/') + 1);
  const size_t ending = name.find(".so");
  if (ending != std::string::npos) name.erase(ending, 3);
  for (const char* prefix : {"lib", "attn_"}) {
    if (name.starts_with(prefix) && kernel.find('/') != std::string::npos)
      name.erase(0, std::string(prefix).size());
  }
  for (const char* part : {"_cpu", "_cuda"}) {
    const size_t at = name.find(part);
    if (at != std::string::npos && kernel.find('/') != std::string::npos)
      name.erase(at, std::string(part).size());
  }
  for (char& c : name) {
    const bool keep =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    if (!keep) c = '.';
  }
  return name.substr(0, 80);
}

CampaignTarget target_of(const KernelLibrary& library, TargetOptions options, const std::string& folder,
                         bool finite = false) {
  options.backend = backend_name(library.backend);
  options.build_kind = library.build_kind;
  CampaignTarget target;
  const std::unique_ptr<Target> opened = open(library, options);
  target.info = opened->info();
  identity_line(target.info, options);  // refuses what is stale
  target.calibration = calibration_for(target.info, options);
  target.refused = ask_for_refusals(*opened);
  if (finite) target.refused.those.push_back(refusal_of_several(Limit::kFinite));
  for (const Property* property : properties()) {
    if (speaks_of(*property, target.info) && speaks_of(*property, target.refused))
      target.properties.push_back(property);
  }
  target.open = [library, options](std::string* error) -> std::unique_ptr<Target> {
    try {
      return open(library, options);
    } catch (const UserError& e) {
      *error = e.what();
      return nullptr;
    }
  };
  if (library.backend == ATTN_CPU)
    target.open_build = [library, options, build = target.info.build](const std::string& build_kind) {
      return open_in(build_kind, library, build, options);
    };
  if (library.backend == ATTN_CUDA && batch_target_of(*opened, options)) target.batch = options.batch;
  if (library.backend == ATTN_CUDA && options.oracle == "cuda")
    target.put_oracle = [options](Target& on, bool all) { put_oracle(on, options, all); };
  target.folder = folder;
  TargetRecord& r = target.record;
  r.name = folder + "." + options.backend + "." + options.build_kind;
  r.kernel = library.name;
  r.backend = options.backend;
  r.build_kind = options.build_kind;
  r.build = target.info.build.hash;
  r.worker_build = target.info.worker.hash;
  r.compiler = target.info.build.compiler;
  r.flags = target.info.build.flags;
  r.device = target.info.device;
  r.calibration = target.calibration.name;
  r.peer = peer_name(*opened);
  r.no_sequences = no_sequences_on(*opened);
  r.sequences = r.no_sequences.empty();
  return target;
}

// The kernel with the bug that a build should detect.
CampaignTarget seeded_bug_of(const std::string& backend, const std::string& build_kind, TargetOptions options) {
  const fs::path program = program_folder();
  const fs::path library =
      program.parent_path() / "lib" / "attnfuzz" / ("libattn_seeded_bug_" + backend + ".so");
  if (!fs::exists(library)) {
    throw UserError("the library of seeded bugs, " + library.string() +
                    ", is not there: build attn_seeded_bug_" + backend +
                    ", or give --no-seeded-bug: then nothing shows that the campaign finds bugs");
  }
  const std::string kernel = seeded_bug_for(build_kind).kernel;
  options.backend = backend;
  options.build_kind = build_kind;
  options.oracle = "cpu";
  CampaignTarget target =
      target_of(library_of(library.string() + ":" + kernel, options), options, "seeded-bug");
  target.record.seeded_bug = true;
  target.record.sequences = false;
  target.record.no_sequences = "";
  return target;
}

void leave_out_sequences(std::vector<CampaignTarget>& targets) {
  for (CampaignTarget& target : targets) {
    target.record.sequences = false;
    target.record.no_sequences = "";
  }
}

}  // namespace

void expect_sequences(const std::vector<CampaignTarget>& targets) {
  std::string why;
  for (const CampaignTarget& target : targets) {
    if (target.record.sequences) return;
    if (!target.record.no_sequences.empty())
      why += "\n  " + printable(target.record.name) + ": " + target.record.no_sequences;
  }
  throw UserError(
      "--sequences: no target can have sequences of calls; name another kernel, for example cache or "
      "splitk, or leave --sequences out" +
      why);
}

std::vector<CampaignTarget> targets_of(const CampaignScope& scope, bool finite) {
  std::vector<CampaignTarget> targets;
  std::set<std::string> names;
  std::vector<std::pair<std::string, std::string>> where;
  for (const std::string& backend : scope.backends) {
    if (backend == "cuda") {
      where.emplace_back(backend, "plain");
      continue;
    }
    for (const std::string& build_kind : scope.build_kinds) where.emplace_back(backend, build_kind);
  }
  for (const auto& [backend, build_kind] : where) {
    TargetOptions options = scope.target;
    options.backend = backend;
    options.build_kind = build_kind;
    // The build coverage has no sanitizer, so it finds what plain finds.
    const BuildKind* row = find_build_kind(build_kind);
    const bool as_plain = row != nullptr && row->kind == BuildKind::kBuilt && !row->sanitizer();
    const std::string seeded_build = as_plain ? "plain" : build_kind;
    if (!scope.no_seeded_bug && names.insert("seeded-bug." + backend + "." + seeded_build).second)
      targets.push_back(seeded_bug_of(backend, seeded_build, options));
    for (const std::string& kernel : scope.kernels) {
      for (const KernelLibrary& library : libraries_of(kernel, options)) {
        CampaignTarget target = target_of(library, options, short_name(library.name), finite);
        for (const std::string& name : scope.properties) {
          const Property& property = property_named(name);
          if (std::ranges::find(properties(), &property) != properties().end()) continue;
          print(expect_peer(*open(library, options), property));
          target.properties.push_back(&property);
        }
        if (!names.insert(target.record.name).second)
          throw UserError("two kernels would both be called " + target.record.name + ": rename a library");
        target.record.properties = scope.properties;
        if (!scope.properties.empty()) {
          std::erase_if(target.properties, [&](const Property* p) {
            return std::ranges::find(scope.properties, p->name) == scope.properties.end();
          });
        }
        if (target.properties.empty()) throw UserError("no property is left to judge " + kernel + " by");
        targets.push_back(std::move(target));
      }
    }
  }
  if (!scope.sequences) leave_out_sequences(targets);
  return targets;
}

}  // namespace attnfuzz
