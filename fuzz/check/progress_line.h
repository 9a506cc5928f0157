// How far a check is, on standard error: on a terminal one line, written over and
// over; elsewhere a line every half minute, so that a log shows that it lives.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace attnfuzz {

class ProgressLine {
 public:
  ProgressLine(std::string label, bool terminal) : label_(std::move(label)), terminal_(terminal) {}
  ~ProgressLine();
  // `of`: 0 if that is not known; `seconds` since the beginning.
  void show(uint64_t done, uint64_t of, double seconds);

 private:
  static constexpr double kEvery = 30;
  const std::string label_;
  const bool terminal_;
  double next_ = kEvery;
};

}  // namespace attnfuzz
