// The layout of a tensor in a case, and the layouts that no longer fit after Operation::shape() has changed
// sizes.
#pragma once

#include <initializer_list>

#include "properties/case/places/geometry.h"

namespace attnfuzz {

inline TensorLayout& layout_of(Case& c, TensorId t) { return c.layout[static_cast<size_t>(t)]; }
inline const TensorLayout& layout_of(const Case& c, TensorId t) { return c.layout[static_cast<size_t>(t)]; }

// Makes tensors dense whose layouts were drawn for other sizes and do not fit.
inline void drop_misfits(Case& c, std::initializer_list<TensorId> tensors) {
  for (const TensorId t : tensors) {
    if (!geometry(c, t)) layout_of(c, t) = {};
  }
}

}  // namespace attnfuzz
