#include "properties/judge/verdict.h"

#include <iterator>

namespace attnfuzz {

const char* to_string(Kind kind) {
  static constexpr const char* kNames[] = {"none",    "wrong",         "non-finite",    "unwritten", "relation",
                                           "guard",   "input-changed", "dirty",         "refusal",   "fault",
                                           "address", "undefined",     "uninitialised", "race",      "hang",
                                           "crash",   "bad-plan",      "oracle",        "bits",      "slow"};
  static_assert(std::size(kNames) == kKindCount);
  return kNames[static_cast<size_t>(kind)];
}

const char* to_string(Exploit exploit) {
  static constexpr const char* kNames[] = {"",
                                           "nothing written",
                                           "writes inputs",
                                           "finished late",
                                           "earlier answer",
                                           "looser plan",
                                           "refuses nearly everything",
                                           "ends the process",
                                           "uses up descriptors",
                                           "uses up memory",
                                           "uses up threads",
                                           "starts a process",
                                           "sends signals",
                                           "reaches for memory",
                                           "uses the network",
                                           "writes files",
                                           "handles crashes",
                                           "takes privileges"};
  static_assert(std::size(kNames) == static_cast<size_t>(Exploit::kPrivilege) + 1);
  return kNames[static_cast<size_t>(exploit)];
}

const char* kind_class(Kind kind) {
  switch (kind) {
    // One wrong store shows as any of these, depending on what lies at its target and on what else the case
    // compares.
    case Kind::kWrong:
    case Kind::kUnwritten:
    case Kind::kRelation:
    case Kind::kDirty:
    case Kind::kRedzone:
    case Kind::kInputChanged:
      return "wrong";
    case Kind::kNonFinite:
      return "non-finite";
    case Kind::kRefusal:
      return "contract";
    default:
      return to_string(kind);
  }
}

std::string reduction_key(const KernelInfo& kernel, const Verdict& verdict) {
  return kernel.name + " " + kind_class(verdict.kind) + " " + kernel.build_kind;
}

}  // namespace attnfuzz
