#include "fuzz/check/failure/vote.h"

#include <algorithm>

#include "fuzz/check/shard.h"
#include "fuzz/host/build_kinds.h"

namespace attnfuzz {
namespace {

constexpr int kOrders = 6;

// True for kinds that only a sanitizer reports.
bool is_report(attnfuzz::Kind kind) {
  return kind == attnfuzz::Kind::kAddress || kind == attnfuzz::Kind::kUndefined ||
         kind == attnfuzz::Kind::kUninitialised || kind == attnfuzz::Kind::kRace;
}

// The sanitizer builds in the order in which their reports explain others: a bad access explains wrong values
// that are read later, and a race explains reads of memory that is not written yet.
std::vector<std::string> by_weight() {
  std::vector<std::string> names;
  for (const char* runtime : {"asan", "tsan", "msan"}) {
    for (const BuildKind& build_kind : build_kinds())
      if (build_kind.sanitizer() && std::string_view(build_kind.runtime) == runtime)
        names.emplace_back(build_kind.name);
  }
  return names;
}

const Property& property_of(const Verdict& verdict) {
  const Property* property = find_property(verdict.property);
  return property ? *property : *find_property("reference");
}

void ask_orders(Case c, const Property& property, Target& target, const Calibration& calibration, Vote* vote) {
  for (; vote->orders < kOrders; ++vote->orders) {
    enter_build(c, "schedules", static_cast<uint64_t>(vote->orders));
    c.build_kind = target.info().build_kind;
    target.renew();
    vote->failed += judge(c, property, target, calibration).outcome == Outcome::kFail;
  }
}

}  // namespace

bool more_to_see(const KernelInfo& kernel, const Verdict& verdict) {
  const BuildKind* build_kind = find_build_kind(kernel.build_kind);
  return kernel.backend == ATTN_CPU && build_kind != nullptr && !build_kind->sanitizer() &&
         verdict.kind != attnfuzz::Kind::kBadPlan && verdict.kind != attnfuzz::Kind::kRefusal &&
         verdict.kind != attnfuzz::Kind::kOracle && verdict.kind != attnfuzz::Kind::kBits &&
         verdict.kind != attnfuzz::Kind::kHang && verdict.kind != attnfuzz::Kind::kSlow;
}

Vote ask_builds(const Case& c, const Verdict& verdict, Target& target, const OpenBuild& open,
                const Calibration& calibration, const ReduceOptions& options) {
  Vote vote;
  const Property& property = property_of(verdict);
  ask_orders(c, property, target, calibration, &vote);
  for (const std::string& build_kind : by_weight()) {
    std::unique_ptr<Target> there = open(build_kind);
    if (!there) continue;
    Case in_build = c;
    in_build.build_kind = build_kind;
    const Verdict seen = judge(in_build, property, *there, calibration);
    vote.build_kinds.emplace_back(build_kind, seen.outcome == Outcome::kFail ? to_string(seen.kind) : "passed");
    if (seen.outcome != Outcome::kFail || !is_report(seen.kind)) continue;
    vote.build_kind = build_kind;
    vote.reduction = reduce_failure(in_build, seen, property, *there, calibration, options);
    vote.target = std::move(there);
    break;
  }
  return vote;
}

std::string words(const Vote& vote) {
  std::string text = "of " + std::to_string(vote.orders) + " random orders of threads " +
                     std::to_string(vote.failed) + " fail";
  if (vote.failed > 0 && vote.failed < vote.orders) text += ", so it depends on the order";
  for (const auto& [build_kind, what] : vote.build_kinds) text += "; " + build_kind + ": " + what;
  return text + (vote.build_kinds.empty() ? "; it has no build with a sanitizer" : "");
}

}  // namespace attnfuzz
