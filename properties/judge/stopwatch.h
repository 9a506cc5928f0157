// Adds the seconds of its lifetime to a sum.
//
//   { Stopwatch watch(verdict.oracle_s);  reference = evaluate(...); }
#pragma once

#include <chrono>

namespace attnfuzz {

class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  ~Stopwatch() { seconds_ += std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  double& seconds_;
  const Clock::time_point start_ = Clock::now();
};

}  // namespace attnfuzz
