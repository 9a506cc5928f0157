// Converts libFuzzer's bytes to cases and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "properties/case/case.h"
#include "properties/draw/generator.h"

namespace attnfuzz {

// The case of a unit: a case's text or a reproducer's. Nothing, with the reason, if it is neither. The case
// may be illegal.
std::optional<Case> case_of(std::string_view unit, std::string* why = nullptr);

// A mutated unit of at most `most` bytes: the text of a drawn case if the unit is not one. Empty if
// no legal case is short enough; this happens only if `most` is below 200.
std::string mutated(std::string_view unit, const GeneratorConfig& config, uint64_t seed, size_t most);
std::string crossed(std::string_view a, std::string_view b, const GeneratorConfig& config, uint64_t seed,
                    size_t most);

}  // namespace attnfuzz
