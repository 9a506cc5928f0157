#include "fuzz/targets/open.h"

#include <algorithm>

#include "fuzz/host/build_kinds.h"
#include "fuzz/host/freshness.h"
#include "fuzz/host/kernel_registry.h"
#include "fuzz/host/worker_target.h"

namespace attnfuzz {
namespace {

std::unique_ptr<Target> open(const std::string& kernel, const std::string& build_kind) {
  std::string error;
  const auto library = find_kernel(kernel, {ATTN_CPU, build_kind}, &error);
  if (!library) bad_use(error);
  WorkerOptions options = worker_options(*library);
  options.watchdog = default_watchdog(ATTN_CPU, build_kind);
  auto target = open_target(options, &error);
  if (target == nullptr) bad_use(error);
  if (const auto why = stale(target->info())) bad_use(*why);
  return target;
}

}  // namespace

std::vector<std::unique_ptr<Target>> open_kernels(const std::string& name, const std::vector<const char*>& defaults,
                                                  const Flags& flags) {
  std::vector<std::string> kernels(defaults.begin(), defaults.end());
  if (flags.kernels.size() > kernels.size()) {
    bad_use(name + " fuzzes " + std::to_string(kernels.size()) + " kernel(s): --kernel is given too often");
  }
  std::ranges::copy(flags.kernels, kernels.begin());
  std::vector<std::unique_ptr<Target>> targets;
  for (const std::string& kernel : kernels) targets.push_back(open(kernel, flags.build_kind));
  return targets;
}

}  // namespace attnfuzz
