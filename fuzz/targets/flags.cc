#include "fuzz/targets/flags.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "fuzz/host/build_kinds.h"
#include "properties/judge/property.h"

namespace attnfuzz {

void bad_use(const std::string& why) {
  std::fprintf(stderr, "attnfuzz: %s\n", why.c_str());
  std::exit(2);
}

Flags parse_flags(int argc, char** argv) {
  Flags flags = {ATTNFUZZ_TARGETS_BUILD, {}, "", ""};
  std::string artifacts;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    const auto value_of = [&](std::string_view name) { return std::string(arg.substr(name.size())); };
    constexpr std::string_view kBuild = "--build=", kLane = "--lane=", kKernel = "--kernel=",
                               kProperty = "--property=", kOut = "--out=", kArtifacts = "-artifact_prefix=";
    if (arg.starts_with(kBuild)) {
      flags.build_kind = value_of(kBuild);
    } else if (arg.starts_with(kLane)) {  // the old name of --build
      flags.build_kind = value_of(kLane);
    } else if (arg.starts_with(kKernel)) {
      flags.kernels.push_back(value_of(kKernel));
    } else if (arg.starts_with(kProperty)) {
      flags.property = value_of(kProperty);
    } else if (arg.starts_with(kOut)) {
      flags.out = value_of(kOut) + "/";
    } else if (arg.starts_with(kArtifacts)) {
      artifacts = value_of(kArtifacts);
    } else if (arg.starts_with("--")) {
      bad_use(std::string(arg) + " is not understood: there are --build=, --kernel=, --property= and --out=");
    }
  }
  if (flags.out.empty()) flags.out = artifacts;
  const BuildKind* build_kind = find_build_kind(flags.build_kind);
  if (build_kind == nullptr || build_kind->kind == BuildKind::kTool)
    bad_use("there is no build '" + flags.build_kind + "' on the CPU; there are: " + build_kind_list(false));
  if (!flags.property.empty() && find_property(flags.property) == nullptr) {
    std::string names;
    for (const Property* property : all_properties())
      names += std::string(names.empty() ? "" : ", ") + property->name;
    bad_use("there is no property '" + flags.property + "'; there are: " + names);
  }
  return flags;
}

}  // namespace attnfuzz
