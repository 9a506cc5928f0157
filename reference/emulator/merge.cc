#include <cmath>
#include <limits>

#include "reference/emulator/row.h"
#include "reference/emulator/sums.h"

namespace attnfuzz::emulator {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Adds up `numbers` numbers in `count` parts: add() adds the n-th number to part n mod count.
template <class Add>
std::vector<float> dealt(size_t count, size_t numbers, Add add) {
  std::vector<float> parts(count);
  for (size_t n = 0; n < numbers; ++n) parts[n % count] = add(parts[n % count], n);
  return parts;
}

}  // namespace

RowPart merge(const attn_plan& plan, const Device& device, const std::vector<RowPart>& parts) {
  float largest = -kInfinity;
  for (const RowPart& part : parts) largest = larger(largest, part.lse);
  const float against = largest == -kInfinity ? 0.0f : largest;
  std::vector<float> weights;
  for (const RowPart& part : parts) weights.push_back(device.ex2((part.lse - against) * kLog2e));
  const bool by_fours = plan.merge_order == ATTN_MERGE_BY_FOURS;
  const std::vector<float> sums =
      dealt(by_fours ? 4 : 32, parts.size(), [&](float sum, size_t s) { return sum + weights[s]; });
  const float total = by_fours ? in_order(sums) : in_pairs(sums);
  RowPart merged{std::vector<float>(parts[0].o.size()), -kInfinity};
  if (total == 0) return merged;
  const float inverse = device.rcp(total);
  for (size_t c = 0; c < merged.o.size(); ++c) {
    const auto add = [&](float sum, size_t s) { return std::fma(weights[s], parts[s].o[c], sum); };
    merged.o[c] = in_order(dealt(by_fours ? 4 : 1, parts.size(), add)) * inverse;
  }
  merged.lse = plan.lse_rule == ATTN_LSE_BY_FMA ? std::fma(device.lg2(total), kLn2, against)
                                                : against + device.lg2(total) * kLn2;
  return merged;
}

}  // namespace attnfuzz::emulator
