// Tests the reducer on synthetic failures: from whatever case a bug was found, it must end
// in one minimal case. Predicates stand for kernels, so a test takes milliseconds.
#include "properties/reduce/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <set>

#include "properties/case/codec/codec.h"
#include "properties/case/features/cost.h"
#include "properties/case/places/geometry.h"
#include "properties/case/words.h"
#include "properties/data/fills.h"
#include "properties/data/recipe.h"
#include "tests/properties/support/random_case.h"

namespace attnfuzz {
namespace {

using Predicate = std::function<bool(const Case&)>;

std::string key_of(const Verdict& v) { return kind_class(v.kind); }

Verdict verdict_of(const Case& c, bool fails) {
  Verdict v;
  v.outcome = fails ? Outcome::kFail : Outcome::kPass;
  v.kind = fails ? Kind::kWrong : Kind::kNone;
  v.plan.tile_q = c.env.variant == 2 ? 128 : 64;
  v.plan.tile_k = 64;
  return v;
}

ReduceOptions options(double seconds) {
  ReduceOptions o;
  o.seconds = seconds;
  return o;
}

struct Survey {
  std::set<std::string> minima;
  Case minimal;
  Reduction last;
  int64_t starts = 0, evaluations = 0, worst = 0;
};

// Reduces the first `starts` random cases that fail, and surveys the results.
Survey survey(const char* name, const Predicate& fails, int starts = 24, const Predicate& refused = {},
              size_t distinct = 1) {
  Survey s;
  const Evaluate evaluate = [&](const Case& c) {
    EXPECT_FALSE(illegal(c)) << *illegal(c) << " " << encode(c);
    Verdict v = verdict_of(c, fails(c));
    if (refused && refused(c)) {
      v.outcome = Outcome::kRefused;
      v.kind = Kind::kNone;
    }
    return v;
  };
  for (uint64_t seed = 0; s.starts < starts && seed < 200'000; ++seed) {
    const Case c = random_case(seed);
    if (illegal(c)) continue;
    const Verdict v = evaluate(c);
    if (v.outcome != Outcome::kFail) continue;
    const Reduction r = reduce(c, v, key_of(v), evaluate, key_of, options(60));
    EXPECT_TRUE(r.complete);
    EXPECT_TRUE(fails(r.minimal)) << describe(r.minimal);
    ++s.starts;
    s.evaluations += r.evaluations;
    s.worst = std::max(s.worst, r.evaluations);
    if (s.minima.insert(encode(r.minimal)).second) {
      std::printf("  %s <- seed %llu\n", describe(r.minimal).c_str(), static_cast<unsigned long long>(seed));
    }
    s.minimal = r.minimal;
    s.last = r;
  }
  std::printf("%-34s %lld starts, %zu minima, evaluations: mean %lld, worst %lld\n", name,
              static_cast<long long>(s.starts), s.minima.size(),
              static_cast<long long>(s.starts ? s.evaluations / s.starts : 0), static_cast<long long>(s.worst));
  std::printf("    %s; indifferent:", describe(s.minimal).c_str());
  for (const auto& n : lines_of(s.last.needs)) std::printf(" [%s]", n.c_str());
  for (const auto& n : s.last.indifferent) std::printf(" %s,", n.c_str());
  std::printf("\n");
  EXPECT_EQ(s.starts, starts) << "too few random cases fail";
  EXPECT_EQ(s.minima.size(), distinct);
  return s;
}

bool contains(const std::vector<std::string>& list, const std::string& what) {
  return std::ranges::find(list, what) != list.end();
}

TEST(Reduce, AlwaysFailsEndsInTheSimplestCase) {
  const Survey s = survey("always", [](const Case&) { return true; });
  Case simplest;
  simplest.problem.seq_q = simplest.problem.seq_k = 0;
  simplest.q.kind = simplest.k.kind = simplest.v.kind = FillKind::kZero;
  EXPECT_EQ(s.minimal, simplest) << describe(s.minimal);
}

TEST(Reduce, CausalBeyondATile) {
  const Survey s =
      survey("seq_k > 64 && causal", [](const Case& c) { return c.problem.seq_k > 64 && c.problem.causal; });
  EXPECT_EQ(s.minimal.problem.seq_k, 65);
  EXPECT_TRUE(s.minimal.problem.causal);
  EXPECT_EQ(s.minimal.problem.align, ATTN_TOP_LEFT);
  EXPECT_TRUE(contains(lines_of(s.last.needs), "needs seq_k >= 65"));
  EXPECT_TRUE(contains(lines_of(s.last.needs), "needs causal (top-left)"));
  EXPECT_TRUE(contains(s.last.indifferent, "dtype"));
  EXPECT_TRUE(contains(s.last.indifferent, "batch"));
  EXPECT_TRUE(contains(s.last.indifferent, "values of v"));
  EXPECT_TRUE(contains(s.last.indifferent, "alignment"));
}

TEST(Reduce, GroupedHeads) {
  const Survey s = survey("heads_q != heads_kv && seq_k >= 65", [](const Case& c) {
    return c.problem.heads_q != c.problem.heads_kv && c.problem.seq_k >= 65;
  });
  EXPECT_EQ(s.minimal.problem.heads_q, 2);
  EXPECT_EQ(s.minimal.problem.heads_kv, 1);
  EXPECT_EQ(s.minimal.problem.seq_k, 65);
}

bool dead_row_in_tile_0(const Case& c) {
  const Problem& p = c.problem;
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t h = 0; h < p.heads_q; ++h) {
      for (int64_t i = 0; i < std::min<int64_t>(p.seq_q, 64); ++i) {
        bool any = false;
        for (int64_t j = 0; j < p.seq_k && !any; ++j) any = sees(c, b, h, i, j);
        if (!any) return true;
      }
    }
  }
  return false;
}

