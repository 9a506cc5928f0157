#include "fuzz/campaign/run/triage_process.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/processes.h"
#include "fuzz/campaign/triage/triage.h"

namespace attnfuzz {

size_t TriageProcess::waiting() const {
  size_t sum = 0;
  for (const auto& kinds : shared_.waiting) {
    for (const auto& n : kinds) sum += static_cast<size_t>(std::max<int32_t>(n, 0));
  }
  return sum;
}

void TriageProcess::look() {
  char* message = slot().message;
  if (pid_ >= 0) {
    const auto ending = ended(pid_);
    if (!ending) return;
    pid_ = -1;
    if (!ending->how.empty()) {
      note_triage_exit(options_.dir);
      ++restarts_;
      events_.say("restart", {{"triage", true}, {"why", message[0] ? message : ending->how}});
      rest_ = Clock::now() + std::chrono::seconds(1);
    }
  }
  if (waiting() == 0 || Clock::now() < rest_) return;
  message[0] = 0;
  pid_ = start_child(
      [&] {
        // Uses the first GPU if a crash of a GPU waits.
        if (!gpu_.empty()) setenv("CUDA_VISIBLE_DEVICES", gpu_.c_str(), 1);
        triage({options_, targets_, shared_, slot().waits});
        // Corrects the counts of waiting crashes, which a kill can leave too high.
        for (auto& kinds : shared_.waiting) {
          if (shared_.finish) break;
          for (auto& n : kinds) n = 0;
        }
      },
      message, sizeof slot().message);
}

void TriageProcess::end() {
  shared_.finish = true;
  if (pid_ < 0) return;
  for (int i = 0; i < 20; ++i) {
    if (ended(pid_)) {
      pid_ = -1;
      return;
    }
    usleep(50'000);
  }
  end_child(pid_);
  pid_ = -1;
}

}  // namespace attnfuzz
