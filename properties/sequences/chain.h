// Finds what a failure needs that came in a process which had run other sessions before.
//
//   auto small = reduce_chain({session, before}, failed, [&](const Chain& c) { return check_chain(c, targets); }, 60);
//   if (!small.again) ...               // it did not fail again: the chain is as it was given
//   if (small.chain.before.empty()) ... // the session fails by itself, in a new process
//
// The session is tried by itself first, then behind the last one, two, four of those before it. Of these the ones that
// are not needed are dropped, and then each session that is left is reduced (reduce.h).
#pragma once

#include <functional>

#include "properties/sequences/reduce.h"

namespace attnfuzz::sequences {

struct ReducedChain {
  Chain chain;
  SessionResult result;
  int evaluations = 0;
  bool again = false;  // it has failed again in new processes

  size_t steps() const;   // of all sessions
  int64_t pages() const;  // the most that one of them uses
};

// Runs a chain in new processes.
using CheckChain = std::function<SessionResult(const Chain&)>;

ReducedChain reduce_chain(const Chain& all, const SessionResult& failed, const CheckChain& check, double seconds);

}  // namespace attnfuzz::sequences
