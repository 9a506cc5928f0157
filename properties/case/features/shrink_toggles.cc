#include "properties/case/features/shrink_toggles.h"

#include <algorithm>
#include <vector>

#include "properties/case/features/feature.h"

namespace attnfuzz {

std::span<const ShrinkToggle> shrink_toggles() {
  static const auto all = [] {
    std::vector<ShrinkToggles> features;
    for (const Feature* feature : all_features()) {
      const auto at =
          std::ranges::upper_bound(features, feature->shrink_toggles.place, {}, &ShrinkToggles::place);
      features.insert(at, feature->shrink_toggles);
    }
    std::vector<ShrinkToggle> shrink_toggles;
    for (const ShrinkToggles& some : features)
      shrink_toggles.insert(shrink_toggles.end(), some.all.begin(), some.all.end());
    return shrink_toggles;
  }();
  return all;
}

std::span<const ShrinkInteger> shrink_integers() {
  static const auto all = gather(&Feature::shrink_integers, &ShrinkInteger::kind);
  return all;
}

void tidy(Case& c) {
  for (const Feature* feature : all_features()) feature->tidy(c);
}

const Case& plain_case() {
  static const Case plain;
  return plain;
}

}  // namespace attnfuzz
