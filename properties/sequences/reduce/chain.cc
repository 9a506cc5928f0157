#include "properties/sequences/reduce/chain.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "properties/sequences/reduce/canonical.h"
#include "properties/sequences/run/relations.h"
#include "properties/sequences/session/story.h"

namespace attnfuzz::sequences {
namespace {

class ChainReduction {
 public:
  ChainReduction(const Chain& all, const SessionResult& failed, const CheckChain& check, double seconds)
      : all_(by_itself(all, failed)),
        check_(check),
        end_(Clock::now() + std::chrono::duration<double>(seconds)) {
    best_.chain = all;
    best_.result = failed;
  }

  ReducedChain run() {
    again();
    if (!best_.again) return std::move(best_);
    without_others();
    reduce_last();
    for (size_t n = 0; n < best_.chain.before.size(); ++n) reduce_before(n);
    without_others();
    if (canonical()) reduce_last();
    return std::move(best_);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr int kRunsOfSimple = 3;

  // If the second session of a relation failed, the chain to reduce is that session after the first one.
  static Chain by_itself(const Chain& all, const SessionResult& failed) {
    Chain chain = all;
    const auto second = failed.second ? related(all.last) : std::nullopt;
    if (!second) return chain;
    chain.before.push_back(all.last);
    chain.before.back().relation = Relation::kNone;
    chain.last = second->session;
    return chain;
  }

  double left() const { return std::max(0.0, std::chrono::duration<double>(end_ - Clock::now()).count()); }

  bool take(Chain chain) {
    ++best_.evaluations;
    SessionResult result = check_(chain);
    if (!same_failure(result, best_.result)) return false;
    best_.chain = std::move(chain);
    best_.result = std::move(result);
    return best_.again = true;
  }

  // Makes the failure happen again with the last 0, 1, 2, 4, ... sessions before it. Does so even if there is
  // no time to reduce.
  void again() {
    for (size_t n = 0;; n = n == 0 ? 1 : n * 2) {
      const size_t kept = std::min(n, all_.before.size());
      if (take({all_.last, {all_.before.end() - static_cast<std::ptrdiff_t>(kept), all_.before.end()}})) return;
      if (kept == all_.before.size()) return;
    }
  }

  void without_others() {
    for (size_t chunk = std::max<size_t>(best_.chain.before.size() / 2, 1); chunk > 0; chunk /= 2) {
      for (size_t end = best_.chain.before.size(); end > 0 && left() > 0;) {
        const size_t begin = end > chunk ? end - chunk : 0;
        Chain fewer = best_.chain;
        fewer.before.erase(fewer.before.begin() + static_cast<std::ptrdiff_t>(begin),
                           fewer.before.begin() + static_cast<std::ptrdiff_t>(end));
        take(std::move(fewer));
        end = begin;
      }
    }
  }

  // Tries the simple sessions, without others before them.
  bool canonical() {
    for (const Session& session : canonical_sessions(best_.chain, best_.result.call)) {
      if (left() > 0 && take_simple({session, {}})) return true;
    }
    return false;
  }

  // A simple session may have a bug of its own. So it must fail each time, with the very kind of the chain's
  // failure. best_ changes only then.
  bool take_simple(const Chain& simple) {
    SessionResult result;
    for (int n = 0; n < kRunsOfSimple; ++n) {
      ++best_.evaluations;
      result = check_(simple);
      if (!same_failure(result, best_.result) || result.verdict.kind != best_.result.verdict.kind) return false;
    }
    best_.chain = simple;
    best_.result = std::move(result);
    return true;
  }

  void reduce_last() {
    Chain chain = best_.chain;
    keep(reduce_session(chain.last, best_.result, check_at(chain, chain.last), left()), chain, chain.last);
  }
  void reduce_before(size_t n) {
    Chain chain = best_.chain;
    Session& place = chain.before[n];
    keep(reduce_session(place, best_.result, check_at(chain, place), left()), chain, place);
  }

  // Judges the chain with a given session in this place of it.
  CheckSession check_at(Chain& chain, Session& place) const {
    return [this, &chain, &place](const Session& session) {
      place = session;
      return check_(chain);
    };
  }
  void keep(ReducedSession small, Chain& chain, Session& place) {
    place = std::move(small.session);
    best_.chain = std::move(chain);
    best_.result = std::move(small.result);
    best_.evaluations += small.evaluations;
  }

  const Chain all_;
  const CheckChain& check_;
  const std::chrono::time_point<Clock, std::chrono::duration<double>> end_;
  ReducedChain best_;
};

}  // namespace

size_t ReducedChain::steps() const {
  size_t sum = chain.last.steps.size();
  for (const Session& session : chain.before) sum += session.steps.size();
  return sum;
}

int64_t ReducedChain::pages() const {
  int64_t most = pages_used(chain.last);
  for (const Session& session : chain.before) most = std::max(most, pages_used(session));
  return most;
}

ReducedChain reduce_chain(const Chain& all, const SessionResult& failed, const CheckChain& check,
                          double seconds) {
  return ChainReduction(all, failed, check, seconds).run();
}

ReducedChain reduce_chain(const Chain& all, const SessionResult& failed, const SessionTargets& targets,
                          const CheckChain& check, double seconds) {
  const auto reduced = [&](bool brief) {
    std::vector<std::unique_ptr<BriefWatch>> watches;
    for (const SessionTarget& kernel : targets.all)
      watches.push_back(std::make_unique<BriefWatch>(*kernel.target, brief));
    return reduce_chain(all, failed, check, seconds);
  };
  if (failed.verdict.kind != Kind::kHang) return reduced(false);
  ReducedChain small = reduced(true);
  const bool hangs = small.again && same_failure(check(small.chain), failed);
  return hangs ? small : reduced(false);
}

}  // namespace attnfuzz::sequences
