#include "properties/sequences/draw/mutate.h"

#include "properties/sequences/draw/draw.h"
#include "properties/sequences/reduce/reduce.h"
#include "properties/sequences/session/model.h"

namespace attnfuzz::sequences {
namespace {

constexpr size_t kMostMutatedSteps = 48;

void join(Session& s, const Session& other) {
  const auto before = static_cast<int64_t>(s.steps.size());
  for (Step step : other.steps) {
    if (step.verb == Verb::kReplay) step.count += before;
    s.steps.push_back(step);
  }
}

void change_numbers(Step& step, Rng& rng) {
  switch (rng.range(0, 3)) {
    case 0:
      step.stream = 1 - step.stream;
      break;
    case 1:
      step.kernel = rng.range(0, 3);
      break;
    case 2:
      step.split = step.verb == Verb::kAttend ? rng.range(0, 3) : 0;
      break;
    default:
      if (step.counts.empty()) step.count = std::max<int64_t>(step.count + rng.range(-2, 2), 0);
      break;
  }
}

}  // namespace

Session mutate_session(const Session& session, Rng& rng, uint64_t features) {
  const Session other = draw_session(rng, features);
  Session s = session;
  if (s.steps.empty()) return other;
  const auto n = static_cast<size_t>(rng.range(0, std::ssize(s.steps) - 1));
  switch (rng.range(0, 4)) {
    case 0:
      drop_step(s, n);
      break;
    case 1:
      s.steps.push_back(Step(s.steps[n]));
      break;
    case 2:
      change_numbers(s.steps[n], rng);
      break;
    case 3:
      join(s, other);
      break;
    default:
      s.setup = other.setup;
      break;
  }
  if (rng.percent(10)) s.relation = other.relation;
  if (s.steps.size() > kMostMutatedSteps) s.steps.resize(kMostMutatedSteps);
  s = repaired(s);
  return s.steps.empty() || objection(s) ? other : s;
}

}  // namespace attnfuzz::sequences
