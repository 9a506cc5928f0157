// Names the path that a case takes through a kernel, and finds cases that take a given one.
//
// A kernel has several where some problems take a faster path than others, and a draw that is
// fair to problems may hardly ever meet one of them.
//
//   attnfuzz check fa1 --backend cuda --path wgmma
#pragma once

#include <set>
#include <string>

#include "properties/draw/generator.h"
#include "properties/judge/target.h"

namespace attnfuzz {

// The plan's path, to be printed; empty without a plan.
std::string path_of(const attn_plan& plan);

// The plan's path without its sizes: its words up to a bracket that hold no digit. "64x64 d128
// packed split wgmma": "packed split wgmma"; "64x64 d64 elementwise(qk)": "elementwise". All of
// it, where none is left.
std::string path_name(const attn_plan& plan);

// True if all words of `asked` are among those of `path`: "wgmma" is part of "packed split wgmma".
bool goes(const std::string& path, const std::string& asked);

// The paths through a kernel, as its plans of dense problems of all kinds and of a hundred drawn cases have
// them, in each of its variants: what it names itself, or takes in rarer cases only, may be missing.
std::set<std::string> paths_through(const GeneratorConfig& config, Target& target);

// Case `index` of those of the stream `seed` that take the path asked for: the first that does,
// of as many draws as it takes; each as drawn and with its other variants. Throws
// std::runtime_error, with the paths that were met, if none of a thousand does.
Case draw_on_path(const GeneratorConfig& config, uint64_t seed, uint64_t index, const std::string& asked,
                  Target& target);

}  // namespace attnfuzz
