// A session failed in a process that had run other sessions before. Finds which of these the failure needs.
//
//   auto small = reduce_chain({session, before}, failed, [&](const Chain& c) { return check_chain(c, targets); }, 60);
//   if (!small.again) ...               // it did not fail again; small.chain is the given chain
//   if (small.chain.before.empty()) ... // the session fails alone, in a new process
//
// The session is first tried alone, then after the last one, two, four, ... sessions before it. Sessions that
// are not needed are dropped, and then each remaining session is reduced (reduce.h).
#pragma once

#include <functional>

#include "properties/sequences/reduce/reduce.h"

namespace attnfuzz::sequences {

struct ReducedChain {
  Chain chain;
  SessionResult result;
  int evaluations = 0;
  bool again = false;  // the failure occurred again in new processes

  size_t steps() const;   // of all sessions
  int64_t pages() const;  // the maximum over the sessions
};

// Runs a chain in new processes.
using CheckChain = std::function<SessionResult(const Chain&)>;

ReducedChain reduce_chain(const Chain& all, const SessionResult& failed, const CheckChain& check,
                          double seconds);

// Does this with `targets`, which `check` uses. A hang is reduced with the brief watch, and must then also hang
// with the full watch; otherwise it is reduced with the full watch.
ReducedChain reduce_chain(const Chain& all, const SessionResult& failed, const SessionTargets& targets,
                          const CheckChain& check, double seconds);

}  // namespace attnfuzz::sequences
