// The names of attn_env's arithmetics in files and commands.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

#include "kernels/attention.h"

namespace attnfuzz {

inline constexpr const char* kArithmeticNames[] = {"any", "device:h200", "device:a100",
                                                   "device:l40s"};  // by attn_arithmetic

inline const char* arithmetic_name(int32_t arithmetic) { return kArithmeticNames[arithmetic]; }

inline std::optional<int32_t> arithmetic_named(std::string_view name) {
  const auto at =
      std::ranges::find(kArithmeticNames, name, [](const char* each) { return std::string_view(each); });
  if (at == std::end(kArithmeticNames)) return std::nullopt;
  return static_cast<int32_t>(at - std::begin(kArithmeticNames));
}

}  // namespace attnfuzz
