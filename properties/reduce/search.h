// The reducer's state: the best case so far, and the answers to everything that was tried.
//
// Every candidate goes through attempt(). It runs legal cases only, and takes a case only if it is strictly
// simpler and fails with the same key. Answers are remembered, so passes may propose freely.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <unordered_map>

#include "properties/case/features/cost.h"
#include "properties/case/features/shrink_toggles.h"
#include "properties/reduce/reduce.h"

namespace attnfuzz {

// The sizes at which the kernel changes its behaviour, from the plan of the found case.
struct Borders {
  int64_t tile_q = 64, tile_k = 64;
  int64_t tile_of(const ShrinkInteger& integer) const {
    return integer.kind == IntegerKind::kQueries ? tile_q : tile_k;
  }
};

class Search {
 public:
  enum class Answer { kFails, kPasses, kRefused };

  Search(const Case& found, const Verdict& verdict, std::string key, Evaluate evaluate,
         std::function<std::string(const Verdict&)> key_of, ReduceOptions options);

  const Case& best() const { return best_; }
  const Verdict& verdict() const { return verdict_; }
  Borders borders() const;

  // Tidies and judges a candidate. It must be simpler than the best case, allowed by ReduceOptions, and not so
  // much larger than the found case that it takes too long. If it fails with the key, it becomes the best case.
  bool attempt(Case c, Step step = Step::kPass);
  // Judges a case whatever its cost. kRefused: the kernel refuses it, or it is illegal.
  Answer ask(Case c, Verdict* verdict = nullptr);
  // The case as it would be judged, inside the kernel's domain.
  Case settled(Case c) const;
  // True if a change of `was` has no effect, because the kernel takes nothing else.
  bool forced(const Case& was, Case changed) const;
  // Starts again from another failing case.
  void restart(const Case& c, const Verdict& verdict);
  // From now on attempt() does not take this case, so that a way around it is found.
  void avoid(const Case& c) { avoided_ = complexity(c); }
  void avoid_nothing() { avoided_.clear(); }

  // Sets a new limit for the wall clock, from the beginning of the search.
  void give(double seconds) { options_.seconds = seconds; }
  bool out_of_time() const;
  double elapsed() const;
  const ReduceOptions& options() const { return options_; }
  int64_t evaluations() const { return evaluations_; }
  // The number of evaluations until the simplest case so far was found.
  int64_t best_found_after() const { return reported_after_; }
  // Mean seconds of an evaluation that failed with the key; 0 before the first one.
  double seconds_of_a_failure() const {
    return failures_ > 0 ? failing_seconds_ / static_cast<double>(failures_) : 0;
  }

 private:
  struct Known {
    Answer answer;
    Verdict verdict;
  };
  // Brings a candidate into the form in which it is tried: tidied, moved as the options say, with the
  // arithmetic of the found case.
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
  std::vector<int64_t> reported_;  // cost of the last case given to on_better
  std::unordered_map<std::string, Known> known_;
  int64_t evaluations_ = 0;
  int64_t reported_after_ = 0;
  int64_t failures_ = 0;
  double failing_seconds_ = 0;
};

// Attempts an edited copy of the best case.
template <typename Edit>
bool change(Search& s, Edit&& edit) {
  Case c = s.best();
  edit(c);
  return s.attempt(std::move(c));
}

// Lowers a number from `now` towards `least`. It tries the least values, each of `worth_trying`, and the
// remainder of the number by each of `periods`, from the smallest up. Then it halves the distance to a
// value that does not fail.
struct Number {
  int64_t now, least;
  std::vector<int64_t> worth_trying = {};
  std::vector<int64_t> periods = {};
};
// Returns the value that was reached. `set` makes a candidate from the best case.
int64_t lower(Search& search, const Number& number, const std::function<void(Case& c, int64_t value)>& set);

}  // namespace attnfuzz
