// Draws cases in epochs, for a kernel that compiles anew for some parts of a problem.
//
// The kernel says for which parts of a problem it compiles anew, by the word "compiles=dtype,dim,causal" in its
// build's flags (a target in Python declares them). Then kCasesOfEpoch cases in a row share these parts, taken
// from a case that is drawn for the epoch. Their other parts are drawn as usual. Case `index` of a stream still
// depends only on the seed and the index.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "properties/case/features/generator_config.h"
#include "properties/judge/target/target.h"

namespace attnfuzz {

// About the number of properties. Properties take turns, so about each one judges each compilation.
inline constexpr uint64_t kCasesOfEpoch = 32;

// Returns the parts that the kernel's flags name. They may name "dtype", "batch", "heads", "seq", "dim",
// "causal", "lse", "bias", "mask", "key_lengths", "window", "softcap" and "scale". Empty: it does not compile
// as it runs.
std::vector<std::string> compiles_for(const std::string& flags);

// Draws a case like draw(), but takes the parts that the kernel compiles for from the epoch's case.
Case draw_in_epoch(const GeneratorConfig& config, const KernelInfo& kernel, uint64_t seed, uint64_t index);

}  // namespace attnfuzz
