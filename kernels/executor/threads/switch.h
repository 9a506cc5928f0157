// Switching from one fiber to another.
//
// On x86-64 our switch ends in a return instruction, not in a jump as Boost.Context's does. This keeps the
// processor's return predictor right: lanes of a warp have the same callers, so all returns after the switch
// are predicted. A barrier costs half of what it costs with the jump. Floating-point control words are not
// saved, because kernels do not change them. Other processors use Boost.Context.
#pragma once

#include <stdint.h>

#include "kernels/executor/threads/stacks.h"

#ifndef __x86_64__
#include <boost/context/detail/fcontext.hpp>
#endif

namespace simt {

// The point at which a suspended fiber continues; null if there is none.
using Context = void*;

#ifdef __x86_64__

// Stores this fiber's context in *from, and continues the fiber of context `to`. Returns when another fiber
// switches to the stored context.
extern "C" void simt_switch_context(Context* from, Context to);

inline void switch_context(Context* from, Context to) { simt_switch_context(from, to); }

// A fiber that begins with entry(), which must not return.
inline Context new_context(Stack stack, void (*entry)()) {
  auto* frame = reinterpret_cast<uintptr_t*>(reinterpret_cast<uintptr_t>(stack.top()) & ~uintptr_t{15});
  *--frame = 0;  // where entry() would return to
  *--frame = reinterpret_cast<uintptr_t>(entry);
  for (int saved = 0; saved < 6; ++saved) *--frame = 0;
  return frame;
}

#else

// Boost passes the context of the fiber that was left; this stores it on arrival.
inline void store_departure(boost::context::detail::transfer_t arrival) {
  *static_cast<Context*>(arrival.data) = arrival.fctx;
}

inline void switch_context(Context* from, Context to) {
  store_departure(boost::context::detail::jump_fcontext(to, from));
}

inline Context new_context(Stack stack, void (*entry)()) {
  // The first switch passes the entry to the fiber, and returns.
  const auto begin = [](boost::context::detail::transfer_t arrival) {
    const auto begin_with = reinterpret_cast<void (*)()>(arrival.data);
    store_departure(boost::context::detail::jump_fcontext(arrival.fctx, nullptr));
    begin_with();
  };
  const auto made = boost::context::detail::make_fcontext(stack.top(), stack.size, begin);
  return boost::context::detail::jump_fcontext(made, reinterpret_cast<void*>(entry)).fctx;
}

#endif

}  // namespace simt
