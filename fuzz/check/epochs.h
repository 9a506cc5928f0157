// Cases in epochs, for a kernel that compiles for what it is called with.
//
// It says which parts of a problem it compiles anew for: the word "compiles=dtype,dim,causal" in its build's
// flags, where a target in Python has what it declares. So many cases one after the other then share these,
// those of a case drawn for the epoch, and all else of them is drawn as ever. Case `index` of a stream is still
// the same wherever it is drawn.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "properties/case/generator_config.h"
#include "properties/judge/target.h"

namespace attnfuzz {

// As many as there are about properties, which take turns: each judges each compilation.
inline constexpr uint64_t kCasesOfEpoch = 32;

// Returns those of "dtype", "batch", "heads", "seq", "dim", "causal", "lse", "bias", "mask", "key_lengths",
// "window", "softcap" and "scale" that the kernel's flags name. Empty: it does not compile as it runs.
std::vector<std::string> compiles_for(const std::string& flags);

// draw(), but that what the kernel compiles for is its epoch's.
Case draw_in_epoch(const GeneratorConfig& config, const KernelInfo& kernel, uint64_t seed, uint64_t index);

}  // namespace attnfuzz
