// The list of tile shapes that a kernel is compiled for. The launch, the plan and the size of shared memory all
// derive from it.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <utility>

#include "kernels/forward/attend.h"
#include "kernels/forward/checks.h"

namespace attn {

struct ShapeSpec {
  int variant;  // as in attn_env: 1 is the smallest
  int dim, tile_q, tile_k;

  // Dynamic shared memory of a block, in bytes: one Q tile, two K and two V
  // tiles of a 16-bit format. Each is a multiple of kTileAlign, so that no
  // space is lost between them.
  constexpr size_t shared() const { return (tile_q + 4 * tile_k) * dim * sizeof(uint16_t); }
};

// Chooses the shape for a problem: the smallest dim that has room for it, and among the shapes with this dim
// the requested variant. If that does not exist, the largest variant below it. Variant 0 means the largest
// variant that fits the shared memory of a block.
Refusal choose_shape(std::span<const ShapeSpec> shapes, const attn_problem& problem, const attn_env& env,
                     size_t* index);

// Calls launch.template operator()<TileShape<T, ...>>() for entry `index` of kShapes.
template <class T, const auto& kShapes, class Launch>
attn_status with_shape(size_t index, Launch launch) {
  attn_status status = ATTN_INVALID;
  [&]<size_t... I>(std::index_sequence<I...>) {
    (void)((I == index &&
            (status = launch.template
                      operator()<TileShape<T, kShapes[I].dim, kShapes[I].tile_q, kShapes[I].tile_k>>(),
             true)) ||
           ...);
  }(std::make_index_sequence<kShapes.size()>{});
  return status;
}

}  // namespace attn
