#include "fuzz/batch/device/schedule.h"

#include <algorithm>
#include <utility>

namespace attnfuzz::batch {
namespace {

// Calls that stay together: one, and those in place behind it.
struct Group {
  size_t begin, end;
  double cost;
};

// Roughly proportional to the time on the device: a constant part, and the multiply-adds.
double cost_of(const Call& call) {
  constexpr double kOfLaunches = 0x1p22;
  return call.repeats * (multiply_adds(call.problem) + kOfLaunches);
}

}  // namespace

Schedule::Schedule(std::span<const Call> calls, int slots) : slot(calls.size()) {
  std::vector<Group> groups;
  for (size_t i = 0; i < calls.size(); ++i) {
    if (!calls[i].in_place || groups.empty()) groups.push_back({i, i, 0});
    groups.back().end = i + 1;
    groups.back().cost += cost_of(calls[i]);
  }
  std::ranges::sort(groups, [](const Group& a, const Group& b) {
    return std::pair(-a.cost, a.begin) < std::pair(-b.cost, b.begin);
  });
  std::vector<double> load(static_cast<size_t>(slots));
  for (const Group& group : groups) {
    const auto least = std::ranges::min_element(load);
    *least += group.cost;
    for (size_t i = group.begin; i < group.end; ++i) {
      order.push_back(i);
      slot[i] = static_cast<int>(least - load.begin());
    }
  }
}

}  // namespace attnfuzz::batch
