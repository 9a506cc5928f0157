#include "fuzz/check/vote.h"

#include <algorithm>

#include "fuzz/check/shard.h"
#include "fuzz/host/lanes.h"

namespace attnfuzz {
namespace {

constexpr int kOrders = 6;

// Some kinds are a sanitizer's alone.
bool is_report(attnfuzz::Kind kind) {
  return kind == attnfuzz::Kind::kAddress || kind == attnfuzz::Kind::kUndefined ||
         kind == attnfuzz::Kind::kUninitialised || kind == attnfuzz::Kind::kRace;
}

// The lanes in the order in which they are believed: a bad access explains what is read after it, and a race
// explains what was not written yet.
std::vector<std::string> by_weight() {
  std::vector<std::string> names;
  for (const char* runtime : {"asan", "tsan", "msan"}) {
    for (const Lane& lane : lanes())
      if (lane.sanitizer() && std::string_view(lane.runtime) == runtime) names.emplace_back(lane.name);
  }
  return names;
}

const Property& property_of(const Verdict& verdict) {
  const Property* property = find_property(verdict.property);
  return property ? *property : *find_property("reference");
}

void ask_orders(Case c, const Property& property, Target& target, const Calibration& calibration, Vote* vote) {
  for (; vote->orders < kOrders; ++vote->orders) {
    enter_lane(c, "schedules", static_cast<uint64_t>(vote->orders));
    c.lane = target.info().lane;
    target.renew();
    vote->failed += judge(c, property, target, calibration).outcome == Outcome::kFail;
  }
}

}  // namespace

bool more_to_see(const KernelInfo& kernel, const Verdict& verdict) {
  const Lane* lane = find_lane(kernel.lane);
  return kernel.backend == ATTN_CPU && lane != nullptr && !lane->sanitizer() &&
         verdict.kind != attnfuzz::Kind::kBadPlan && verdict.kind != attnfuzz::Kind::kRefusal &&
         verdict.kind != attnfuzz::Kind::kOracle && verdict.kind != attnfuzz::Kind::kBits &&
         verdict.kind != attnfuzz::Kind::kHang && verdict.kind != attnfuzz::Kind::kSlow;
}

Vote ask_lanes(const Case& c, const Verdict& verdict, Target& target, const OpenLane& open,
               const Calibration& calibration, const ReduceOptions& options) {
  Vote vote;
  const Property& property = property_of(verdict);
  ask_orders(c, property, target, calibration, &vote);
  for (const std::string& lane : by_weight()) {
    std::unique_ptr<Target> there = open(lane);
    if (!there) continue;
    Case in_lane = c;
    in_lane.lane = lane;
    const Verdict seen = judge(in_lane, property, *there, calibration);
    vote.lanes.emplace_back(lane, seen.outcome == Outcome::kFail ? to_string(seen.kind) : "holds");
    if (seen.outcome != Outcome::kFail || !is_report(seen.kind)) continue;
    vote.lane = lane;
    vote.reduction = reduce_failure(in_lane, seen, property, *there, calibration, options);
    vote.target = std::move(there);
    break;
  }
  return vote;
}

std::string words(const Vote& vote) {
  std::string text = "of " + std::to_string(vote.orders) + " random orders of threads " +
                     std::to_string(vote.failed) + " fail";
  if (vote.failed > 0 && vote.failed < vote.orders) text += ", so it hangs on the order";
  for (const auto& [lane, what] : vote.lanes) text += "; " + lane + ": " + what;
  return text + (vote.lanes.empty() ? "; it is built for no sanitizer's lane" : "");
}

}  // namespace attnfuzz
