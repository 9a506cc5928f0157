#include "fuzz/check/takes/refusals.h"

#include <cmath>

#include "fuzz/check/takes/tried.h"
#include "properties/case/features/domain.h"
#include "properties/judge/execution.h"
#include "properties/operations/operation.h"

namespace attnfuzz {

void usual_scale(Case& c) { c.problem.scale = 1.0f / std::sqrt(static_cast<float>(c.problem.dim_qk)); }

void make_ordinary(const Target& target, Case& c) {
  usual_scale(c);
  c.env.variant = target.info().variants.empty() ? 0 : 1;
  const auto& domain = target.domain();
  if (!domain) return;
  fit(*domain, c);
  if (domain->align) c.problem.align = domain->align - 1;
}

std::optional<std::string> Taker::refusal(const Case& c) {
  const uint64_t features = target_.info().features;
  const std::vector<const Operation*> operations = operations_for(c.problem.features, features);
  if (operations.empty()) return refusal_of_call(c);
  for (const Operation* operation : operations) {
    Case call = c;
    make_call(*operation, call, features);
    if (operation_of(c.problem.features).feature != operation->feature) {
      shaped_as(c, call);
      if (target_.domain()) shaped_within(*target_.domain(), call);
    }
    if (illegal(call)) continue;  // its tensors may be too large: this operation is not asked about
    if (auto why = refusal_of_call(call)) return why;
  }
  return std::nullopt;
}

std::optional<std::string> Taker::refusal_of_call(const Case& asked) {
  Execution e(asked, target_);
  const PlanReply& planned = e.planned;
  faults_ += planned.status == ATTN_FAULT;
  if (planned.no_memory) return std::nullopt;
  if (planned.status == ATTN_UNSUPPORTED || planned.status == ATTN_INVALID) return planned.reason;
  const bool enough = spent_ > late_.seconds || gives_up();
  const bool runs = target_.info().refuses_late || late_.runs;
  if (!runs || enough || !e.why_not().empty()) return std::nullopt;
  const RunReply ran = e.run(asked.calls.front());
  spent_ += e.kernel_s;
  if (ran.no_memory) return std::nullopt;
  if (late_.runs) {
    if (auto why = not_taken(e, ran)) return why;
  }
  const bool raised = ran.status == ATTN_FAULT && !ran.crash && !ran.timed_out;
  if (ran.status == ATTN_UNSUPPORTED || (raised && late_.raised))
    return ran.fault ? ran.fault->message : "refused";
  faults_ += ran.status != ATTN_OK;
  return std::nullopt;
}

}  // namespace attnfuzz
