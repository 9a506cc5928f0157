// Why no setup of a step is possible: what was refused, and how often.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "properties/case/words.h"

namespace attnfuzz::train {

// Reasons in the order in which they came, each with the number of setups that it ruled out.
class Reasons {
 public:
  void add(const std::string& why) {
    const auto known = std::ranges::find(all_, why, &Reason::why);
    if (known == all_.end())
      all_.push_back({why, 1});
    else
      ++known->setups;
  }
  std::string text() const {
    constexpr size_t kMost = 4;
    std::string text;
    for (size_t n = 0; n < std::min(all_.size(), kMost); ++n)
      text += cat(n == 0 ? "" : "; ", all_[n].why, " (", all_[n].setups,
                  all_[n].setups == 1 ? " setup)" : " setups)");
    return all_.size() > kMost ? cat(text, "; and ", all_.size() - kMost, " more reasons") : text;
  }

 private:
  struct Reason {
    std::string why;
    int64_t setups;
  };
  std::vector<Reason> all_;
};

}  // namespace attnfuzz::train
