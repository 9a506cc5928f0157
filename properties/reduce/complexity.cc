#include "properties/reduce/complexity.h"

#include "properties/case/features/feature.h"

namespace attnfuzz {

std::vector<int64_t> complexity(const Case& c) {
  Cost cost;
  for (const Feature* feature : all_features()) feature->cost(c, cost);
  return cost.take();
}

}  // namespace attnfuzz
