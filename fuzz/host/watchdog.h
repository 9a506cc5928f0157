// The time that a call of a kernel may take before it counts as a hang.
//
// On the CPU the watchdog counts processor time. A worker that waits on a busy machine uses none, and a worker
// that spins is ended as soon as it has used too much. The clock ends only workers that sleep. On a GPU there
// is only the clock.
//
// A call may use a fixed time, and more in proportion to the size of its problem. On the executor, our kernels
// take 0.2 ms for a drawn case in the median, and some 1e-10 s for a unit of work. MemorySanitizer at -O0, the
// slowest build, takes twenty times as long. A GPU does a unit in some 1e-13 s; the plainest kernel of a few
// threads takes 1e-9 s. The full allowance is so large that neither a slow kernel nor a sanitizer comes near
// it. The brief allowance, a twentieth, is for trying many cases of which some may hang. A hang is reported
// only if a call has used up the full allowance.
//
// A call that has used up its processor time is slow if the executor ended a block in the last half of it, and
// stuck otherwise. A stuck call is ended at once. A slow call continues as long as a block ends in each further
// half of the allowance, up to kTimesSlow allowances. A brief watch gives no such extra time. An untrusted
// kernel gets none either, because it can write any progress that it likes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/attention.h"

namespace attnfuzz {

// The multiply-adds of a kernel that computes whole tiles of 64 x 64, in steps of 64 columns, and computes one
// tile in each block and split even without keys. Negative sizes count as 0.
inline double work_of(const attn_problem& p, int64_t splits) {
  const auto whole = [](int64_t n) {
    return static_cast<double>(std::max<int64_t>(n, 0) / 64 + (n > 0 && n % 64 > 0)) * 64;
  };
  const double blocks = static_cast<double>(std::max<int64_t>(p.batch, 0)) *
                        static_cast<double>(std::max<int64_t>(p.heads_q, 0)) * whole(p.seq_q);
  const double keys = whole(p.seq_k) + 64 * static_cast<double>(std::max<int64_t>(splits, 1));
  return blocks * keys * 2 * whole(std::max(p.dim_qk, p.dim_v));
}

// The seconds that a run may take. `watchdog` is the time for a run without work. (A plan has no work, however
// large the problem is.)
inline double allowance(double watchdog, const attn_problem& problem, int64_t splits, int32_t backend) {
  constexpr double kMost = 86400;
  const double share_of_work = backend == ATTN_CPU ? 1e-8 : 1e-9;
  return watchdog + std::min(watchdog * share_of_work * work_of(problem, splits), kMost);
}

inline constexpr double kBriefShare = 0.05;
// The brief watch's share of the clock's limit, if processor time is counted. It is larger than
// kBriefShare, because a busy machine may delay a worker.
inline constexpr double kBriefShareOfClock = 0.25;

// The time that a call spends compiling is not counted, up to this many times its allowance: compilers are
// slow, but a compiler may hang, too. This holds only for trusted kernels, because any kernel can say that it
// compiles.
inline constexpr double kTimesCompiling = 10;

inline constexpr double kTimesSlow = 4;

// Decides by the blocks done how much processor time a call may use up.
class Pace {
 public:
  Pace(double allowed, double most) : half_(allowed / 2), allowed_(allowed), most_(most), next_(half_) {}

  // `used`: the seconds used, `ended`: the blocks ended since the call began. Returns the seconds
  // that the call may have used before this is called again. If the result is at most `used`, the
  // time is up.
  double until(double used, uint64_t ended) {
    if (used < next_) return next_;
    goes_on_ = ended != seen_;
    seen_ = ended;
    if (used >= allowed_ && (!goes_on_ || used >= most_)) return used;
    while (next_ <= used) next_ += half_;
    return std::min(next_, std::max(most_, allowed_));
  }

  // True if a block ended in the last half of the allowance that the call has used up.
  bool goes_on() const { return goes_on_; }

 private:
  double half_, allowed_, most_, next_;
  uint64_t seen_ = 0;
  bool goes_on_ = false;
};

}  // namespace attnfuzz
