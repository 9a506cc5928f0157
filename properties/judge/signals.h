// What a judged case has shown: small numbers that say which situations of
// attention it met, for a fuzzer to collect beside the kernel's own coverage.
//
// Coverage knows which lines ran; it does not know that the last KV tile was
// fully masked, that a window ended on a tile's border, or that the error came
// within a factor of two of its bound. Each such thing is one signal, an id below
// kSignals: hundreds, for each keeps an input of its own in a corpus.
//
//   for (uint16_t id : signals(c, verdict)) ++counters[id];
//   puts(signal_name(id).c_str());   // "last kv tile dead", "bf16: causal with splits"
//
// Depends on the case and on the verdict's outcome, kind, plan and worst alone: not
// on time, place or process. Tiles are looked at in a few heads and rows of a large
// case. Ids keep their meaning only within one build: store cases, not ids.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "properties/case/case.h"
#include "properties/judge/verdict.h"

namespace attnfuzz {

inline constexpr uint16_t kSignals = 1024;  // room for them
int signal_count();                         // so many have a name

// Ascending, each once. Of a case that never ran (rejected by the kernel, or a
// plan that failed): its outcome alone.
std::vector<uint16_t> signals(const Case& c, const Verdict& verdict);

// What a signal says, for a person; "" for an id that stands for nothing.
std::string signal_name(uint16_t id);

}  // namespace attnfuzz
