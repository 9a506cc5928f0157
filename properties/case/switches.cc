#include "properties/case/switches.h"

#include <algorithm>
#include <vector>

#include "properties/case/features/feature.h"

namespace attnfuzz {

std::span<const Switch> switches() {
  static const auto all = [] {
    std::vector<const Feature*> features;
    for (const Feature* feature : all_features()) {
      const auto at = std::ranges::upper_bound(features, feature->turned_off, {}, &Feature::turned_off);
      features.insert(at, feature);
    }
    std::vector<Switch> switches;
    for (const Feature* feature : features) {
      switches.insert(switches.end(), feature->switches.begin(), feature->switches.end());
    }
    return switches;
  }();
  return all;
}

const Case& plain_case() {
  static const Case plain;
  return plain;
}

}  // namespace attnfuzz
