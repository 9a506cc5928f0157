#include "fuzz/check/failure/earlier.h"

#include <algorithm>
#include <chrono>

#include "fuzz/check/shard.h"
#include "properties/case/codec/codec_fields.h"

namespace attnfuzz {
namespace {

class Sequence {
 public:
  Sequence(const Failure& failure, Target& target, const Calibration& calibration, double seconds)
      : failure_(failure),
        target_(target),
        calibration_(calibration),
        key_(reduction_key(target.info(), failure.verdict)),
        until_(Clock::now() +
               std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))) {}

  // True if the failing case fails after these cases in a fresh worker.
  bool fails_after(const std::vector<Earlier>& cases) {
    target_.renew();
    for (const Earlier& one : cases) {
      if (out_of_time()) return false;
      judge(one.c, *one.property, target_, calibration_);
    }
    const Verdict verdict = judge(failure_.c, *failure_.property, target_, calibration_);
    return verdict.outcome == Outcome::kFail && reduction_key(target_.info(), verdict) == key_;
  }

  // A kernel that counts calls fails after many calls of any case. Tries repeated calls of only
  // the failing case, and returns the fewest that make it fail.
  std::optional<std::vector<Earlier>> its_own_calls() {
    const auto calls = [&](size_t count) {
      Earlier one = {failure_.index, failure_.c, find_property("reference")};
      one.c.calls.assign(count, Call{});
      return std::vector<Earlier>{std::move(one)};
    };
    size_t low = 0, high = 1;  // `low` calls do not make it fail
    while (high <= codec::kMaxCalls && !fails_after(calls(high))) {
      if (out_of_time()) return std::nullopt;
      low = high;
      high *= 4;
    }
    if (high > codec::kMaxCalls) return std::nullopt;
    while (high - low > 1 && !out_of_time()) {
      const size_t middle = (low + high) / 2;
      (fails_after(calls(middle)) ? high : low) = middle;
    }
    return calls(high);
  }

  // Returns at most kFewEarlier cases, if so few suffice and the time allows.
  std::vector<Earlier> few(const std::vector<Earlier>& cases) {
    if (cases.size() > kFewEarlier) {
      if (auto own = its_own_calls()) return std::move(*own);
    }
    return fewest(cases);
  }

  // Leaves out halves, quarters, ... of the cases, until every remaining case is needed.
  std::vector<Earlier> fewest(std::vector<Earlier> cases) {
    for (size_t part = std::max<size_t>(cases.size() / 2, 1); !out_of_time();) {
      bool fewer = false;
      for (size_t at = 0; at < cases.size() && !out_of_time();) {
        std::vector<Earlier> rest = cases;
        const auto from = rest.begin() + static_cast<std::ptrdiff_t>(at);
        rest.erase(from, from + static_cast<std::ptrdiff_t>(std::min(part, rest.size() - at)));
        if (fails_after(rest)) {
          cases = std::move(rest);
          fewer = true;
        } else {
          at += part;
        }
      }
      if (part == 1 && !fewer) break;
      part = std::max<size_t>(part / 2, 1);
    }
    return cases;
  }

  bool out_of_time() const { return Clock::now() > until_; }

 private:
  using Clock = std::chrono::steady_clock;
  const Failure& failure_;
  Target& target_;
  const Calibration& calibration_;
  const std::string key_;
  const Clock::time_point until_;
};

}  // namespace

std::optional<std::vector<Earlier>> earlier_cases(const Failure& failure, Target& target,
                                                  const Calibration& calibration, const CheckOptions& options,
                                                  double seconds) {
  const GeneratorConfig config = config_for(target, options);
  Sequence sequence(failure, target, calibration, seconds);
  std::optional<std::vector<Earlier>> found;
  std::vector<Earlier> cases;
  const auto step = static_cast<uint64_t>(options.jobs);
  uint64_t index = failure.index, asked = 0;
  for (uint64_t many = 1; many <= kMostEarlier && !found && !sequence.out_of_time(); many *= 2) {
    std::vector<Earlier> more;
    for (; asked < many && index >= options.first + step; ++asked) {
      index -= step;
      auto [c, property] = case_at(config, options, target, calibration, index);
      if (!rejected_by(*property, c, target)) more.push_back({index, c, property});
    }
    if (more.empty()) continue;
    std::ranges::reverse(more);
    cases.insert(cases.begin(), more.begin(), more.end());
    if (sequence.fails_after(cases)) found = sequence.few(cases);
  }
  target.renew();
  return found;
}

}  // namespace attnfuzz
