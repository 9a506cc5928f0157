#include "properties/judge/verdict.h"

namespace attnfuzz {

const char* to_string(Kind kind) {
  switch (kind) {
    case Kind::kNone:
      return "none";
    case Kind::kWrong:
      return "wrong";
    case Kind::kNonFinite:
      return "non-finite";
    case Kind::kUnwritten:
      return "unwritten";
    case Kind::kRelation:
      return "relation";
    case Kind::kGuard:
      return "guard";
    case Kind::kInputChanged:
      return "input-changed";
    case Kind::kDirty:
      return "dirty";
    case Kind::kRefusal:
      return "refusal";
    case Kind::kFault:
      return "fault";
    case Kind::kAddress:
      return "address";
    case Kind::kUndefined:
      return "undefined";
    case Kind::kUninitialised:
      return "uninitialised";
    case Kind::kRace:
      return "race";
    case Kind::kHang:
      return "hang";
    case Kind::kCrash:
      return "crash";
    case Kind::kBadPlan:
      return "bad-plan";
  }
  return "none";
}

const char* kind_class(Kind kind) {
  switch (kind) {
    // One wrong store shows as any of these, depending on what lies where it goes
    // and what else the case compares it with.
    case Kind::kWrong:
    case Kind::kUnwritten:
    case Kind::kRelation:
    case Kind::kDirty:
    case Kind::kGuard:
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
  return kernel.name + " " + kind_class(verdict.kind) + " " + kernel.lane;
}

}  // namespace attnfuzz
