// Runs a finding's case once more, for its picture.
#include <algorithm>

#include "fuzz/campaign/triage/files/case_picture.h"
#include "properties/case/words.h"
#include "properties/explain/trace.h"
#include "properties/judge/property.h"
#include "properties/judge/trial.h"

namespace attnfuzz {
CasePicture take_picture(const Case& found, const std::string& by, const std::string& kind, Target& target,
                         const Calibration& calibration) {
  // A kernel that hangs would take the full watch again.
  if (kind == to_string(Kind::kHang))
    return picture_without_error(found, "Not run again for the picture, because it hangs.");
  if (kind == to_string(Kind::kSlow))
    return picture_without_error(found, "Not run again for the picture: it takes too long.");
  // If a property's variant of the case failed, that one is drawn.
  Case c = found;
  Verdict verdict;
  if (const Property* property = find_property(by)) {
    verdict = judge(found, *property, target, calibration);
    if (verdict.outcome == Outcome::kFail && verdict.failing) c = *verdict.failing;
  }
  CasePicture drawn;
  {
    Execution e(c, target);
    if (const std::string why = e.why_not(); !why.empty())
      return picture_without_error(c, "Without the error: " + why + ".");
    CasePicture picture;
    for (const Call& call : c.calls) {
      if (const std::string why = failure(e.run(call)); !why.empty()) {
        picture = draw_case(c, e.plan, nullptr, nullptr);
        picture.why = "Without the error, because there is no result: " + why + ".";
        return picture;
      }
      const Reference reference = e.evaluate(calibration);
      const Outputs got = e.outputs();
      picture = draw_case(c, e.plan, &reference, &got);
      const bool wrong = std::ranges::any_of(picture.error, [](double error) { return error > 1; });
      if (wrong) break;
    }
    if (std::ranges::none_of(picture.error, [](double error) { return error > 1; })) {
      const bool fails = verdict.outcome == Outcome::kFail;
      if (fails) picture.error.clear();  // rows that are right would hide the failure
      picture.why = fails ? "Without the error, because no row of a query shows it: " + verdict.message + "."
                          : "Run again for this picture, it did not fail.";
    }
    if (!picture.why.empty()) return picture;
    drawn = std::move(picture);
  }
  if (!(c == found))
    drawn.said.push_back("The picture shows the variant of the case that fails: " + describe(c));
  // trace_values() lays out cases of its own in the same arena, so the Execution above must have ended.
  for (const std::string& line : trace_values(c, target, calibration).lines)
    drawn.said.push_back("With position-coded V: " + line);
  return drawn;
}

}  // namespace attnfuzz
