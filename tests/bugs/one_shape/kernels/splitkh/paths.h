// What becomes of a problem that splitk's decode path does not take: for known bugs of
// that path it is refused, so that a case is reduced on it alone. (The checks of a right
// splitkh have this header from ../../../both_paths: there it goes the other way.)
#pragma once

namespace attn {

inline constexpr bool kBothPaths = false;

}  // namespace attn
