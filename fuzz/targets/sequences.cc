// Sequences of calls as a server makes them, in processes that live on: a prefill; then chunks and single
// tokens appended to a key-value cache; then a shorter cache, another stream, a dirty workspace, and the
// first call once more.
//
// The cache is K and V of the case, with seq_k as its capacity. Key lengths say how much of it is filled;
// the rest holds NaN. Prefills and chunks go to the first kernel, tokens to the second, as in servers. Each
// call is compared with the oracle by itself, so a failure is state that one call left to another.
#include <algorithm>
#include <vector>

#include "fuzz/targets/target.h"

namespace attnfuzz {
namespace {

struct Request {
  size_t kernel;
  Case c;
};

// The case with `filled` keys in the cache. Its queries are the last `queries` positions.
Case at(const Case& base, int64_t queries, int64_t filled) {
  Case c = base;
  Problem& p = c.problem;
  p.seq_q = queries;
  p.causal = true;
  p.align = ATTN_BOTTOM_RIGHT;
  p.key_lengths = std::vector<int64_t>(static_cast<size_t>(p.batch), std::clamp<int64_t>(filled, 0, p.seq_k));
  c.nan_beyond_lengths = true;
  c.calls = {Call{}};
  std::erase_if(c.planted,
                [&](const Planted& x) { return x.tensor == TensorId::kQ || x.tensor == TensorId::kBias; });
  return c;
}

// Lengthens every second batch entry by one, so that lengths differ.
void uneven(Case& c) {
  auto& lengths = *c.problem.key_lengths;
  for (size_t b = 1; b < lengths.size(); b += 2) lengths[b] = std::min(lengths[b] + 1, c.problem.seq_k);
}

std::vector<Request> requests(const Case& c) {
  enum : size_t { kPrefills, kTokens };
  const int64_t prompt = std::min(c.problem.seq_q, c.problem.seq_k);
  const int64_t chunk = std::clamp<int64_t>(c.problem.seq_k - prompt, 1, 5);
  std::vector<Request> all;
  all.push_back({kPrefills, at(c, prompt, prompt)});
  all.push_back({kPrefills, at(c, chunk, prompt + chunk)});
  for (const int64_t more : {1, 2}) {
    all.push_back({kTokens, at(c, 1, prompt + chunk + more)});
    uneven(all.back().c);
  }
  all.push_back({kTokens, at(c, 1, prompt / 2)});
  Case again = at(c, prompt, prompt);
  again.calls = {{false, 1}, {true, 0}};
  all.push_back({kPrefills, again});
  again = at(c, 1, prompt + chunk);
  again.calls = {{true, 1}, {true, 1}};
  all.push_back({kTokens, again});
  all.push_back({kPrefills, at(c, prompt, prompt)});
  return all;
}

// Judges the requests, and not the unit itself, which other targets judge. Skips illegal and refused requests.
Judged judge_requests(Bench& bench, const Case& c) {
  Judged last;
  last.verdict.outcome = Outcome::kRefused;
  if (c.problem.seq_k < 1) return last;
  for (const Request& request : requests(c)) {
    if (illegal(request.c)) continue;
    Judged judged = bench.judge(request.kernel, request.c, "reference");
    if (judged.verdict.outcome == Outcome::kFail) return judged;
    if (judged.verdict.outcome != Outcome::kRefused) last = std::move(judged);
  }
  return last;
}

}  // namespace

extern const FuzzTarget kFuzzTarget = {"fuzz_sequences", {"fa1", "splitk"}, judge_requests};

}  // namespace attnfuzz
