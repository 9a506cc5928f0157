// The instantiations of the kernels' fast paths. A known bug gets as few as show it. The checks
// of a right fa1h and splitkh (../../both_paths) and mutants (tests/mutants/shapes) find theirs first.
#pragma once

namespace attn {

// True: a problem that a fast path does not take goes the other way, as in the kernel. False: it is refused, so that
// a case is reduced on the fast path alone.
inline constexpr bool kBothPaths = false;

// One small instantiation of the sm_90a path serves all problems. Besides it: one whose O leaves through
// K and V, of causal problems; and each other kind that the kernel has.
inline constexpr bool kCausalShape = false;
inline constexpr bool kEveryShape = false;

}  // namespace attn
