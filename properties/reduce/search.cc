#include "properties/reduce/search.h"

#include <algorithm>

#include "properties/case/codec/codec.h"
#include "properties/case/features/cost.h"

namespace attnfuzz {
namespace {

// The sizes that decide how long a large case runs: the rows of Q and K, and the pairs of a query and a key.
struct Size {
  __int128 rows, pairs;
};

Size size_of(const Case& c) {
  const Problem& p = c.problem;
  const __int128 queries = static_cast<__int128>(p.batch) * p.heads_q * p.seq_q;
  return {queries + static_cast<__int128>(p.batch) * p.heads_kv * p.seq_k, queries * p.seq_k};
}

// True if a case, however simple, is too large to replace another: fewer heads with more rows each may take
// minutes to pass.
bool too_large(const Case& c, const Case& found) {
  constexpr __int128 kRows = 1 << 16, kPairs = 1 << 22;
  const Size size = size_of(c), most = size_of(found);
  return size.rows > std::max(kRows, most.rows) || size.pairs > std::max(kPairs, most.pairs);
}

}  // namespace

Search::Search(const Case& found, const Verdict& verdict, std::string key, Evaluate evaluate,
               std::function<std::string(const Verdict&)> key_of, ReduceOptions options)
    : key_(std::move(key)),
      evaluate_(std::move(evaluate)),
      key_of_(std::move(key_of)),
      options_(std::move(options)),
      start_(std::chrono::steady_clock::now()),
      found_(found),
      best_(found),
      verdict_(verdict),
      cost_(complexity(found)),
      reported_(cost_) {
  known_.emplace(encode(found), Known{Answer::kFails, verdict});
}

double Search::elapsed() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

bool Search::out_of_time() const { return elapsed() >= options_.seconds || (options_.stop && options_.stop()); }

Borders Search::borders() const {
  Borders borders;
  if (verdict_.plan.tile_q > 0) borders.tile_q = verdict_.plan.tile_q;
  if (verdict_.plan.tile_k > 0) borders.tile_k = verdict_.plan.tile_k;
  return borders;
}

const Search::Known& Search::judge(const Case& c) {
  const std::string text = encode(c);
  if (const auto it = known_.find(text); it != known_.end()) return it->second;
  Known known{Answer::kPasses, {}};
  if (illegal(c)) {
    known.answer = Answer::kRefused;
    return known_.emplace(text, std::move(known)).first->second;
  }
  int failures = 0;
  const int attempts = std::max(options_.attempts, options_.confirmations);
  for (int i = 0; i < attempts && failures < options_.confirmations; ++i) {
    // Too few attempts remain to confirm it.
    if (options_.confirmations - failures > attempts - i) break;
    ++evaluations_;
    const double began = elapsed();
    Verdict verdict = evaluate_(c);
    if (verdict.outcome == Outcome::kRefused) {
      known.answer = Answer::kRefused;
      known.verdict = std::move(verdict);
      break;
    }
    const bool same = verdict.outcome == Outcome::kFail && key_of_(verdict) == key_;
    if (same) {
      ++failures;
      ++failures_;
      failing_seconds_ += elapsed() - began;
    }
    if (same || failures == 0) known.verdict = std::move(verdict);
  }
  if (failures >= options_.confirmations && known.answer != Answer::kRefused) known.answer = Answer::kFails;
  return known_.emplace(text, std::move(known)).first->second;
}

void Search::settle(Case& c) const {
  tidy(c);
  if (options_.fit) options_.fit(c);
  c.env.arithmetic = found_.env.arithmetic;  // the calibration belongs to that arithmetic
}

Search::Answer Search::ask(Case c, Verdict* verdict) {
  if (out_of_time()) return Answer::kPasses;
  settle(c);
  const Known& known = judge(c);
  if (verdict != nullptr) *verdict = known.verdict;
  return known.answer;
}

Case Search::settled(Case c) const {
  settle(c);
  return c;
}

bool Search::forced(const Case& was, Case changed) const {
  if (!options_.fit) return false;
  settle(changed);
  return changed == was;
}

bool Search::attempt(Case c, Step step) {
  if (out_of_time()) return false;
  settle(c);
  std::vector<int64_t> cost = complexity(c);
  if (cost >= cost_ || cost == avoided_ || too_large(c, found_)) return false;
  if (options_.may_take && !options_.may_take(best_, verdict_, c, step)) return false;
  const Known& known = judge(c);
  if (known.answer != Answer::kFails) return false;
  best_ = std::move(c);
  verdict_ = known.verdict;
  cost_ = std::move(cost);
  if (cost_ < reported_) {
    reported_ = cost_;
    reported_after_ = evaluations_;
    if (options_.on_better) options_.on_better(best_, verdict_);
  }
  return true;
}

void Search::restart(const Case& c, const Verdict& verdict) {
  best_ = c;
  if (options_.fit) options_.fit(best_);  // as it was judged
  verdict_ = verdict;
  cost_ = complexity(best_);
}

int64_t lower(Search& search, const Number& number, const std::function<void(Case& c, int64_t value)>& set) {
  if (number.now <= number.least) return number.now;
  std::vector<int64_t> values = {number.least, number.least + 1, number.least + 2};
  values.insert(values.end(), number.worth_trying.begin(), number.worth_trying.end());
  for (const int64_t period : number.periods) {
    if (period < 2) continue;
    const int64_t rest = number.now % period;
    for (int64_t v = rest; v < number.now && v <= rest + 2 * period; v += period) values.push_back(v);
  }
  std::erase_if(values, [&](int64_t v) { return v < number.least || v >= number.now; });
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());

  const auto to = [&](int64_t value) { return change(search, [&](Case& c) { set(c, value); }); };
  int64_t now = number.now, below = number.least - 1;
  for (const int64_t v : values) {
    if (to(v)) {
      now = v;
      break;
    }
    below = v;
  }
  // `below` does not fail and `now` does. If the failure is not monotone, this still ends beside a value that
  // passes.
  while (now - below > 1) {
    const int64_t middle = below + (now - below) / 2;
    if (to(middle)) {
      now = middle;
    } else {
      below = middle;
    }
  }
  return now;
}

}  // namespace attnfuzz
