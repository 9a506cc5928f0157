// The index in the recipe of the element that lies at index i of a case (case.h, Axis), on a host and on a
// device.
#pragma once

#include "base/both.h"
#include "properties/case/case.h"

namespace attnfuzz {

// `key_length`: the value of Axis::kKeyLength.
ATTN_BOTH inline int64_t source(const Axis& axis, int64_t i, int64_t key_length) {
  const int64_t at = axis.repeat > 1 ? i / axis.repeat : i;
  const int64_t modulus = axis.modulus == Axis::kKeyLength ? key_length : axis.modulus;
  if (axis.modulus == 0) return axis.multiply * at + axis.add;
  if (at >= modulus) return at;
  const int64_t remainder = (axis.multiply * at + axis.add) % modulus;
  return remainder < 0 ? remainder + modulus : remainder;
}

}  // namespace attnfuzz
