// The reducer's state: the best case so far, and what has been tried.
//
// Everything that proposes candidates goes through attempt(), which keeps the
// reducer's three promises: only legal cases are run, only strictly simpler
// ones are taken, and only if the same key comes back. Answers are remembered,
// so passes may propose freely.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <unordered_map>

#include "properties/case/cost.h"
#include "properties/case/switches.h"
#include "properties/reduce/reduce.h"

namespace attnfuzz {

// Sizes at which kernels change their behaviour: from the plan of the found case.
struct Borders {
  int64_t tile_q = 64, tile_k = 64;
  int64_t tile_of(const Dial& dial) const { return dial.kind == DialKind::kQueries ? tile_q : tile_k; }
};

class Search {
 public:
  enum class Answer { kFails, kPasses, kRefused };

  Search(const Case& found, const Verdict& verdict, std::string key, Evaluate evaluate,
         std::function<std::string(const Verdict&)> key_of, ReduceOptions options);

  const Case& best() const { return best_; }
  const Verdict& verdict() const { return verdict_; }
  Borders borders() const;

  // Tidies and judges a case, if it is simpler than the best, may be taken in its
  // place (ReduceOptions) and is not so much larger than the found one that it takes
  // too long: on failure with the key it becomes the best.
  bool attempt(Case c, Step step = Step::kPass);
  // Judges a case whatever it costs. kRefused: the kernel rejects it, or it is illegal.
  Answer ask(Case c, Verdict* verdict = nullptr);
  // The case as it would be judged: inside of what the kernel takes.
  Case settled(Case c) const;
  // Whether a change of `was` comes to nothing, for the kernel says that it takes nothing else.
  bool forced(const Case& was, Case changed) const;
  // Starts over from another case, which must have failed.
  void restart(const Case& c, const Verdict& verdict);
  // From now on attempt() does not take this case: a way around it is looked for.
  void avoid(const Case& c) { avoided_ = complexity(c); }
  void avoid_nothing() { avoided_.clear(); }

  // Sets the wall clock's limit anew, from the beginning of the search.
  void give(double seconds) { options_.seconds = seconds; }
  bool out_of_time() const;
  double elapsed() const;
  const ReduceOptions& options() const { return options_; }
  int64_t evaluations() const { return evaluations_; }
  // Evaluations until the simplest case so far was found.
  int64_t best_found_after() const { return reported_after_; }
  // Mean seconds of an evaluation that failed with the key; 0 before the first.
  double seconds_of_a_failure() const {
    return failures_ > 0 ? failing_seconds_ / static_cast<double>(failures_) : 0;
  }

 private:
  struct Known {
    Answer answer;
    Verdict verdict;
  };
  // As a candidate is tried: without what hangs on nothing, as options say, in the arithmetic it was found in.
  void settle(Case& c) const;
  const Known& judge(const Case& c);

  std::string key_;
  Evaluate evaluate_;
  std::function<std::string(const Verdict&)> key_of_;
  ReduceOptions options_;
  std::chrono::steady_clock::time_point start_;
  Case found_;
  Case best_;
  Verdict verdict_;
  std::vector<int64_t> cost_;
  std::vector<int64_t> avoided_;
  std::vector<int64_t> reported_;  // cost of what on_better saw last
  std::unordered_map<std::string, Known> known_;
  int64_t evaluations_ = 0;
  int64_t reported_after_ = 0;
  int64_t failures_ = 0;
  double failing_seconds_ = 0;
};

// Attempts the best case, edited.
template <typename Edit>
bool change(Search& s, Edit&& edit) {
  Case c = s.best();
  edit(c);
  return s.attempt(std::move(c));
}

// Lowers a number from `now` towards `least`: tries the least values, each of
// `worth_trying`, and what the number leaves after division by each of
// `periods`, from the smallest up; then halves the distance to what does not fail.
struct Number {
  int64_t now, least;
  std::vector<int64_t> worth_trying = {};
  std::vector<int64_t> periods = {};
};
// Returns the value reached. `set` makes the candidate of the best case.
int64_t lower(Search& search, const Number& number, const std::function<void(Case& c, int64_t value)>& set);

}  // namespace attnfuzz
