#include "cli/open/stages.h"

#include <fmt/format.h>

#include <algorithm>

namespace attnfuzz {

OpenKernel open_kernel(const KernelLibrary& library, const TargetOptions& options) {
  auto target = open(library, options);
  const Calibration calibration = calibration_for(target->info(), options);
  return {library, std::move(target), calibration};
}

std::vector<KernelLibrary> libraries_of(const std::vector<std::string>& names, const TargetOptions& options) {
  std::vector<KernelLibrary> all;
  for (const std::string& name : names) {
    for (KernelLibrary& library : libraries_of(name, options)) all.push_back(std::move(library));
  }
  return all;
}

std::vector<size_t> share_out(const std::vector<OpenKernel>& kernels, const Stages& stages) {
  const auto does = [&](const OpenKernel& one, size_t stage) {
    return stages.does(one.target->info().features, stage);
  };
  std::vector<size_t> of;
  for (size_t stage = 0; stage < stages.count; ++stage) {
    const auto found = std::ranges::find_if(kernels, [&](const OpenKernel& one) { return does(one, stage); });
    of.push_back(found == kernels.end() ? kNoKernel : static_cast<size_t>(found - kernels.begin()));
  }
  std::optional<size_t> spare;
  if (stages.either) {
    const auto& [first, second] = *stages.either;
    spare = of[first] == kNoKernel ? first : second;
    of[*spare] = kNoKernel;
  }
  for (size_t stage = 0; stage < stages.count; ++stage) {
    if (of[stage] == kNoKernel && stage != spare)
      throw UserError(fmt::format("none of these kernels does the stage: {}; {} together do all",
                                  stages.name_of(stage), stages.all));
  }
  for (const OpenKernel& one : kernels) {
    bool any = false;
    for (size_t stage = 0; stage < stages.count; ++stage) any |= does(one, stage);
    if (!any)
      throw UserError(one.target->info().name + " does no stage of native sparse attention; leave it out");
  }
  return of;
}

}  // namespace attnfuzz
