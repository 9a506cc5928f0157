// The kernels that share the cache of a session.
//
//   SessionTargets targets(opened);                           // a span of SessionTarget
//   Session s = draw_session(seed, common_features(targets));
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "properties/judge/target/target.h"
#include "reference/model/calibration.h"

namespace attnfuzz::sequences {

struct SessionTarget {
  Target* target;
  Calibration calibration;
  size_t number = 0;  // index among the given kernels, set by SessionTargets
};

// The kernels that can make each kind of call, in the order in which they were given. Appends, copies and
// attends need kernels that take pages; a merge does not.
struct SessionTargets {
  SessionTargets() = default;
  explicit SessionTargets(std::span<const SessionTarget> given);
  // True if no kernel can make a call on pages.
  bool empty() const { return append.empty() && copy.empty() && attend.empty(); }
  // True if kernel `number` can make no call.
  bool never_called(size_t number) const;
  // The kernel whose own class keeps keys and values (CacheKind::kOwn), else nullptr. It is then the only
  // kernel.
  const SessionTarget* own() const;
  // Gives each library a new process.
  void renew() const;

  std::vector<SessionTarget> all, append, copy, attend, merge;
};

// The features that all kernels with calls on pages have, and ATTN_FEATURE_MERGE if some kernel merges.
uint64_t common_features(const SessionTargets& targets);
// The declared domains of the kernels with calls on pages, within which draw_session() stays.
std::vector<attn_domain> domains_of(const SessionTargets& targets);

}  // namespace attnfuzz::sequences
