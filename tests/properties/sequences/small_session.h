// A small cache for tests of sessions, and a step of its model.
#pragma once

#include <gtest/gtest.h>

#include "properties/sequences/session/model.h"

namespace attnfuzz::sequences {

inline constexpr uint64_t kFeatures = ATTN_FEATURE_INDEX32 | ATTN_FEATURE_PAGED;

inline Setup small() {
  Setup s;
  s.page_size = 4, s.pages = 6, s.capacity = 12;
  return s;
}

inline void take(Model& model, const Step& step) {
  ASSERT_FALSE(model.objection(step)) << *model.objection(step);
  model.take(step);
}

}  // namespace attnfuzz::sequences
