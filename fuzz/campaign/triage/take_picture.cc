// Runs a finding's case once more, for its picture.
#include <algorithm>

#include "fuzz/campaign/triage/case_picture.h"
#include "properties/case/words.h"
#include "properties/explain/trace.h"
#include "properties/judge/property.h"
#include "properties/judge/trial.h"
#include "properties/memory/layout.h"

namespace attnfuzz {
CasePicture take_picture(const Case& found, const std::string& by, const std::string& kind, Target& target,
                         const Calibration& calibration) {
  // A kernel that does not come back would be waited for.
  if (kind == to_string(Kind::kHang))
    return picture_without_error(found, "Not run again for the picture: it does not come back.");
  target.watch(Watch::kBrief);
  // Where a property's variant of the case failed, that one is drawn.
  Case c = found;
  if (const Property* property = find_property(by)) {
    const Verdict verdict = judge(found, *property, target, calibration);
    if (verdict.outcome == Outcome::kFail && verdict.failing) c = *verdict.failing;
  }
  CasePicture drawn;
  {
    LaidOut laid(c, target.arena());
    target.memory(laid.ranges());
    attn_env env = laid.env();
    env.backend = target.info().backend;
    const PlanReply reply = target.plan(laid.problem(), laid.tensors(), env);
    if (reply.crash || reply.timed_out || reply.status != ATTN_OK) {
      return picture_without_error(c, "Without the error, for plan() gives none: " +
                                          (reply.crash       ? *reply.crash
                                           : reply.timed_out ? "it takes too long"
                                                             : reply.reason) +
                                          ".");
    }
    const attn_plan plan = reply.plan;
    laid.give_workspace(plan.workspace_bytes, plan.workspace_align);
    target.memory(laid.ranges());
    CasePicture picture;
    for (const Call& call : c.calls) {
      laid.before_call(call);
      const RunReply run = target.run(Stage::kAll, laid.problem(), laid.tensors(), plan, env, call.stream);
      if (run.crash || run.timed_out || run.status != ATTN_OK) {
        picture = draw_case(c, plan, nullptr, nullptr, nullptr);
        picture.why = "Without the error, for there is no result: " +
                      (run.crash       ? *run.crash
                       : run.timed_out ? std::string("it did not come back")
                       : run.fault     ? run.fault->message
                                       : std::string("it did not run")) +
                      ".";
        return picture;
      }
      const Reference reference = evaluate(laid.problem(), laid.tensors(), plan, calibration);
      const std::vector<float> o = laid.read_o(), lse = laid.read_lse();
      picture = draw_case(c, plan, &reference, &o, &lse);
      const bool wrong = std::ranges::any_of(picture.error, [](double error) { return error > 1; });
      if (wrong) break;
    }
    if (std::ranges::none_of(picture.error, [](double error) { return error > 1; }))
      picture.why = "Run again for this picture, every row of this head lies within its bound.";
    if (!picture.why.empty()) return picture;
    drawn = std::move(picture);
  }
  if (!(c == found)) drawn.said.push_back("Drawn is the variant of the case that fails: " + describe(c));
  // Lays out cases of its own, so after this one is gone.
  for (const std::string& line : trace_values(c, target, calibration))
    drawn.said.push_back("With position-coded V: " + line);
  return drawn;
}

}  // namespace attnfuzz