TEST(Reduce, DeadRowInTheFirstTile) {
  const Survey s = survey("a dead row in tile 0", dead_row_in_tile_0);
  EXPECT_EQ(s.minimal.problem.seq_q, 1);
  EXPECT_EQ(s.minimal.problem.seq_k, 0);
}

// Many features can make a dead row. The reducer must always choose the same one.
TEST(Reduce, DeadRowWithKeys) {
  survey("a dead row, seq_k > 0", [](const Case& c) { return c.problem.seq_k > 0 && dead_row_in_tile_0(c); });
}

TEST(Reduce, FullyMaskedTile) {
  // Some row sees key 0 but no key of a later tile.
  const Survey s = survey("a fully masked later tile", [](const Case& c) {
    const Problem& p = c.problem;
    for (int64_t i = 0; i < std::min<int64_t>(p.seq_q, 64); ++i) {
      if (p.seq_k < 65 || !sees(c, 0, 0, i, 0)) continue;
      bool any = false;
      for (int64_t j = 64; j < std::min<int64_t>(p.seq_k, 128) && !any; ++j) any = sees(c, 0, 0, i, j);
      if (!any) return true;
    }
    return false;
  });
  EXPECT_EQ(s.minimal.problem.seq_q, 1);
  EXPECT_EQ(s.minimal.problem.seq_k, 65);
}

TEST(Reduce, AProductOfLengths) {
  const Survey s =
      survey("seq_q * seq_k >= 1000", [](const Case& c) { return c.problem.seq_q * c.problem.seq_k >= 1000; });
  EXPECT_EQ(s.minimal.problem.seq_q, 32);
  EXPECT_EQ(s.minimal.problem.seq_k, 32);
}

TEST(Reduce, ADifferenceOfLengths) {
  survey("seq_k - seq_q >= 10, seq_q > 3",
         [](const Case& c) { return c.problem.seq_k - c.problem.seq_q >= 10 && c.problem.seq_q > 3; });
}

