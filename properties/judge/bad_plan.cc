#include "properties/judge/bad_plan.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "kernels/contract/plan_fields.h"
#include "properties/case/words.h"
#include "properties/memory/arena.h"
#include "properties/memory/layout.h"

namespace attnfuzz {
namespace {

static_assert(contract::find(contract::kPlanFields, "workspace_align")->high == kMaxWorkspaceAlign);

// Returns the valid values of a field, as "0..4", or as "0 or 5" if a choice has gaps.
std::string values_of(const contract::PlanField& row) {
  if (row.names.empty()) return cat(static_cast<int64_t>(row.low), "..", static_cast<int64_t>(row.high));
  std::vector<std::string> taken;
  for (size_t n = 0; n < row.names.size(); ++n) {
    if (n == 0 || row.names[n]) taken.push_back(std::to_string(n));
  }
  return taken.size() == row.names.size() ? cat("0..", taken.size() - 1) : join(taken, " or ");
}

bool takes(const contract::PlanField& row, double value) {
  if (row.names.empty()) return row.high == 0 || (value >= row.low && value <= row.high);
  return value == 0 || (value > 0 && value < static_cast<double>(row.names.size()) &&
                        row.names[static_cast<size_t>(value)] != nullptr);
}

// "tile_q is 0, must be 1..1048576 (1 will do for a kernel without tiles)"
std::optional<std::string> outside(const contract::PlanField& row, const attn_plan& p) {
  std::optional<std::string> why;
  contract::visit(row.at, &p, [&](auto value) {
    if (!takes(row, static_cast<double>(value)))
      why = cat(row.at.name, " is ", value, ", must be ", values_of(row), " (", row.hint, ")");
  });
  return why;
}

}  // namespace

std::optional<std::string> bad_plan(const attn_plan& p) {
  if (p.size < ATTN_PLAN_MIN)
    return "size is " + std::to_string(p.size) + ", must be at least " + std::to_string(ATTN_PLAN_MIN);
  if (!std::memchr(p.path, 0, sizeof p.path)) return "path has no terminating NUL";
  for (const contract::PlanField& row : contract::kPlanFields) {
    if (auto why = outside(row, p)) return why;
  }
  constexpr uint64_t kMostBytes = Arena::kSlotBytes - 4 * Arena::kPage;
  if (p.workspace_bytes > kMostBytes)
    return cat("workspace_bytes is ", p.workspace_bytes, ", must be 0..", kMostBytes, " (0 means: none)");
  // Written so that a NaN is refused, too.
  if (!(p.exp_error >= 0 && p.exp_error < 0.25f))
    return "exp_error is " + std::to_string(p.exp_error) + ", must be 0 (as exp_class says) or below 0.25";
  for (const auto& [field, scale] : {std::pair{"p_scale", p.p_scale}, std::pair{"v_scale", p.v_scale}}) {
    if (scale == 0 || (scale >= 0x1p-60f && scale <= 0x1p60f)) continue;
    return std::string(field) + " is " + std::to_string(scale) +
           ", must be 0 (it stays as it is) or 2^-60..2^60";
  }
  const float most = p.p_format == ATTN_FORMAT_E4M3 ? 448 : p.p_format == ATTN_FORMAT_E5M2 ? 57344 : INFINITY;
  if (p.p_scale > most)
    return "p_scale is " + std::to_string(p.p_scale) + ", must be at most " + std::to_string(most) +
           ": a P of 1 times that overflows p_format";
  if (p.max_rule == ATTN_MAX_RUNNING && p.key_order != ATTN_KEYS_ASCENDING &&
      p.key_order != ATTN_KEYS_DESCENDING)
    return "max_rule is ATTN_MAX_RUNNING, which needs a key_order that is ascending or descending";
  const char* const last = p.max_rule == ATTN_MAX_RUNNING           ? "max_rule ATTN_MAX_RUNNING"
                           : p.sum_rule == ATTN_SUM_OF_ROUNDED_P    ? "sum_rule ATTN_SUM_OF_ROUNDED_P"
                           : p.merge_format == ATTN_FORMAT_OF_INPUT ? "merge_format ATTN_FORMAT_OF_INPUT"
                                                                    : nullptr;
  if (p.p_order == ATTN_P_NORMALISED && last != nullptr)
    return std::string("p_order is ATTN_P_NORMALISED, but with ") + last + " the sum divides O at the end";
  if (!std::has_single_bit(p.workspace_align)) {
    return "workspace_align is " + std::to_string(p.workspace_align) + ", must be a power of two";
  }
  return std::nullopt;
}

}  // namespace attnfuzz
