// A session's clock, in seconds of the campaign. It continues where the previous session stopped.
//
//   SessionClock clock(session.from);
//   clock.run_for(session.asked);
//   while (clock.left() > 0) ...
#pragma once

#include <algorithm>
#include <chrono>

namespace attnfuzz {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}
inline Clock::duration seconds_long(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

struct SessionClock {
  double from = 0;               // campaign time at its start
  Clock::time_point start, end;  // of the session

  explicit SessionClock(double from) : from(from), start(Clock::now()), end(start) {}
  void run_for(double seconds) {
    start = Clock::now();
    end = start + seconds_long(seconds);
  }
  double lasted() const { return seconds_since(start); }
  double now() const { return from + lasted(); }
  double left() const { return std::max(0.0, -seconds_since(end)); }
};

}  // namespace attnfuzz
