// Makes refusals, for tests of the cases that are drawn for a kernel that refuses.
#pragma once

#include <gtest/gtest.h>

#include <set>
#include <string_view>

#include "properties/case/features/feature.h"

namespace attnfuzz {

// Refuses the features of these names, and head dimensions above 64.
inline Refused refused(const std::set<std::string_view>& names) {
  attn_domain sizes = {};
  sizes.dim_qk.most = sizes.dim_v.most = 64;
  Refused refused{.sizes = sizes};
  for (const Feature* feature : all_features()) {
    for (const Refusal& refusal : feature->refusals) {
      if (names.contains(refusal.name)) refused.those.push_back(&refusal);
    }
  }
  EXPECT_EQ(refused.those.size(), names.size());
  return refused;
}

}  // namespace attnfuzz