TEST(Reduce, AResidue) {
  const Survey s = survey("seq_k % 64 == 1, >= 65",
                          [](const Case& c) { return c.problem.seq_k % 64 == 1 && c.problem.seq_k >= 65; });
  EXPECT_EQ(s.minimal.problem.seq_k, 65);
  EXPECT_TRUE(contains(lines_of(s.last.needs), "needs seq_k = 1 (mod 64)"));
}

TEST(Reduce, ThreeFeatures) {
  survey("bf16 && softcap && causal", [](const Case& c) {
    return c.problem.dtype == ATTN_BF16 && c.problem.softcap > 0 && c.problem.causal && c.problem.seq_q >= 3;
  });
  survey("bias && splits && gqa", [](const Case& c) {
    return c.problem.bias && c.problem.num_splits > 1 && c.problem.heads_q != c.problem.heads_kv;
  });
  survey("window && dirty && lengths", [](const Case& c) {
    bool dirty = false;
    for (const Call& call : c.calls) dirty |= call.dirty_workspace;
    return c.problem.window_left >= 0 && dirty && c.problem.key_lengths && c.problem.seq_k >= 65;
  });
}

TEST(Reduce, FourFeatures) {
  survey("bf16, causal, gqa, schedule", [](const Case& c) {
    return c.problem.dtype == ATTN_BF16 && c.problem.causal && c.problem.heads_q > c.problem.heads_kv &&
           c.env.schedule_seed != 0 && c.problem.seq_q > 64;
  });
}

TEST(Reduce, Dtype) {
  const Survey s = survey("bf16", [](const Case& c) { return c.problem.dtype == ATTN_BF16; });
  EXPECT_TRUE(contains(lines_of(s.last.needs), "needs bf16"));
}

TEST(Reduce, Dims) {
  survey("dim_qk % 8 != 0", [](const Case& c) { return c.problem.dim_qk % 8 != 0; });
  survey("dim_v != dim_qk", [](const Case& c) { return c.problem.dim_v != c.problem.dim_qk; });
  survey("dim_v > 64", [](const Case& c) { return c.problem.dim_v > 64; });
}

// The kernel takes only some dims. A refusal of other dims is not a pass.
TEST(Reduce, RefusedDims) {
  const Survey s = survey(
      "causal, dims of 16 only", [](const Case& c) { return c.problem.causal && c.problem.seq_k > 64; }, 24,
      [](const Case& c) {
        return c.problem.dim_qk % 16 != 0 || c.problem.dim_v != c.problem.dim_qk || c.problem.dim_qk > 128;
      });
  EXPECT_EQ(s.minimal.problem.dim_qk, 16);
}

TEST(Reduce, Batch) {
  survey("second batch entry", [](const Case& c) { return c.problem.batch > 1 && c.problem.seq_q > 1; });
  survey("blocks of work", [](const Case& c) {
    return c.problem.batch * c.problem.heads_q * ((c.problem.seq_q + 63) / 64) >= 5;
  });
}

// One block for each head and batch entry. A case that passes is computed completely, which is slow, so the
// reducer may try only few cases just below the limit, and none larger than the found one.
TEST(Reduce, MoreBlocksThanAGridHasRows) {
  std::set<std::string> minima;
  for (const bool heads : {false, true}) {
    for (const int64_t kv : {int64_t{1}, int64_t{65536}}) {
      Case found;
      Problem& p = found.problem;
      p.batch = heads ? 1 : 65537;
      p.heads_q = heads ? 65536 : 1;
      p.heads_kv = heads ? kv : 1;
      p.seq_k = 0;
      p.dim_qk = p.dim_v = 8;
      p.causal = true;
      int dear = 0;
      const Evaluate evaluate = [&](const Case& c) {
        const int64_t blocks = c.problem.batch * c.problem.heads_q, rows = blocks * c.problem.seq_q;
        const bool fails = blocks > 65535 && rows > 0;
        dear += !fails && rows > 16384;
        if (!fails) EXPECT_LE(rows, 65537) << describe(c);
        return verdict_of(c, fails);
      };
      const Verdict v = evaluate(found);
      const Reduction r = reduce(found, v, key_of(v), evaluate, key_of, options(60));
      EXPECT_TRUE(r.complete);
      EXPECT_LE(dear, 16) << describe(found);
      minima.insert(describe(r.minimal));
    }
  }
  EXPECT_EQ(minima, std::set<std::string>{"B=1 H=65536/65536 S=1/0 D=1/1 f16; Q, K, V zero; 1 call"});
}

