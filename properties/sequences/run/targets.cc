#include "properties/sequences/run/targets.h"

#include <algorithm>

#include "properties/operations/operation.h"

namespace attnfuzz::sequences {

SessionTargets::SessionTargets(std::span<const SessionTarget> given) : all(given.begin(), given.end()) {
  for (size_t n = 0; n < all.size(); ++n) {
    all[n].number = n;
    const uint64_t features = all[n].target->info().features;
    if ((features & ATTN_FEATURE_MERGE) != 0) merge.push_back(all[n]);
    if ((features & ATTN_FEATURE_PAGED) == 0) continue;
    if ((features & ATTN_FEATURE_APPEND) != 0) append.push_back(all[n]);
    if ((features & ATTN_FEATURE_COPY_PAGES) != 0) copy.push_back(all[n]);
    if (kernel_has(operations::forward, features)) attend.push_back(all[n]);
  }
}

bool SessionTargets::never_called(size_t number) const {
  const auto has = [&](const std::vector<SessionTarget>& kernels) {
    return std::ranges::any_of(kernels, [&](const SessionTarget& kernel) { return kernel.number == number; });
  };
  return !has(append) && !has(copy) && !has(attend) && !has(merge);
}

const SessionTarget* SessionTargets::own() const {
  const auto at = std::ranges::find_if(
      all, [](const SessionTarget& kernel) { return kernel.target->info().cache == CacheKind::kOwn; });
  return at == all.end() ? nullptr : &*at;
}

void SessionTargets::renew() const {
  for (const SessionTarget& kernel : all) kernel.target->renew();
}

uint64_t common_features(const SessionTargets& targets) {
  uint64_t common = ~uint64_t{0};
  for (const auto* kernels : {&targets.append, &targets.copy, &targets.attend}) {
    for (const SessionTarget& kernel : *kernels) common &= kernel.target->info().features;
  }
  return targets.merge.empty() ? common & ~ATTN_FEATURE_MERGE : common | ATTN_FEATURE_MERGE;
}

std::vector<attn_domain> domains_of(const SessionTargets& targets) {
  std::vector<attn_domain> domains;
  for (const SessionTarget& kernel : targets.all) {
    const KernelInfo& info = kernel.target->info();
    if (info.domain && (info.features & ATTN_FEATURE_PAGED) != 0) domains.push_back(*info.domain);
  }
  return domains;
}

}  // namespace attnfuzz::sequences
