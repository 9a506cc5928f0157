// Tries the reproducers that lie in the folder of a check before it draws any case.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "base/printable.h"
#include "cli/check/filing.h"
#include "fuzz/host/build_kinds.h"

namespace attnfuzz {
namespace {

std::set<std::string> reproducers_in(const std::string& folder) {
  std::error_code none;
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    if (entry.path().string().ends_with(".attn.json") && entry.is_regular_file(none))
      files.insert(entry.path());
  }
  return files;
}

bool is_failure_of(const Reproducer& r, const KernelInfo& kernel) {
  const std::string named = command_name(kernel);
  std::error_code other;
  return r.kind != kWarningKind && (r.kernel == named || std::filesystem::equivalent(r.kernel, named, other));
}

// The target that judges a file's case: `plain`, or `there` if a sanitizer's build reduced it.
// nullptr if the file belongs to another kernel, back end or build.
Target* target_for(const Reproducer& r, Target& plain, const Filing& filing, std::unique_ptr<Target>& there) {
  const KernelInfo& kernel = plain.info();
  if (r.backend != kernel.backend) return nullptr;
  const BuildKind* build_kind = find_build_kind(r.c.build_kind);
  const bool took_over = build_kind != nullptr && build_kind->sanitizer() && more_to_see(kernel, {});
  if (took_over && filing.open_build) there = filing.open_build(build_kind->name);
  if (r.c.build_kind != kernel.build_kind && !there) return nullptr;
  Target& target = there ? *there : plain;
  return is_failure_of(r, target.info()) ? &target : nullptr;
}

// Failures of the kernel that this check leaves out.
struct NotTried {
  int outside = 0, elsewhere = 0;
  std::map<std::string, int> by_property;

  void add_to(std::vector<std::string>& left_out, const Filing& filing) const {
    const auto say = [&](int count, const std::string& why) {
      if (count > 0)
        left_out.push_back(fmt::format("found before, in {}: {} not tried, {}", filing.folder, count, why));
    };
    say(outside, fmt::format("for {} leaves such cases out", !filing.check.finite ? "--domain"
                                                             : filing.check.terms ? "--domain or --finite"
                                                                                  : "--finite"));
    say(elsewhere, "for another back end or build has them (--backend, --build)");
    for (const auto& [property, count] : by_property)
      say(count, fmt::format("for this check does not judge by {} (--property)", property));
  }
};

}  // namespace

std::string try_found_before(Target& target, const Calibration& calibration, const Filing& filing,
                             Checked& checked) {
  CheckResult& result = checked.result;
  int tried = 0;
  NotTried left;
  for (const std::string& file : reproducers_in(filing.folder)) {
    const auto read = read_reproducer(file);
    const auto not_tried = [&](const std::string& why) {
      checked.not_judged.push_back(file + " was not tried: " + why + "; mend it, or move it away");
    };
    if (const auto* error = std::get_if<DecodeError>(&read)) {
      not_tried(error->message);
      continue;
    }
    const Reproducer& r = std::get<Reproducer>(read);
    std::unique_ptr<Target> there;
    Target* const of = target_for(r, target, filing, there);
    if (of == nullptr) {
      left.elsewhere += is_failure_of(r, target.info());
      continue;
    }
    const Property* const named = find_property(r.property);
    if (const auto why = illegal(r.c); why || named == nullptr) {
      not_tried(why ? *why : "there is no property '" + printable(r.property, 60) + "'");
      continue;
    }
    if (std::ranges::find(filing.check.properties, named) == filing.check.properties.end()) {
      ++left.by_property[r.property];
      continue;
    }
    if (Case inside = r.c; keep_inside(filing.check, inside), inside != r.c) {
      ++left.outside;
      continue;
    }
    ++tried;
    Failure failure = {.c = r.c, .verdict = judge(r.c, *named, *of, calibration), .property = named};
    failure.file = file;
    if (failure.verdict.outcome == Outcome::kFail) result.add(std::move(failure));
    if (!result.failures.empty() && !filing.check.keep_going) break;
  }
  left.add_to(checked.left_out, filing);
  if (tried == 0) return "";
  return fmt::format("  found before, in {}: {} tried, {}\n", filing.folder, tried,
                     result.failures.empty() ? "none fails" : "one fails still");
}

}  // namespace attnfuzz
