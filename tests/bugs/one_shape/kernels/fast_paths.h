// Selects the instantiations of the kernels' fast paths. Known bugs use this header and get few of them.
// The checks of fa1h and splitkh without a bug (../../both_paths) and mutants (tests/mutants/shapes) have
// their own headers of this name, which the compiler finds first.
#pragma once

namespace attn {

// True: a problem that a fast path does not take goes to the other path, as in the kernel. False: it is refused, so
// that a case is reduced on the fast path.
inline constexpr bool kBothPaths = false;

// One small instantiation of the sm_90a path serves all problems. kCausalShape adds one that stages O in the
// buffers of K and V, for causal problems. kEveryShape adds the other kinds that the kernel has.
inline constexpr bool kCausalShape = false;
inline constexpr bool kEveryShape = false;

}  // namespace attn