// As many KV heads as query heads are simpler, but here they make the case eight times as large.
TEST(Reduce, TriesNoCaseMuchLargerThanTheFoundOne) {
  Case found;
  found.problem.heads_q = 8;
  found.problem.seq_k = 65536;
  const Evaluate evaluate = [](const Case& c) {
    const Problem& p = c.problem;
    const bool fails = p.heads_q == 8 && p.heads_kv == 1 && p.seq_q >= 1 && p.seq_k > 65535;
    // A case with more heads is run only to learn whether their number matters.
    if (!fails && p.heads_q <= 8) EXPECT_LE(p.batch * p.heads_kv * p.seq_k, 2 * 65536) << describe(c);
    return verdict_of(c, fails);
  };
  const Verdict v = evaluate(found);
  EXPECT_TRUE(reduce(found, v, key_of(v), evaluate, key_of, options(60)).complete);
}

// Large values turn a wrong number into an infinity. The reducer must reach the wrong number.
TEST(Reduce, AnInfinityThatIsAWrongNumber) {
  Case found;
  found.problem.seq_k = 130;
  found.v.exponent = 12;
  const Evaluate evaluate = [](const Case& c) {
    const bool overflows = c.v.exponent >= 10 && c.problem.seq_k >= 65;
    const Problem& p = c.problem;
    Verdict v = verdict_of(c, p.seq_q >= 1 && p.seq_k >= 2 && c.v.kind != FillKind::kZero);
    if (v.outcome == Outcome::kFail && overflows) v.kind = Kind::kNonFinite;
    return v;
  };
  const Verdict v = evaluate(found);
  ASSERT_EQ(v.kind, Kind::kNonFinite);
  const Reduction r = reduce(found, v, key_of(v), evaluate, key_of, options(60));
  EXPECT_EQ(r.verdict.kind, Kind::kWrong);
  EXPECT_EQ(describe(r.minimal), "B=1 H=1/1 S=1/2 D=1/1 f16; Q, K zero, V constant; 1 call");
}

TEST(Reduce, KeyLengths) {
  survey("a length below seq_k", [](const Case& c) {
    if (!c.problem.key_lengths) return false;
    for (const int64_t n : *c.problem.key_lengths) {
      if (n > 64 && n < c.problem.seq_k) return true;
    }
    return false;
  });
  survey("nan beyond lengths", [](const Case& c) {
    if (!c.nan_beyond_lengths) return false;
    for (const int64_t n : *c.problem.key_lengths) {
      if (n % 64 != 0 && n < c.problem.seq_k) return true;
    }
    return false;
  });
}

TEST(Reduce, Windows) {
  survey("window_left >= 17", [](const Case& c) {
    return c.problem.window_left >= 17 && c.problem.seq_k > c.problem.window_left + 3;
  });
  survey("window and bottom-right", [](const Case& c) {
    return c.problem.window_left >= 0 && c.problem.align == ATTN_BOTTOM_RIGHT &&
           c.problem.seq_k != c.problem.seq_q;
  });
}

TEST(Reduce, Splits) {
  survey("more splits than tiles", [](const Case& c) {
    return c.problem.num_splits > (c.problem.seq_k + 63) / 64 && c.problem.seq_k > 0;
  });
}

TEST(Reduce, Layouts) {
  // Strides can differ in two ways, and the reducer cannot know that both show one bug.
  survey(
      "K's stride is not V's",
      [](const Case& c) { return c.layout[1].row_gap != c.layout[2].row_gap && c.problem.seq_k > 1; }, 24, {},
      2);
  survey("q's offset is odd", [](const Case& c) { return c.layout[0].offset % 2 == 1; });
}

