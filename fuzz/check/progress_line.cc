#include "fuzz/check/progress_line.h"

#include <algorithm>
#include <cstdio>

namespace attnfuzz {

ProgressLine::~ProgressLine() {
  if (terminal_) std::fprintf(stderr, "\r\033[K");
}

void ProgressLine::show(uint64_t done, uint64_t of, double seconds) {
  if (!terminal_ && seconds < next_) return;
  next_ = seconds + kEvery;
  const std::string share = of > 0 ? " of " + std::to_string(of) : "";
  std::fprintf(stderr, "%s%s: %llu%s cases, %.0f s, %.0f cases/s%s", terminal_ ? "\r\033[K" : "",
               label_.c_str(), (unsigned long long)done, share.c_str(), seconds,
               static_cast<double>(done) / std::max(seconds, 1e-9), terminal_ ? "" : "\n");
  std::fflush(stderr);
}

}  // namespace attnfuzz
