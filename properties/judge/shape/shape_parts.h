// The half of error_shape() that looks at places; shape_values.cc has the other half.
#pragma once

#include "properties/judge/shape/shape.h"

namespace attnfuzz {

// "only query tile 0", "only head 3", "columns >= 64 only", "every other row"; empty if the whole output is
// bad, or if no pattern fits.
Shape shape_of_places(const ShapeInput& input);

}  // namespace attnfuzz
