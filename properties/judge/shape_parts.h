// The half of error_shape() that looks at places; the other is in shape_values.cc.
#pragma once

#include "properties/judge/shape.h"

namespace attnfuzz {

// "only query tile 0", "only head 3", "columns >= 64 only", "every other row";
// empty where all of the output is bad, or none of these.
Shape shape_of_places(const ShapeInput& input);

}  // namespace attnfuzz
