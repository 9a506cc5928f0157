// Checks by a kernel's output that its key tiles are where its plan says.
//
// The draw aims at tile borders, and takes their places from the plan. If the plan is wrong, the draw misses
// them silently. Kernels that round P to fp16 show their tiles. One query gives key J a score of 20.5 and every
// other key a score of 0. In J's tile, P of another key is e^-20.5, which fp16 rounds to 0. In an earlier tile
// P was 1, and e^-20.5 of it is left when the accumulator is rescaled in fp32. V is 60000 at one key for each
// column, so the columns of O that are not 0 say which keys lie in earlier tiles.
//
//   const KeyTiles tiles = show_key_tiles(target, domain);
//   std::printf("  %s\n", words(tiles).c_str());
//
// It runs the kernel about ten times. If the kernel does not take such a problem, nothing is shown. If plan()
// or run() ends badly, the check does not pass, and `broken` says how it ended.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/attention.h"
#include "properties/judge/target/target.h"

namespace attnfuzz {

struct KeyTiles {
  int64_t queries = 0, keys = 0;  // of a tile, by the plan; 0: there is no plan
  std::string refusal = {};       // why there is no plan
  std::string broken = {};        // how plan() or run() ended, if not well: "the worker died: SIGSEGV"
  std::string sizes = {};         // of the case that was run, as --domain takes them
  int64_t shown = 0;  // the greatest common divisor of the borders that were seen; 0: none were seen
  // True if neither number is a multiple of the other. A multiple is fine, because some kernels
  // keep a maximum for a part of a tile, or for several tiles.
  bool contradicted() const { return shown > 0 && keys > 0 && shown % keys != 0 && keys % shown != 0; }
};
KeyTiles show_key_tiles(Target& target, const std::optional<attn_domain>& domain);

// "tiles: 64 queries and 64 keys by plan(); its output confirms the keys, the queries are not checked"
std::string words(const KeyTiles& tiles);

}  // namespace attnfuzz
