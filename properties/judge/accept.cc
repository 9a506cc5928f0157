// Makes a verdict of what a kernel answers to plan() and run(), and of the faults that it left in memory.
#include <array>
#include <cstdio>
#include <limits>

#include "properties/case/places/geometry.h"
#include "properties/judge/judge.h"
#include "reference/call/row_space.h"

namespace attnfuzz {
namespace {

const char* name_of(attn_status status) {
  switch (status) {
    case ATTN_OK:
      return "ATTN_OK";
    case ATTN_UNSUPPORTED:
      return "ATTN_UNSUPPORTED";
    case ATTN_INVALID:
      return "ATTN_INVALID";
    case ATTN_LAUNCH_FAILED:
      return "ATTN_LAUNCH_FAILED";
    case ATTN_FAULT:
      return "ATTN_FAULT";
  }
  return nullptr;
}

std::string describe(attn_status status) {
  const char* name = name_of(status);
  return name ? name
              : "status " + std::to_string(static_cast<int>(status)) + ", which attention.h does not know";
}

// Always returns false, so that callers can return its result.
bool leave_unjudged(Verdict& v, const std::string& why) {
  v.outcome = Outcome::kNotJudged;
  v.message = why;
  return false;
}

Kind kind_of(const Fault& fault) {
  switch (fault.kind) {
    case ATTN_REPORT_ADDRESS:
      return Kind::kAddress;
    case ATTN_REPORT_UNDEFINED:
      return Kind::kUndefined;
    case ATTN_REPORT_UNINITIALISED:
      return Kind::kUninitialised;
    case ATTN_REPORT_RACE:
      return Kind::kRace;
    default:
      return Kind::kFault;
  }
}

// Only a target that cannot decide before it has its tensors refuses in this way (worker/hosted.h).
bool is_late_refusal(const RunReply& reply) {
  return reply.status == ATTN_UNSUPPORTED && reply.fault && reply.fault->kind == ATTN_REPORT_LAUNCH;
}

std::string in_words(const Slow& slow) {
  char text[160];
  std::snprintf(
      text, sizeof text, "slow: %llu of %llu blocks after %.3g s of processor time; --watchdog gives it longer",
      static_cast<unsigned long long>(slow.done), static_cast<unsigned long long>(slow.blocks), slow.seconds);
  return text;
}

}  // namespace

bool accept_plan(const PlanReply& reply, Verdict& v) {
  if (v.outcome != Outcome::kPass) return false;
  v.site = reply.site;
  v.exploit = reply.exploit;
  if (reply.no_memory) return leave_unjudged(v, *reply.no_memory);
  if (reply.timed_out) {
    fail(v, Kind::kHang, "plan() did not return before the watchdog ended it");
  } else if (reply.crash) {
    fail(v, Kind::kCrash, "plan() died: " + *reply.crash);
    v.exit_reason = reply.exit_reason;
  } else if (const auto bad = reply.bad_plan            ? reply.bad_plan
                              : reply.status == ATTN_OK ? bad_plan(reply.plan)
                                                        : std::nullopt) {
    fail(v, Kind::kBadPlan, "the plan makes no sense: " + *bad);
  } else if (reply.status == ATTN_UNSUPPORTED || reply.status == ATTN_INVALID) {
    if (reply.reason.empty()) {
      fail(v, Kind::kRefusal, "plan() refused with " + describe(reply.status) + " but gave no reason");
    } else {
      v.outcome = Outcome::kRefused;
      v.refused = true;
      v.message = "refused: " + reply.reason;
    }
  } else if (reply.status != ATTN_OK) {
    fail(v, Kind::kRefusal,
         "plan() answered " + describe(reply.status) + (reply.reason.empty() ? "" : ": " + reply.reason));
  }
  return v.outcome == Outcome::kPass;
}

bool accept_run(const RunReply& reply, Verdict& v) {
  if (v.outcome != Outcome::kPass) return false;
  v.site = reply.site;
  v.exploit = reply.exploit;
  if (reply.no_memory) return leave_unjudged(v, *reply.no_memory);
  if (is_late_refusal(reply)) {
    v.outcome = Outcome::kRefused;
    v.refused = true;
    v.message = "refused: " + reply.fault->message;
    return false;
  }
  if (reply.fault) v.fault = reply.fault;
  if (reply.fault) {
    // The back end's report says more than how the process ended.
    fail(v, kind_of(*reply.fault), reply.fault->message);
  } else if (reply.slow) {
    fail(v, Kind::kSlow, in_words(*reply.slow));
  } else if (reply.timed_out) {
    fail(v, Kind::kHang, "the kernel did not finish before the watchdog ended it");
  } else if (reply.crash) {
    fail(v, Kind::kCrash, "the worker died while the kernel ran: " + *reply.crash);
    v.exit_reason = reply.exit_reason;
  } else if (reply.status == ATTN_UNSUPPORTED || reply.status == ATTN_INVALID) {
    fail(v, Kind::kRefusal, "run() answered " + describe(reply.status) + " to what plan() had accepted");
  } else if (reply.status == ATTN_LAUNCH_FAILED) {
    fail(v, Kind::kFault, "the launch was refused, or launched nothing (ATTN_LAUNCH_FAILED)");
  } else if (reply.status != ATTN_OK) {
    fail(v, Kind::kFault, "run() answered " + describe(reply.status));
  }
  return v.outcome == Outcome::kPass;
}

bool accept_memory(const std::optional<MemoryFault>& fault, const Problem& p, const attn_plan& plan,
                   Verdict& v) {
  if (v.outcome != Outcome::kPass) return false;
  if (!fault) return true;
  switch (fault->kind) {
    case MemoryFault::Kind::kRedzone:
    case MemoryFault::Kind::kGap:
      fail(v, Kind::kRedzone, fault->message);
      break;
    case MemoryFault::Kind::kInputChanged:
      fail(v, Kind::kInputChanged, fault->message);
      v.exploit = Exploit::kInputs;
      break;
    case MemoryFault::Kind::kUnwritten:
      fail(v, Kind::kUnwritten, fault->message);
      v.exploit = Exploit::kNothing;
      break;
    case MemoryFault::Kind::kTooEarly:
      fail(v, Kind::kRefusal, fault->message);
      break;
  }
  const bool early = fault->kind == MemoryFault::Kind::kTooEarly;
  if (is_written(spec_of(fault->tensor)) && !early) {
    const std::array<int64_t, 4> size = logical_size(p, fault->tensor);
    const RowSpace rows(size[0], size[1], size[2]);
    if (rows.count() == 0) return false;  // bytes beside an output without elements were written
    const auto [b, h, s, d] = fault->index;
    Where where = where_is(fault->tensor, p, plan, rows.of(b, h, s), d);
    where.got = std::numeric_limits<double>::quiet_NaN();
    where.of = rows.count() * size[3];
    v.where = where;
  }
  return false;
}

}  // namespace attnfuzz
