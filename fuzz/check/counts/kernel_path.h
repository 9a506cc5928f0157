// Names the path that a case takes through a kernel, and finds cases that take a given one.
//
// A kernel may have several paths, for instance a fast one for some problems. A draw may hardly ever meet one
// of them.
//
//   attnfuzz check fa1 --backend cuda --path wgmma
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "properties/draw/generator.h"
#include "properties/judge/property.h"
#include "properties/judge/target/target.h"

namespace attnfuzz {

// The plan's path, to be printed; empty without a plan.
std::string path_of(const attn_plan& plan);

// The plan's path without its sizes: its words without digits, each up to a bracket. "64x64 d128 packed split
// wgmma" becomes "packed split wgmma", and "64x64 d64 elementwise(qk)" becomes "elementwise". If no word is
// left, it is the whole path.
std::string path_name(const attn_plan& plan);

// True if all words of `asked` are among those of `path`: "wgmma" is part of "packed split wgmma".
bool goes(const std::string& path, const std::string& asked);

// The paths through a kernel that its plans name, for each of its operations, for dense problems of all kinds and for a
// hundred drawn cases, in each variant. Paths that only rarer cases take may be missing.
std::set<std::string> paths_through(const GeneratorConfig& config, Target& target);

// A drawn case, and the property that is asked of it.
struct Drawn {
  Case c;
  const Property* property;
};

// Draws cases for (seed, index) until the call of a property takes the path, in the drawn variant or another.
//   asked       the path
//   properties  at least one; the first comes first. The others are tried after four drawn cases that take
//               the path by the property `reference`, but not by the first one. For instance, many properties make
//               no packed call
//   most        draws at most. If one in a hundred takes the path, a check of 20,000 cases meets a thousand in a row
//               that do not
// Returns nothing if none of `most` cases will do; `why` then has the paths that were met.
std::optional<Drawn> draw_on_path(const GeneratorConfig& config, uint64_t seed, uint64_t index,
                                  const std::vector<const Property*>& properties, const std::string& asked, uint64_t most,
                                  Target& target, std::string* why);

}  // namespace attnfuzz
