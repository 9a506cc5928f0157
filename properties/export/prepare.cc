#include "properties/case/codec/as_contract.h"
#include "properties/case/places/geometry.h"
#include "properties/export/export.h"
#include "properties/export/text.h"
#include "properties/judge/trial.h"

namespace attnfuzz {
namespace {

int64_t values_of(const Case& c) {
  int64_t all = RowSpace(c.problem).count() * (c.problem.dim_v + 1);  // the bounds
  for (const TensorSpec& spec : kTensors) {
    if ((spec.role != Role::kInput && spec.role != Role::kState) || !is_present(c, spec.id)) continue;
    const auto g = geometry(c, spec.id);
    if (g) all += g->size[0] * g->size[1] * g->size[2] * g->size[3];
  }
  return all;
}

// Returns why a case cannot be exported; empty if it can.
std::string unfit(const Case& c) {
  if (const auto why = illegal(c)) return "the case cannot be run: " + *why;
  const Operation& operation = operation_of(c.problem.features);
  const uint64_t known = exporting::reference_of(operation) ? operation.feature : 0;
  // Programs of operations that neither attend nor write caches support only dense entries.
  constexpr uint64_t kOfCaches = ATTN_FEATURE_APPEND | ATTN_FEATURE_COPY_PAGES,
                     kOfOthers = ATTN_FEATURE_F32 | ATTN_FEATURE_INDEX32;
  const uint64_t forms = operation.feature == 0                       ? kForward
                         : operation.feature == ATTN_FEATURE_SELECTED ? kOfOthers | ATTN_FEATURE_RAGGED
                         : (operation.feature & kOfCaches) != 0
                             ? kOfOthers | ATTN_FEATURE_RAGGED | ATTN_FEATURE_PAGED
                             : kOfOthers;
  const uint64_t blocks = operation.known.bits & ATTN_FEATURE_KEY_STEP;
  const KnownFeatures programs = {"a program of its own", forms | blocks | known};
  if (std::string why = unknown_features(programs, problem_of(c.problem).features); !why.empty())
    return why + ": attnfuzz replay shows the finding";
  const int64_t all = values_of(c);
  if (all <= kMaxExported) return "";
  return "the case holds " + std::to_string(all) + " values, a readable program at most " +
         std::to_string(kMaxExported) + ": make it smaller with attnfuzz reduce";
}

bool sanitizers(const std::string& build_kind) {
  return build_kind != "plain" && build_kind != "schedules" && build_kind != "coverage";
}

// True if any call of the case leaves an error that a standalone program sees. It always sees a call that
// fails outright.
bool shows(Execution& execution, const Reference& reference) {
  for (const Call& call : execution.c.calls) {
    if (!failure(execution.run(call)).empty()) return true;
    if (seen_from_exact_values(reference, execution.outputs())) return true;
  }
  return false;
}

// Why a program of its own would pass a failure of this kind; empty if it sees the failure. `written`: plan()
// wrote a tensor.
std::string unseen(Kind kind, bool written) {
  if (kind == Kind::kBadPlan) return "a program of its own does not judge the plan";
  if (kind == Kind::kRefusal && written) return "a program of its own does not see what plan() writes";
  if (kind == Kind::kSlow) return "a program of its own measures no time";
  return "";
}

bool is_of_values(Kind kind) {
  return kind == Kind::kWrong || kind == Kind::kNonFinite || kind == Kind::kUnwritten;
}

}  // namespace

bool seen_from_exact_values(const Reference& reference, const Outputs& outputs) {
  for (const Expected& due : reference.outputs) {
    if (spec_of(due.tensor).role == Role::kState && outputs.integers(due.tensor) != due.integer) return true;
    const std::vector<float>& got = outputs[due.tensor];
    if (got.empty()) continue;  // a kernel does not write an LSE that it was not asked for
    Expected exactly = due;
    for (size_t at = 0; at < due.value.size(); ++at)
      exactly.bound[at] = due.allowance(static_cast<int64_t>(at));
    if (!due.exact.empty()) exactly.value = due.exact;
    for (size_t at = 0; at < due.value.size(); ++at) {
      const auto n = static_cast<int64_t>(at);
      if (exactly.ratio(n / due.columns, n % due.columns, got[at]) > 1) return true;
    }
  }
  return false;
}

std::variant<Export, std::string> prepare_export(const Reproducer& r, Target& target,
                                                 const Calibration& calibration) {
  const Property* property = find_property(r.property);
  const Property* plainest = find_property("reference");
  if (!property) return "there is no property '" + r.property + "'";
  if (sanitizers(target.info().build_kind)) {
    return "the build " + target.info().build_kind +
           " needs a sanitizer's runtime, which a program of its own does not have: attnfuzz replay shows the "
           "finding; --build plain exports the case for the uninstrumented kernel";
  }
  if (const std::string why = unfit(r.c); !why.empty()) return why;
  Export e;
  e.r = r;
  e.c = r.c;
  e.kernel_name = target.info().exact_name.empty() ? target.info().name : target.info().exact_name;
  e.backend = target.info().backend;
  e.places.library = target.info().library;
  e.is_python = e.places.library.ends_with(".py");
  e.message = r.message;
  e.shape = r.shape;

  const Verdict verdict = judge(r.c, *property, target, calibration);
  Kind kind = Kind::kNone;
  if (verdict.outcome == Outcome::kFail) {
    if (verdict.failing) e.c = *verdict.failing;
    const Verdict alone = judge(e.c, *plainest, target, calibration);
    if (alone.outcome != Outcome::kFail) {
      return "property " + r.property + " compares several runs or stages, and each run is right by itself (" +
             verdict.message + "): one call does not show it; attnfuzz replay does";
    }
    e.fails = true;
    kind = alone.kind;
    e.message = alone.message;
    e.shape = text_of(alone.shapes);
  }
  if (const std::string why = unfit(e.c); !why.empty()) return why;
  const std::string elsewhere = "attnfuzz replay shows the finding";
  Execution execution(e.c, target);
  if (const std::string why = unseen(kind, execution.written_by_plan.has_value()); !why.empty())
    return why + " (" + e.message + "): " + elsewhere;
  if (failure(execution.planned).empty()) {
    e.plan = execution.plan;
  } else {
    // The kernel dies or refuses in plan(). The bounds do not matter then, but the program needs some.
    e.plan.size = sizeof e.plan;
    e.plan.tile_q = e.plan.tile_k = 64;
    e.plan.num_splits = 1;
  }
  for (const TensorId t : kInputs) e.derived[static_cast<size_t>(t)] = execution.laid.derived(t);
  e.cap = calibration.error_cap;
  e.reference = execution.operation.evaluate(execution.laid.problem(), execution.laid.given(), e.plan,
                                             calibration, {}, true);
  if (kind == Kind::kWrong && !shows(execution, e.reference)) {
    return "the results lie as near the exact ones as rounding may bring them, and are wrong only by how the "
           "kernel says that it rounds P (" +
           e.message + "): a program that knows only exact values would see nothing; attnfuzz replay does";
  }
  if (is_of_values(kind) && !shows(execution, e.reference))
    return "where the result is wrong (" + e.message +
           "), any value may lie, so a program of its own sees nothing: " + elsewhere;
  return e;
}

}  // namespace attnfuzz
