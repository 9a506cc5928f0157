// Runs this reducer on those problems of the public shrinking challenge
// (github.com/jlink/shrinking-challenge) that carry over, from 100 random starts each.
//
// The reducer knows only attention cases, so each problem is expressed in fields of a
// case that have its structure:
//   bound5            five lists of 16-bit integers   values planted in V; the batch entry is the list
//   lengthlist        a length, then so many numbers  batch, then a key length for each entry
//   coupling          numbers that are indices        key lengths that name batch entries
//   difference        two numbers                     seq_q and seq_k
//   large union list  a list of lists of integers     as bound5
// Where the original draws under an assumption, this test refuses cases that break the
// assumption. The predicate stands for the kernel.
//
//   shrinking_challenge_test     prints the table of docs/results/shrinking.md
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <ostream>
#include <set>

#include "properties/case/codec/codec.h"
#include "properties/case/words.h"
#include "properties/data/fills.h"
#include "properties/reduce/reduce.h"

namespace attnfuzz {
namespace {

constexpr int kStarts = 100;

class Draw {
 public:
  explicit Draw(uint64_t seed) : seed_(seed) {}
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(mix(seed_, ++count_, 0, 0, 0) % static_cast<uint64_t>(high - low + 1));
  }

 private:
  uint64_t seed_, count_ = 0;
};

struct Challenge {
  const char* name;
  Case (*draw)(Draw& draw);
  bool (*allowed)(const Case& c);  // the original's assumption
  bool (*fails)(const Case& c);
  // Limits for the mean over all starts: the evaluations until the minimum is reached, and
  // all evaluations, most of which are spent on canonical cases and on variations.
  int64_t most_reached, most_evaluations;
  const char* minimal;    // the minimal case in the words of describe()
  const char* published;  // "library: minima, mean evaluations (least-most)"
};

void PrintTo(const Challenge& challenge, std::ostream* out) { *out << challenge.name; }

Planted value(int64_t list, int64_t at, uint16_t bits) {
  return {.tensor = TensorId::kV, .b = list, .h = 0, .s = at, .d = 0, .bits = bits};
}

bool anything(const Case&) { return true; }

// The 16-bit sum of the values planted in V, for each list.
std::map<int64_t, int16_t> sums(const Case& c) {
  std::map<int64_t, int16_t> sums;
  for (const Planted& x : c.planted) {
    if (x.tensor != TensorId::kV) continue;
    int16_t& sum = sums[x.b];
    sum = static_cast<int16_t>(static_cast<uint16_t>(sum) + x.bits);
  }
  return sums;
}

Case draw_bound5(Draw& draw) {
  Case c;
  c.problem.batch = 5;
  c.problem.seq_k = 10;
  for (int64_t list = 0; list < 5; ++list) {
    for (int64_t at = 0, n = draw.between(0, 10); at < n; ++at) {
      c.planted.push_back(value(list, at, static_cast<uint16_t>(draw.between(0, 0xfffe))));
    }
  }
  return c;
}

bool allowed_bound5(const Case& c) {
  return std::ranges::all_of(sums(c), [](const auto& list) { return list.second < 256; });
}

bool fails_bound5(const Case& c) {
  uint16_t total = 0;
  for (const auto& [list, sum] : sums(c)) total = static_cast<uint16_t>(total + static_cast<uint16_t>(sum));
  return static_cast<int16_t>(total) >= 5 * 256;
}

Case draw_lengthlist(Draw& draw) {
  Case c;
  c.problem.batch = draw.between(1, 100);
  c.problem.seq_k = 1000;
  c.problem.key_lengths.emplace();
  for (int64_t b = 0; b < c.problem.batch; ++b) c.problem.key_lengths->push_back(draw.between(0, 1000));
  return c;
}

bool fails_lengthlist(const Case& c) {
  return c.problem.key_lengths &&
         std::ranges::any_of(*c.problem.key_lengths, [](int64_t n) { return n >= 900; });
}

Case draw_coupling(Draw& draw) {
  Case c;
  c.problem.batch = draw.between(1, 11);
  c.problem.seq_k = 10;
  c.problem.key_lengths.emplace();
  for (int64_t b = 0; b < c.problem.batch; ++b) c.problem.key_lengths->push_back(draw.between(0, 10));
  return c;
}

bool allowed_coupling(const Case& c) {
  return !c.problem.key_lengths ||
         std::ranges::all_of(*c.problem.key_lengths, [&](int64_t n) { return n >= 0 && n < c.problem.batch; });
}

bool fails_coupling(const Case& c) {
  if (!c.problem.key_lengths) return false;
  const auto& l = *c.problem.key_lengths;
  for (size_t i = 0; i < l.size(); ++i) {
    const auto j = static_cast<size_t>(l[i]);
    if (j != i && l[j] == static_cast<int64_t>(i)) return true;
  }
  return false;
}

// One time in two the numbers are near each other, because independent numbers hardly ever fail.
Case draw_difference(Draw& draw) {
  Case c;
  c.problem.seq_q = draw.between(1, 20'000);
  c.problem.seq_k = draw.between(0, 1) ? draw.between(1, 20'000)
                                       : std::max<int64_t>(c.problem.seq_q + draw.between(-5, 5), 1);
  return c;
}

int64_t difference(const Case& c) { return std::llabs(c.problem.seq_q - c.problem.seq_k); }
bool positive(const Case& c) { return c.problem.seq_q > 0 && c.problem.seq_k > 0; }
bool fails_zero(const Case& c) { return c.problem.seq_q >= 10 && difference(c) == 0; }
bool fails_small(const Case& c) { return c.problem.seq_q >= 10 && difference(c) >= 1 && difference(c) <= 4; }
bool fails_one(const Case& c) { return c.problem.seq_q >= 10 && difference(c) == 1; }

Case draw_union(Draw& draw) {
  Case c;
  c.problem.batch = draw.between(1, 10);
  c.problem.seq_k = 10;
  for (int64_t list = 0; list < c.problem.batch; ++list) {
    for (int64_t at = 0, n = draw.between(0, 10); at < n; ++at) {
      c.planted.push_back(value(list, at, static_cast<uint16_t>(draw.between(0, 0xfffe))));
    }
  }
  return c;
}

bool fails_union(const Case& c) {
  std::set<uint32_t> distinct;
  for (const Planted& x : c.planted) {
    if (x.tensor == TensorId::kV) distinct.insert(x.bits);
  }
  return distinct.size() > 4;
}

const Challenge kChallenges[] = {
    {"bound5", draw_bound5, allowed_bound5, fails_bound5, 1000, 5000,
     "B=2 H=1/1 S=0/1 D=1/1 f16; Q, K, V zero, v(0,0,0,0) = 0x8000, v(1,0,0,0) = 0x8500; 1 call",
     "Hypothesis 1, 137 (109-253); jqwik 45, 24940 (414-1492565); RapidCheck 100, 4864 (to 14392)"},
    {"lengthlist", draw_lengthlist, anything, fails_lengthlist, 800, 1200,
     "B=1 H=1/1 S=0/0 D=1/1 f16 key lengths 900; Q, K, V zero; 1 call",
     "Hypothesis 1, 85 (47-115); jqwik 1, 717 (110-2132); RapidCheck 48"},
    {"coupling", draw_coupling, allowed_coupling, fails_coupling, 80, 4000,
     "B=2 H=1/1 S=0/0 D=1/1 f16 key lengths 1,0; Q, K, V zero; 1 call",
     "jqwik 1, 140 (31-341); fast-check 26, 68 (4-207)"},
    {"difference zero", draw_difference, positive, fails_zero, 120, 1200,
     "B=1 H=1/1 S=10/10 D=1/1 f16; Q, K, V zero; 1 call", "jqwik 1, 386 (58-579)"},
    {"difference small", draw_difference, positive, fails_small, 120, 1200,
     "B=1 H=1/1 S=10/6 D=1/1 f16; Q, K, V zero; 1 call", "jqwik 1, 296 (67-1023)"},
    {"difference one", draw_difference, positive, fails_one, 120, 1200,
     "B=1 H=1/1 S=10/9 D=1/1 f16; Q, K, V zero; 1 call", "jqwik 2 in 55 runs, 513 (68-1053)"},
    {"large union list", draw_union, anything, fails_union, 200, 1000,
     "B=1 H=1/1 S=0/1 D=1/5 f16; Q, K, V zero, v(0,0,0,0) = 0x0, v(0,0,0,1) = 0x3c00, v(0,0,0,2) = 0x7c00, "
     "2 more planted values; 1 call",
     "Hypothesis 1, 341 (213-472); jqwik 3, 81 (55-137); fast-check 52, 1162 (392-1452)"},
};

std::string key_of(const Verdict& v) { return kind_class(v.kind); }

class Shrinking : public testing::TestWithParam<Challenge> {};

TEST_P(Shrinking, EndsInOneCase) {
  const Challenge& challenge = GetParam();
  const Evaluate evaluate = [&](const Case& c) {
    Verdict v;
    v.plan.tile_q = v.plan.tile_k = 64;
    if (!challenge.allowed(c)) {
      v.outcome = Outcome::kRefused;
    } else if (challenge.fails(c)) {
      v.outcome = Outcome::kFail;
      v.kind = Kind::kWrong;
    }
    return v;
  };
  std::set<std::string> minima;
  int64_t all = 0, least = INT64_MAX, most = 0, reached = 0;
  int starts = 0;
  for (uint64_t seed = 0; starts < kStarts && seed < 2'000'000; ++seed) {
    Draw draw(seed);
    const Case c = challenge.draw(draw);
    const Verdict v = evaluate(c);
    if (v.outcome != Outcome::kFail) continue;
    ASSERT_FALSE(illegal(c)) << *illegal(c);
    ++starts;
    ReduceOptions options;
    options.seconds = 60;
    const Reduction r = reduce(c, v, key_of(v), evaluate, key_of, options);
    EXPECT_TRUE(r.complete);
    EXPECT_EQ(evaluate(r.minimal).outcome, Outcome::kFail);
    EXPECT_LE(r.reached, r.evaluations);
    if (minima.insert(encode(r.minimal)).second) EXPECT_EQ(describe(r.minimal), challenge.minimal);
    all += r.evaluations;
    reached += r.reached;
    least = std::min(least, r.evaluations);
    most = std::max(most, r.evaluations);
  }
  ASSERT_EQ(starts, kStarts) << "too few draws fail";
  reached /= starts;
  all /= starts;
  std::printf("| %-16s | %3zu | %4lld | %4lld (%lld-%lld) | %s |\n", challenge.name, minima.size(),
              static_cast<long long>(reached), static_cast<long long>(all), static_cast<long long>(least),
              static_cast<long long>(most), challenge.published);
  EXPECT_EQ(minima.size(), 1u);
  EXPECT_LE(reached, challenge.most_reached);
  EXPECT_LE(all, challenge.most_evaluations);
}

INSTANTIATE_TEST_SUITE_P(Challenge, Shrinking, testing::ValuesIn(kChallenges), [](const auto& info) {
  std::string name = info.param.name;
  std::erase(name, ' ');
  return name;
});

}  // namespace
}  // namespace attnfuzz
