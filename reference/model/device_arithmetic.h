// The arithmetic of a GPU, and whether a device has confirmed it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "reference/model/arithmetic_names.h"

namespace attnfuzz {

// True if a device has confirmed the arithmetic (docs/results/bits.md). Others are as published.
inline bool is_proven(int32_t arithmetic) { return arithmetic == ATTN_ARITHMETIC_H200; }

// For messages: "device:a100 (as published, not proven)".
inline std::string arithmetic_words(int32_t arithmetic) {
  const bool published = arithmetic != ATTN_ARITHMETIC_ANY && !is_proven(arithmetic);
  return std::string(arithmetic_name(arithmetic)) + (published ? " (as published, not proven)" : "");
}

// The arithmetic of a GPU by its name ("NVIDIA A100-SXM4-80GB, sm_80"); ATTN_ARITHMETIC_ANY if it is not
// known.
inline int32_t arithmetic_of_device(std::string_view device) {
  constexpr std::pair<std::string_view, int32_t> kDevices[] = {
      {"H200", ATTN_ARITHMETIC_H200},
      {"H100", ATTN_ARITHMETIC_H200},  // the same chip with other memory
      {"A100", ATTN_ARITHMETIC_A100},
      {"L4", ATTN_ARITHMETIC_L40S}};
  for (const auto& [name, arithmetic] : kDevices)
    if (device.find(name) != std::string_view::npos) return arithmetic;
  return ATTN_ARITHMETIC_ANY;
}

}  // namespace attnfuzz
