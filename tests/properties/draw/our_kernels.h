// A draw for kernels like fa1 and splitk: two variants with tiles of their own, and splits.
#pragma once

#include "properties/case/features/generator_config.h"

namespace attnfuzz {

inline GeneratorConfig config_of_our_kernels() {
  GeneratorConfig config;
  config.variants = 2;
  config.tiles_q = {64};
  config.tiles_k = {64, 32};
  config.splits = true;
  return config;
}

}  // namespace attnfuzz