// The bug needs rows that begin inside a vector. A spread of 2^24 + 1 does that, and so does a row gap of 1,
// but none of the spreads in between that the reducer tries.
TEST(Reduce, ASpreadThatIsARowGap) {
  Case found;
  found.problem.seq_k = 2;
  found.problem.dim_v = 8;
  found.layout[static_cast<size_t>(TensorId::kV)].spread = (1 << 24) + 1;
  const Evaluate evaluate = [](const Case& c) {
    const auto v = geometry(c, TensorId::kV);
    return verdict_of(c, v && c.problem.dim_v == 8 && c.problem.seq_k > 1 && v->stride[2] % 8 != 0);
  };
  const Verdict v = evaluate(found);
  ASSERT_EQ(v.outcome, Outcome::kFail);
  const Reduction r = reduce(found, v, key_of(v), evaluate, key_of, options(60));
  EXPECT_EQ(describe(r.minimal), "B=1 H=1/1 S=0/2 D=1/8 f16; Q, K, V zero; v row gap 1; 1 call");
}

// If the case also fails with a clean workspace, that failure's kind counts, not the kind with a dirty
// workspace.
TEST(Reduce, ADirtyWorkspaceThatIsNotNeeded) {
  Case found;
  found.calls[0].dirty_workspace = true;
  const Evaluate evaluate = [](const Case& c) {
    Verdict v = verdict_of(c, c.problem.seq_k > 0);
    if (v.outcome == Outcome::kFail && !c.calls[0].dirty_workspace) v.kind = Kind::kNonFinite;
    return v;
  };
  const Verdict v = evaluate(found);
  const Reduction r = reduce(found, v, key_of(v), evaluate, key_of, options(60));
  EXPECT_EQ(r.verdict.kind, Kind::kNonFinite);
  EXPECT_EQ(describe(r.minimal), "B=1 H=1/1 S=0/1 D=1/1 f16; Q, K, V zero; 1 call");
}

TEST(Reduce, Data) {
  survey("V is not constant", [](const Case& c) {
    return c.v.kind != FillKind::kConstant && c.v.kind != FillKind::kZero && c.problem.seq_k >= 2;
  });
  survey("huge Q", [](const Case& c) { return c.q.kind == FillKind::kHuge && c.problem.dim_qk >= 2; });
  survey("planted NaN", [](const Case& c) { return !c.planted.empty() && c.problem.seq_k >= 2; });
}

TEST(Reduce, InputsBesideQKV) {
  Case found;
  found.problem.features |= ATTN_FEATURE_BACKWARD;
  found.dout = {.kind = FillKind::kGaussian, .exponent = 3, .seed = 77};
  ASSERT_FALSE(illegal(found)) << *illegal(found);
  const auto dout_of = [&](const Predicate& fails) {
    const Evaluate evaluate = [&](const Case& c) { return verdict_of(c, fails(c)); };
    const Verdict v = evaluate(found);
    return reduce(found, v, key_of(v), evaluate, key_of, options(60)).minimal.dout;
  };
  EXPECT_EQ(dout_of([](const Case&) { return true; }), Fill{.kind = FillKind::kZero});
  EXPECT_EQ(dout_of([](const Case& c) { return c.dout.kind == FillKind::kGaussian; }),
            Fill{.kind = FillKind::kGaussian});
}

TEST(Reduce, Schedules) {
  survey("some schedules", [](const Case& c) { return c.env.schedule_seed % 3 == 2 && c.problem.seq_k >= 2; });
}

TEST(Reduce, Calls) {
  survey("the second call", [](const Case& c) { return c.calls.size() >= 2 && c.problem.seq_k >= 64; });
  survey("a dirty second call",
         [](const Case& c) { return c.calls.size() >= 2 && c.calls[1].dirty_workspace; });
}

