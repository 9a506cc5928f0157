// The situations of attention that a judged case has met, as small numbers. A fuzzer collects them beside
// the kernel's code coverage.
//
// Code coverage knows which lines ran. It does not know that the last KV tile was fully masked, that a window ended on
// a tile's border, or that the error came within a factor of two of its bound. Each of these has an id below
// kSituations. There are only hundreds of them, because each one keeps an input of its own in a corpus. Those of
// one axis are classes of the table of axes (properties/axes/axis.h). Splits are those of the plan, and if the kernel
// chose their number, this is a situation as well.
//
//   for (uint16_t id : situations(c, verdict)) ++counters[id];
//   puts(situation_name(id).c_str());   // "last kv tile dead", "keys in tiles: 2 tiles and 1"
//
// Situations depend only on the case and on the verdict's outcome, kind, plan and worst, not on time, place or
// process. In a large case, the tiles of a few heads and rows are examined. Ids keep their meaning within one
// build only: store cases, not ids.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "properties/case/case.h"
#include "properties/judge/verdict.h"

namespace attnfuzz {

inline constexpr uint16_t kSituations = 1024;  // capacity
int situation_count();                         // number of ids with a name

// The ids, ascending, each once. A case that never ran (the kernel refused it, or the plan failed) has only its
// outcome and its kind.
std::vector<uint16_t> situations(const Case& c, const Verdict& verdict);

// The name of a situation, for people; "" if the id has none.
std::string situation_name(uint16_t id);

}  // namespace attnfuzz
