#include "properties/case/switches.h"

#include <algorithm>
#include <vector>

#include "properties/case/feature.h"

namespace attnfuzz {

std::span<const Switch> switches() {
  static const auto all = [] {
    std::vector<Switches> features;
    for (const Feature* feature : all_features()) {
      const auto at = std::ranges::upper_bound(features, feature->switches.place, {}, &Switches::place);
      features.insert(at, feature->switches);
    }
    std::vector<Switch> switches;
    for (const Switches& some : features) switches.insert(switches.end(), some.all.begin(), some.all.end());
    return switches;
  }();
  return all;
}

std::span<const Dial> dials() {
  static const auto all = gather(&Feature::dials, &Dial::kind);
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
