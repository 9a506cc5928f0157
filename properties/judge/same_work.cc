#include "properties/judge/same_work.h"

#include <cstring>

#include "kernels/contract/plan_fields.h"

namespace attnfuzz {

std::string other_work(const attn_plan& a, const attn_plan& b) {
  const auto work = [](attn_plan plan) {
    // Clears fields that do not affect the arithmetic: sizes that grow with the problem.
    plan.workspace_bytes = plan.workspace_align = 0;
    plan.rescales = 0;
    std::memset(plan.path + strnlen(plan.path, sizeof plan.path), 0,
                sizeof plan.path - strnlen(plan.path, sizeof plan.path));
    return plan;
  };
  const attn_plan x = work(a), y = work(b);
  if (!a.deterministic || !b.deterministic) return "a plan is not deterministic";
  const auto *const from = reinterpret_cast<const char*>(&x), *const other = reinterpret_cast<const char*>(&y);
  for (const contract::PlanField& row : contract::kPlanFields) {
    if (std::memcmp(from + row.at.offset, other + row.at.offset, row.at.bytes) != 0) return std::string(row.at.name) + " differs";
  }
  return "";
}

}  // namespace attnfuzz