TEST(Reduce, AnotherVariantsTiles) {
  survey("rows beyond the tile",
         [](const Case& c) { return c.problem.seq_q > (c.env.variant == 2 ? 128 : 64); });
  survey("variant 2 only", [](const Case& c) { return c.env.variant == 2 && c.problem.seq_q > 128; });
}

// Fails four times in five. With k of n attempts a candidate is rarely missed.
TEST(Reduce, Flaky) {
  std::map<std::string, int> minima;
  int64_t evaluations = 0;
  for (uint64_t start = 0; start < 20; ++start) {
    uint64_t draws = 0;
    const Evaluate evaluate = [&](const Case& c) {
      const bool lucky = mix(start, ++draws, 0, 0, 0) % 5 == 0;
      return verdict_of(c, c.problem.seq_k > 64 && c.problem.causal && !lucky);
    };
    Case c;
    c.problem.seq_q = 100 + static_cast<int64_t>(start);
    c.problem.seq_k = 200;
    c.problem.causal = true;
    const Reduction r = reduce(c, verdict_of(c, true), "wrong", evaluate, key_of,
                               {.seconds = 30, .confirmations = 1, .attempts = 8, .on_better = {}});
    ++minima[describe(r.minimal)];
    evaluations += r.evaluations;
  }
  std::printf("%-34s 20 starts, %zu minima, evaluations: mean %lld\n", "flaky 4 in 5", minima.size(),
              static_cast<long long>(evaluations / 20));
  EXPECT_EQ(minima.size(), 1u);
}

TEST(Reduce, ConfirmationsKeepALuckyFailureOut) {
  // Any case fails once in four times by accident; only long sequences always fail.
  uint64_t draws = 0;
  const Evaluate evaluate = [&](const Case& c) {
    return verdict_of(c, c.problem.seq_k >= 65 || mix(9, ++draws, 0, 0, 0) % 4 == 0);
  };
  Case c;
  c.problem.seq_k = 130;
  const Reduction r = reduce(c, verdict_of(c, true), "wrong", evaluate, key_of,
                             {.seconds = 30, .confirmations = 8, .attempts = 8, .on_better = {}});
  EXPECT_EQ(r.minimal.problem.seq_k, 65);
}

TEST(Reduce, KeepsTheKey) {
  // Smaller cases crash instead of giving a wrong result. The reducer must not move to the crash.
  const Evaluate evaluate = [](const Case& c) {
    Verdict v = verdict_of(c, c.problem.seq_k >= 10);
    if (c.problem.seq_k < 40 && v.outcome == Outcome::kFail) v.kind = Kind::kCrash;
    return v;
  };
  Case c;
  c.problem.seq_k = 300;
  const Reduction r = reduce(c, evaluate(c), "wrong", evaluate, key_of, {});
  EXPECT_EQ(r.minimal.problem.seq_k, 40);
  EXPECT_EQ(r.verdict.kind, Kind::kWrong);
}

TEST(Reduce, StopsOnTimeWithTheBestSoFar) {
  const Evaluate slow = [](const Case& c) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
    while (std::chrono::steady_clock::now() < until) {
    }
    return verdict_of(c, c.problem.seq_k >= 100);
  };
  Case c = random_case(7);
  c.problem.key_lengths.reset();
  c.nan_beyond_lengths = false;
  c.planted.clear();
  c.problem.seq_k = 257;
  Case reported = c;
  const Reduction r = reduce(
      c, verdict_of(c, true), "wrong", slow, key_of,
      {.seconds = 0.1, .confirmations = 1, .attempts = 1, .on_better = [&](const Case& best, const Verdict&) {
         EXPECT_LT(complexity(best), complexity(reported));
         reported = best;
       }});
  EXPECT_FALSE(r.complete);
  EXPECT_LT(complexity(r.minimal), complexity(c));
  EXPECT_EQ(reported, r.minimal);
}

}  // namespace
}  // namespace attnfuzz
