// The two halves of error_shape(), which see the same input.
#pragma once

#include "properties/judge/shape.h"

namespace attnfuzz {

// "only query tile 0", "only head 3", "columns >= 64 only", "every other row";
// empty where all of the output is bad, or none of these.
Shape shape_of_places(const ShapeInput& input);

// "all NaN", "constant ratio 1.48", "grows with the row", "only the last key's
// contribution"; empty if none of these.
Shape shape_of_values(const ShapeInput& input);

}  // namespace attnfuzz
