#include <algorithm>
#include <string>

#include "kernels/forward/shapes.h"

namespace attn {

Refusal choose_shape(std::span<const ShapeSpec> shapes, const attn_problem& problem, const attn_env& env,
                     size_t* index) {
  const int64_t needed = std::max(problem.dim_qk, problem.dim_v);
  int most = 0, last_variant = 0;
  for (const ShapeSpec& shape : shapes) {
    most = std::max(most, shape.dim);
    last_variant = std::max(last_variant, shape.variant);
  }
  if (needed > most) {
    return {ATTN_UNSUPPORTED,
            "compiled for head dimensions up to " + std::to_string(most) + ", not " + std::to_string(needed)};
  }
  if (env.variant < 0 || env.variant > last_variant) {
    return {ATTN_INVALID,
            "variant " + std::to_string(env.variant) + " is not one of 0.." + std::to_string(last_variant)};
  }
  const auto fits = [&](const ShapeSpec& shape) {
    return static_cast<int64_t>(shape.shared()) <= env.shared_memory_limit;
  };
  const ShapeSpec* best = nullptr;
  const ShapeSpec* smallest = nullptr;
  for (const ShapeSpec& shape : shapes) {
    if (shape.dim < needed) continue;
    if (smallest == nullptr || shape.shared() < smallest->shared()) smallest = &shape;
    if (env.variant == 0 ? !fits(shape) : shape.variant > env.variant) continue;
    const bool better =
        best == nullptr || shape.dim < best->dim || (shape.dim == best->dim && shape.variant > best->variant);
    if (better) best = &shape;
  }
  if (best == nullptr) best = smallest;
  if (!fits(*best)) {
    return {ATTN_UNSUPPORTED, "needs " + std::to_string(best->shared()) +
                                  " bytes of shared memory a block; the limit is " +
                                  std::to_string(env.shared_memory_limit)};
  }
  *index = static_cast<size_t>(best - shapes.data());
  return {};
}

}  // namespace attn
