// Checks by a kernel's output that its key tiles are where its plan says.
//
// A draw aims at borders between tiles, and takes their place from the plan. A plan that is wrong about them
// blunts the draw without a word. Kernels that round P to fp16 show their tiles: one query gives every key a
// score of 0 and key J one of 20.5. With J in its tile, P of another key is e^-20.5, which fp16 rounds to 0. In
// an earlier tile it was 1, and e^-20.5 of it is left when the accumulator is rescaled in fp32. With V = 60000
// at one key a column, the columns of O that are not 0 say which keys lie in earlier tiles.
//
//   const KeyTiles tiles = show_key_tiles(target, domain);
//   std::printf("  %s\n", words(tiles).c_str());
//
// It runs the kernel some ten times. A kernel that does not take such a problem shows nothing. One that does
// not end well is no pass: `broken` says how it ended.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/attention.h"
#include "properties/judge/target.h"

namespace attnfuzz {

struct KeyTiles {
  int64_t queries = 0, keys = 0;  // of a tile, as the plan says; 0: there is no plan
  std::string refusal = {};       // why there is none
  std::string broken = {};        // how plan() or run() ended, if not well: "the worker died: SIGSEGV"
  std::string sizes = {};         // of the case that was run, as --domain takes them
  int64_t shown = 0;              // what divides all borders between tiles of keys that were seen; 0: none were
  // Neither is a multiple of the other: some kernels keep a maximum for a part of a tile, or for several.
  bool contradicted() const { return shown > 0 && keys > 0 && shown % keys != 0 && keys % shown != 0; }
};
KeyTiles show_key_tiles(Target& target, const std::optional<attn_domain>& domain);

// "tiles: 64 queries and 64 keys by plan(); its output shows the keys', the queries' are believed"
std::string words(const KeyTiles& tiles);

}  // namespace attnfuzz
