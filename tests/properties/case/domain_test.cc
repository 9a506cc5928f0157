// Tests the members of a domain, how cases of it are drawn, and the intersection of two domains.
#include "properties/case/features/domain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "properties/case/codec/codec.h"
#include "properties/case/features/feature.h"
#include "properties/draw/generator.h"
#include "properties/draw/rapidcheck_rng.h"
#include "reference/semantics.h"

namespace attnfuzz {
namespace {

attn_domain domain_of(auto change) {
  attn_domain d = {};
  d.size = sizeof d;
  change(d);
  return d;
}

attn_sizes list(std::initializer_list<int64_t> values) {
  attn_sizes sizes = {};
  for (const int64_t n : values) sizes.list[sizes.count++] = n;
  return sizes;
}
attn_sizes range(int64_t least, int64_t most, int64_t multiple = 0) { return {least, most, multiple, 0, {}}; }

// Counts the values of one size over draws from a domain.
std::map<int64_t, int> drawn_values(const attn_domain& d, int64_t Problem::* size, uint64_t cases = 2000) {
  GeneratorConfig config;
  config.domain = d;
  std::map<int64_t, int> values;
  for (uint64_t i = 0; i < cases; ++i) ++values[draw(config, 1, i).problem.*size];
  return values;
}

int between(const std::map<int64_t, int>& values, int64_t low, int64_t high) {
  int sum = 0;
  for (const auto& [n, times] : values) sum += n >= low && n <= high ? times : 0;
  return sum;
}

// With 1,000 keys or more each octave is drawn, and most draws are not at the border.
TEST(Domain, AnOpenRangeIsDrawnLogUniformly) {
  const auto keys = drawn_values(domain_of([](attn_domain& d) {
                                   d.seq_q = list({1});
                                   d.seq_k = range(1000, 0);
                                 }),
                                 &Problem::seq_k);
  EXPECT_EQ(between(keys, 0, 999), 0);
  EXPECT_GT(keys.at(1000), 50);
  EXPECT_LT(keys.at(1000), 600);
  for (int64_t low = 1000; low < 16000; low *= 2) EXPECT_GT(between(keys, low, 2 * low - 1), 200) << low;
}

TEST(Domain, ARangeIsDrawnUpToItsEnds) {
  const auto keys = drawn_values(domain_of([](attn_domain& d) {
                                   d.seq_q = list({1});
                                   d.seq_k = range(1024, 4096);
                                 }),
                                 &Problem::seq_k);
  EXPECT_EQ(between(keys, 1024, 4096), 2000);
  EXPECT_GT(keys.at(1024), 50);
  EXPECT_GT(keys.at(4096), 50);
  EXPECT_GT(between(keys, 1025, 2047), 400);
  EXPECT_GT(between(keys, 2048, 4095), 400);
  EXPECT_GT(keys.size(), 700u);
}

TEST(Domain, AListIsDrawnEvenly) {
  const auto keys = drawn_values(domain_of([](attn_domain& d) {
                                   d.seq_q = list({1});
                                   d.seq_k = list({1024, 4096, 8192});
                                 }),
                                 &Problem::seq_k);
  for (const int64_t n : {1024, 4096, 8192}) {
    EXPECT_GT(keys.at(n), 500) << n;
    EXPECT_LT(keys.at(n), 850) << n;
  }
  const auto dims = drawn_values(domain_of([](attn_domain& d) {
                                   d.dim_qk = d.dim_v = list({64, 80, 128, 256});
                                   d.equal_dims = 1;
                                 }),
                                 &Problem::dim_qk);
  // Large heads are replaced if they cost too much.
  for (const int64_t n : {64, 80, 128, 256}) EXPECT_GT(dims.at(n), 120) << n;
}

// An upper limit does not change sizes below it, and half the dims are not at the limit.
TEST(Domain, SizesBelowALimitStayAsTheyAreDrawn) {
  const auto dims =
      drawn_values(domain_of([](attn_domain& d) { d.dim_qk = d.dim_v = range(1, 64); }), &Problem::dim_qk);
  EXPECT_EQ(between(dims, 1, 64), 2000);
  EXPECT_LT(dims.at(64), 900);
  EXPECT_GT(between(dims, 33, 63), 120);
  EXPECT_GT(dims.size(), 50u);
}

// Every draw is inside the domain, whatever sizes the domain couples.
TEST(Domain, DrawsAreInside) {
  const attn_domain domains[] = {
      domain_of([](attn_domain& d) { d.group = list({4}); }),
      domain_of([](attn_domain& d) { d.group = list({3, 8}), d.heads_q = range(5, 40); }),
      domain_of([](attn_domain& d) { d.heads_q = list({6, 7}), d.group = list({1, 3}); }),
      domain_of([](attn_domain& d) { d.seq_q = d.seq_k = range(0, 0, 32), d.equal_lengths = 1; }),
      domain_of([](attn_domain& d) { d.seq_q = range(0, 128), d.seq_k = range(64, 4096, 64); }),
      domain_of([](attn_domain& d) { d.dim_qk = list({192}), d.dim_v = list({128}); }),
      domain_of([](attn_domain& d) {
        d.seq_q = d.seq_k = list({64, 256, 1024}), d.dim_qk = d.dim_v = range(64, 0);
      })};
  for (const attn_domain& d : domains) {
    GeneratorConfig config;
    config.domain = d;
    for (uint64_t i = 0; i < 500; ++i) {
      const Case c = draw(config, 3, i);
      const Problem& p = c.problem;
      ASSERT_EQ(p.heads_q % p.heads_kv, 0) << encode(c);
      EXPECT_TRUE(holds(d.batch, p.batch) && holds(d.heads_q, p.heads_q) &&
                  holds(d.group, p.heads_q / p.heads_kv) && holds(d.seq_q, p.seq_q) &&
                  holds(d.seq_k, p.seq_k) && holds(d.dim_qk, p.dim_qk) && holds(d.dim_v, p.dim_v))
          << encode(c);
      Case fitted = c;
      fit(d, fitted);
      EXPECT_EQ(fitted, c);
    }
  }
}

// Equal lengths are those of each packed entry, too.
TEST(Domain, EqualLengthsHoldForPackedEntries) {
  GeneratorConfig config;
  config.features = ATTN_FEATURE_RAGGED | ATTN_FEATURE_PAGED;
  config.domain = domain_of([](attn_domain& d) { d.equal_lengths = 1; });
  int packed = 0, long_entries = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    const Case c = draw(config, 3, i);
    const Problem& p = c.problem;
    if (p.paging || (!p.packed_q && !p.packed_k)) continue;
    ++packed;
    ASSERT_TRUE(p.packed_q && p.packed_k) << encode(c);
    EXPECT_EQ(p.packed_q->lengths, p.packed_k->lengths) << encode(c);
    long_entries += std::ranges::any_of(p.packed_q->lengths, [](int64_t n) { return n > 16; });
    Case one_side = c;
    one_side.problem.packed_q.reset();
    fit(*config.domain, one_side);
    EXPECT_EQ(one_side.problem.packed_q->lengths, p.packed_k->lengths);
  }
  EXPECT_GT(packed, 150);
  EXPECT_GT(long_entries, 50);
}

// If keys stand for blocks, the alignments differ even with as many keys as queries: the diagonal lies by
// positions.
TEST(Domain, TheAlignmentHoldsForKeysOfBlocks) {
  for (const int32_t align : {ATTN_TOP_LEFT, ATTN_BOTTOM_RIGHT}) {
    GeneratorConfig config;
    config.features = ATTN_FEATURE_KEY_STEP;
    config.domain = domain_of([=](attn_domain& d) { d.align = 1 + align, d.equal_lengths = 1; });
    int with_blocks = 0, with_equal_positions = 0;
    for (uint64_t i = 0; i < 1000; ++i) {
      Case c = draw(config, 3, i);
      if (!has_key_blocks(c.problem) || !hides_by_diagonal(c.problem)) continue;
      const bool unlike =
          c.problem.key_lengths || c.problem.seq_q != most_positions(c.problem, c.problem.seq_k);
      with_blocks += unlike, with_equal_positions += !unlike;
      EXPECT_TRUE(!unlike || c.problem.align == align) << encode(c);
      c.problem.align = 1 - align;
      fit(*config.domain, c);
      EXPECT_EQ(c.problem.align, unlike ? align : 1 - align) << encode(c);
    }
    EXPECT_GT(with_blocks, 20);
    EXPECT_GT(with_equal_positions, 0) << "blocks of one key, one key apart";
  }
}

TEST(Domain, SizesIntersect) {
  const auto meet = [](const attn_sizes& a, const attn_sizes& b) {
    const auto both = intersection(a, b);
    return both ? in_words(*both) : "none";
  };
  EXPECT_EQ(meet(range(1, 0), range(0, 64)), "at most 64");
  EXPECT_EQ(meet(range(32, 512), range(100, 1000)), "from 100 to 512");
  EXPECT_EQ(meet(range(0, 0, 8), range(0, 100, 12)), "multiples of 24 at most 100");
  EXPECT_EQ(meet(list({32, 64, 128}), range(64, 0)), "64, 128");
  EXPECT_EQ(meet(list({32, 64, 128}), list({128, 256})), "128");
  EXPECT_EQ(meet(list({32, 64}), range(100, 0)), "none");
  EXPECT_EQ(meet(range(0, 64), range(65, 0)), "none");
  EXPECT_EQ(meet(range(33, 60), range(0, 0, 32)), "none");
  EXPECT_EQ(meet({}, {}), "any");
}

TEST(Domain, TheCallersDomainNarrowsTheDeclaredOne) {
  const attn_domain fp32 = domain_of([](attn_domain& d) {
    d.dtypes = 1u << ATTN_F32;
    d.dim_qk = d.dim_v = list({32, 64});
    d.causal = 1;
  });
  const auto both =
      narrowed(fp32, domain_of([](attn_domain& d) { d.dim_qk = range(48, 0), d.equal_dims = 1; }));
  ASSERT_TRUE(std::holds_alternative<attn_domain>(both)) << std::get<std::string>(both);
  const attn_domain& d = std::get<attn_domain>(both);
  EXPECT_EQ(d.dtypes, 1u << ATTN_F32);
  EXPECT_EQ(in_words(d.dim_v), "64");
  EXPECT_EQ(d.causal, 1);
  const auto why = [&](auto change) {
    const auto result = narrowed(fp32, domain_of(change));
    return std::holds_alternative<std::string>(result) ? std::get<std::string>(result) : "";
  };
  EXPECT_EQ(why([](attn_domain& x) { x.dim_qk = range(128, 0); }), "dim_qk: 32, 64 and at least 128");
  EXPECT_EQ(why([](attn_domain& x) { x.dtypes = 1u << ATTN_F16; }), "dtype: none of those declared");
  EXPECT_EQ(why([](attn_domain& x) { x.causal = 2; }), "causal: the two domains require different values");
  EXPECT_EQ(why([](attn_domain& x) { x.causal = 1; }), "");
}

}  // namespace
}  // namespace attnfuzz
