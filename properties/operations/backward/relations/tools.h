// Tools for the backward pass's relations, in addition to those of the forward pass.
#pragma once

#include "properties/case/features/shrink_toggles.h"
#include "properties/judge/judge.h"
#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::operations {
extern const Operation backward;
extern const Operation selected_backward;
}

namespace attnfuzz::relations {

// Sets dLSE to 0, if the case has one, for relations about dO alone.
inline void take_no_dlse(Case& c) {
  drop_planted(c, TensorId::kDlse);
  if ((c.problem.features & ATTN_FEATURE_DLSE) != 0) c.dlse = Fill{.kind = FillKind::kZero};
}

// Removes dLSE, dbias, dsink and the sinks, for relations about single queries and keys.
inline void ask_for_the_usual(Case& c) {
  c.problem.features &= ~(ATTN_FEATURE_DLSE | ATTN_FEATURE_DBIAS | ATTN_FEATURE_DSINK);
  tidy(c);
}

}  // namespace attnfuzz::relations
